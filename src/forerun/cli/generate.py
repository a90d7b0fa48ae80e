"""``forerun generate``: one prompt, with the rounds shown."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forerun.cli.parser import add_drafting_flags, add_model_flags, add_sampling_flags, drafting_of, sampling_params
from forerun.cli.rows import add_row_flags, check_row_flags, row_limits
from forerun.errors import ForerunError

if TYPE_CHECKING:
    from forerun.cli.terminal import Terminal
    from forerun.conditions import Conditions
    from forerun.engine.engine import Engine
    from forerun.engine.request import Completion
    from forerun.engine.round import RoundEvent
    from forerun.models.tokenizer import Tokenizer


_PICTURES = {code: chr(0x2400 + code) for code in range(32)} | {9: "⇥", 10: "⏎", 127: "\N{SYMBOL FOR DELETE}"}


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Flags of ``forerun generate``."""
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--prompt", help="the text to continue, or with --chat the user's turn")
    source.add_argument("--prompt-file", metavar="FILE", help="read the prompt from a file; - is standard input")
    parser.add_argument("--chat", action="store_true", help="put the prompt through the model's chat template")
    parser.add_argument(
        "--show-rounds",
        action="store_true",
        help="a line per round: tokens followed by · were accepted, those by × rejected; last, the target's own",
    )
    parser.add_argument(
        "--cache-bytes", metavar="SIZE", help="memory for keys and values, such as 2GiB (default: what the run takes)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    add_model_flags(parser)
    add_drafting_flags(parser)
    add_row_flags(parser)
    add_sampling_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Generates; text as it comes, then the counts, or one JSON object."""
    params = sampling_params(args)
    check_row_flags(args)
    drafting = drafting_of(args)
    text = _read_prompt(args)

    from forerun.cache.byte_size import read_bytes
    from forerun.cli.progress import load_with_progress
    from forerun.cli.terminal import Terminal
    from forerun.conditions import NO_ARTIFACT
    from forerun.engine.describe import conditions_of
    from forerun.engine.engine import Engine
    from forerun.models.device import choose_kv_dtype
    from forerun.models.loading.int8_gate import describe_gate

    cache_bytes = None if args.cache_bytes is None else read_bytes(args.cache_bytes)
    choose_kv_dtype(args.kv_dtype)
    loaded = load_with_progress(args.model, dtype=args.dtype, device=args.device, exact=not args.inexact)
    if args.dtype == "int8":
        print(f"forerun: int8 weights, {describe_gate(loaded.artifact.hash)} (docs/quantisation.md)", file=sys.stderr)
    drafter = None
    if args.draft_model:
        draft_dtype = args.draft_dtype or args.dtype
        drafter = load_with_progress(args.draft_model, dtype=draft_dtype, device=args.device, exact=not args.inexact)
    prompt = _prompt_ids(loaded.tokenizer, text, is_chat=args.chat)
    # The engine cuts an output where the context ends, so more room than that is never used.
    longest = min(len(prompt) + params.max_tokens, loaded.target.traits.max_context) + drafting.max_rows + 32
    limits = row_limits(args, loaded)
    engine = Engine(
        loaded,
        drafting,
        draft_model=drafter,
        cache_tokens=None if cache_bytes else longest * params.n,
        cache_bytes=cache_bytes,
        kv_dtype=args.kv_dtype,
        limits=limits,
    )
    if args.json:
        artifact = drafter.artifact if drafter else NO_ARTIFACT
        started = conditions_of(engine, params, loaded.artifact, artifact, concurrency=1)
        completions = engine.generate([prompt], params)
        _print_json(completions, replace(started, harness="forerun generate").ended())
        return 0
    if args.show_rounds and limits is not None:
        print(f"rows: {limits.describe(engine.prefill_rows)}")
    events = engine.stream(prompt, params)
    completions = _show(Terminal(), engine, events, show_rounds=args.show_rounds)
    for completion in completions:
        _print_counts(completion, is_choice=params.n > 1, is_exact=loaded.target.traits.is_bit_exact)
    return 0


def _read_prompt(args: argparse.Namespace) -> str:
    """The prompt's text as it stands: its line ends are kept, only a byte order mark is no part of it."""
    if args.prompt_file is None:
        # Bytes of the command line that are no text arrive as lone surrogates.
        data, source = str(args.prompt).encode("utf-8", errors="surrogatepass"), "--prompt"
    elif args.prompt_file == "-":
        data, source = sys.stdin.buffer.read(), "standard input"
    else:
        data, source = _read_file(Path(args.prompt_file)), args.prompt_file
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        found = f"byte 0x{data[error.start]:02x} at place {error.start}"
        raise ForerunError(f"UTF-8 text in {source}", found, "convert it to UTF-8") from error
    if not text:
        raise ForerunError("a prompt of at least one token", f"nothing in {source}", "write something to continue")
    return text


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        found = error.strerror or str(error)
        raise ForerunError(f"a readable text file {path}", found, "correct the path") from error


def _print_json(completions: Sequence[Completion], conditions: Conditions) -> None:
    """One object on one line; several choices lie in its ``choices``. Escaped, so that every terminal gets it whole."""
    objects = [{**completion.to_json(), "conditions": asdict(conditions)} for completion in completions]
    for completion, item in zip(completions, objects, strict=True):
        if completion.logprobs:
            item["logprobs"] = [asdict(entry) for entry in completion.logprobs]
    print(json.dumps(objects[0] if len(objects) == 1 else {"choices": objects}))


def _prompt_ids(tokenizer: Tokenizer | None, text: str, *, is_chat: bool) -> list[int]:
    if tokenizer is None:
        raise ForerunError("a model with a tokenizer", "none beside the weights", "add its tokenizer.json")
    if is_chat:
        return list(tokenizer.chat([{"role": "user", "content": text}]))
    return list(tokenizer.encode(text))


def _show(terminal: Terminal, engine: Engine, events: Iterator[RoundEvent], *, show_rounds: bool) -> list[Completion]:
    """Text as it streams (several choices: each when all are done), or a line per round."""
    requests: dict[int, Any] = {}
    num_rounds: dict[int, int] = {}
    for event in events:
        requests[event.request.id] = event.request
        if show_rounds:
            num_rounds[event.request.id] = num_rounds.get(event.request.id, -1) + 1
            terminal.print(_round_line(engine, event, num_rounds[event.request.id]), soft_wrap=True)
        elif event.request.params.n == 1:
            print(event.text, end="", flush=True)
    completions = [engine.completion(requests[id]) for id in sorted(requests)]
    if show_rounds or len(completions) > 1:
        for completion in completions:
            title = f"choice {completion.choice}:\n" if len(completions) > 1 else "\n"
            print(f"{title}{completion.text}")
    else:
        print()
    return completions


def _round_line(engine: Engine, event: RoundEvent, number: int) -> Any:
    """Accepted tokens green, rejected ones red and struck through, the target's own token blue."""
    from rich.text import Text

    assert engine.tokenizer is not None, "a prompt of text has a tokenizer"
    decode = engine.tokenizer.decode
    choice = f"choice {event.request.sampler.choice} " if event.request.params.n > 1 else ""
    line = Text()
    line.append(f"{choice}{'prefill' if event.is_prefill else f'round {number}':>9} ", style="dim")
    accepted = set(event.accepted_rows)
    for index, token in enumerate(event.draft.tokens):
        is_accepted = index + 1 in accepted
        line.append(_visible(decode([token])), style="green" if is_accepted else "red strike")
        line.append("·" if is_accepted else "×", style="dim")
    if len(event.tokens) > len(event.accepted_rows):
        line.append(_visible(decode([event.tokens[-1]])), style="bold blue")
    summary = f"   {len(event.accepted_rows)} of {len(event.draft)} accepted" if len(event.draft) else ""
    line.append(summary, style="dim")
    return line


def _visible(text: str) -> str:
    """Signs that would move the cursor or colour the terminal, as pictures of themselves."""
    return text.translate(_PICTURES)


def _print_counts(completion: Completion, *, is_choice: bool, is_exact: bool) -> None:
    from forerun import ratios

    counts, timings = completion.counts, completion.timings
    parts = [
        f"{len(completion.token_ids)} tokens",
        f"finish: {completion.finish_reason}",
        f"seed {completion.seed}",
        f"{counts.rounds} rounds ({counts.rounds_without_draft} without a draft)",
        f"{counts.accepted} of {counts.drafted} drafted tokens accepted",
        f"{_number(ratios.tokens_per_round(counts))} tokens per round",
        f"draft {timings.draft:.2f} s, verify {timings.verify:.2f} s, sample {timings.sample:.2f} s, "
        f"other {timings.other:.2f} s",
    ]
    if not is_exact:
        parts.append("inexact: this text may depend on what was drafted")
    prefix = f"choice {completion.choice}: " if is_choice else ""
    print(f"\n{prefix}{'; '.join(parts)}", file=sys.stderr)
    accepted = ratios.conditional_acceptance(counts)
    if accepted:
        shown = " ".join(_number(value) for value in accepted)
        print(f"{prefix}acceptance by position, given all before: {shown}", file=sys.stderr)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
