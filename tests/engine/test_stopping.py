"""Text and stop strings: nothing of a stop string gets out, whatever the borders of tokens."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from forerun.engine.stopping import TextWatcher


class Letters:
    """Token k of a fixed list is a piece of text."""

    def __init__(self, pieces: list[str]) -> None:
        self.pieces = pieces

    def push(self, tokens: list[int]) -> str:
        return "".join(self.pieces[token] for token in tokens)

    def finish(self) -> str:
        return ""


def stream(pieces: list[str], stops: tuple[str, ...], *, min_tokens: int = 0) -> tuple[list[str], TextWatcher]:
    watcher = TextWatcher(Letters(pieces), stops)  # type: ignore[arg-type]
    out = []
    for token in range(len(pieces)):
        out.append(watcher.push(token, may_stop=token + 1 >= min_tokens))
        if watcher.is_stopped:
            break
    out.append(watcher.finish())
    return out, watcher


def test_a_stop_across_token_borders_is_cut_and_never_streamed() -> None:
    out, watcher = stream(["He", "llo E", "N", "D of it"], ("END",))
    assert watcher.text == "Hello " == "".join(out)
    assert watcher.is_stopped
    assert out[1] == "llo "


def test_held_back_text_comes_out_when_it_was_no_stop() -> None:
    out, watcher = stream(["a E", "N", "X"], ("END",))
    assert out == ["a ", "", "ENX", ""]
    assert not watcher.is_stopped


def test_held_back_text_comes_out_at_the_end() -> None:
    out, watcher = stream(["a EN"], ("END",))
    assert watcher.text == "a EN" == "".join(out)


def test_the_earliest_stop_wins() -> None:
    _, watcher = stream(["one two three"], ("three", "two"))
    assert watcher.text == "one "


def test_no_stop_below_the_minimum_length() -> None:
    _, watcher = stream(["x.", "y.", "z."], (".",), min_tokens=2)
    assert watcher.is_stopped
    assert watcher.text == "x.y"


@given(st.lists(st.text("ab", max_size=4), max_size=12), st.lists(st.text("ab", min_size=1, max_size=3), max_size=2))
def test_equals_cutting_the_whole_text(pieces: list[str], stops: list[str]) -> None:
    out, watcher = stream(pieces, tuple(stops))
    seen = ""
    for piece in pieces:
        seen += piece
        found = [seen.find(stop) for stop in stops if stop in seen]
        if found:
            seen = seen[: min(found)]
            break
    assert watcher.text == "".join(out) == seen
