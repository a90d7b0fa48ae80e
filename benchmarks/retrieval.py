"""What retrieval costs with a large corpus: building, memory, observing and proposing, on friendly and hostile tokens.

python -m benchmarks.retrieval                  # 1,000,000 tokens, both methods, about two minutes
python -m benchmarks.retrieval --feed           # the same corpus while it is fed, about four minutes
"""

from __future__ import annotations

import argparse
import functools
import gc
import random
import re
import sysconfig
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.command import run_script
from forerun.drafters.base import DraftLimit, DraftRequest
from forerun.drafters.registry import build
from forerun.sampling.keyed_sampler import KeyedSampler
from forerun.sampling.params import SamplingParams

REQUEST_TOKENS = 4_000
NUM_REPEATS = 3
ANSWER_TOKENS = 200
TOKENS_A_ROUND = 4
# What a pass takes for each request of a batch, at the least: eight requests and a pass of eight milliseconds.
PASS_SECONDS = 1e-3
TOO_LONG = 2e-3
MICRO = 1e6

# Retrieval drafters have a corpus beside what every drafter has.
AnyDrafter = Any


@dataclass(frozen=True, slots=True)
class Case:
    """A corpus and the requests that are answered beside it, by name."""

    name: str
    corpus: list[list[int]]
    requests: dict[str, list[int]]


def source_files(num_tokens: int) -> list[list[int]]:
    """The standard library's files as ids of words, blanks and signs: tokens of text that anybody has."""
    ids: dict[str, int] = {}
    files: list[list[int]] = []
    for path in sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        if "site-packages" in path.parts:
            continue
        pieces = re.findall(r"\w+|\s+|[^\w\s]", path.read_text(encoding="utf-8", errors="replace"))
        files.append([ids.setdefault(piece, len(ids)) for piece in pieces])
        num_tokens -= len(pieces)
        if num_tokens <= 0:
            break
    return files


def edited(tokens: Sequence[int], rng: random.Random) -> list[int]:
    """The text with one token in forty replaced: what an edit of known text looks like."""
    return [rng.choice(tokens) if rng.random() < 1 / 40 else token for token in tokens]


def cases(num_tokens: int) -> Iterator[Case]:
    """Source text first, then what is hardest for matching, counting and memory."""
    rng = random.Random(0)
    pool = [token for file in source_files(num_tokens + 10 * REQUEST_TOKENS) for token in file]
    text, unseen = pool[:num_tokens], pool[num_tokens + 5 * REQUEST_TOKENS :][:REQUEST_TOKENS]
    middle = num_tokens // 2
    yield Case(
        "text",
        [text[i : i + 5_000] for i in range(0, num_tokens, 5_000)],
        {"unseen": unseen, "edit": edited(text[middle : middle + REQUEST_TOKENS], rng), "loop": unseen[:50] * 80},
    )
    yield Case("equal", [[7] * num_tokens], {"equal": [7] * REQUEST_TOKENS})
    noise = [rng.randrange(50_000) for _ in range(num_tokens)]
    yield Case("noise", [noise], {"noise": [rng.randrange(50_000) for _ in range(REQUEST_TOKENS)]})
    bits = [rng.randrange(2) for _ in range(num_tokens)]
    yield Case("bits", [bits], {"bits": [rng.randrange(2) for _ in range(REQUEST_TOKENS)]})


def new_drafter(method: str, num_tokens: int) -> AnyDrafter:
    return build(method, {"max_corpus_tokens": num_tokens, "max_corpus_sequences": num_tokens})


def request() -> DraftRequest:
    sampler = KeyedSampler(SamplingParams(), seed=0, choice=0, prompt=(), eos_token_ids=(), vocab_size=100)
    return DraftRequest(0, (), sampler)


def seconds(call: Callable[[], object]) -> float:
    started = time.thread_time()
    call()
    return time.thread_time() - started


def summary(times: Sequence[float]) -> str:
    """Median, 99th percentile and maximum in microseconds."""
    ranked = sorted(times)
    median, high = ranked[len(ranked) // 2], ranked[len(ranked) * 99 // 100]
    return " ".join(f"{MICRO * value:8.1f}" for value in (median, high, ranked[-1]))


def fastest(repeats: Sequence[Sequence[float]]) -> list[float]:
    """Of each call the fastest repetition: what it takes without the neighbours' share."""
    return [min(times) for times in zip(*repeats, strict=True)]


def built(method: str, case: Case) -> AnyDrafter:
    """The drafter with its corpus; prints time and memory. Traced apart, since tracing slows the build down."""
    num_tokens = sum(map(len, case.corpus))
    drafter = new_drafter(method, num_tokens)
    # Of all threads: a large text is indexed on another one.
    started = time.process_time()
    drafter.ingest(case.corpus)
    took = time.process_time() - started
    tracemalloc.start()
    traced = new_drafter(method, num_tokens)
    traced.ingest(case.corpus)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    print(
        f"{method:7} {case.name:6} build {took * 1e6 / num_tokens:5.2f} s a million tokens, "
        f"{held / num_tokens:5.1f} bytes a token held ({drafter.corpus.num_bytes / num_tokens:.1f} in arrays), "
        f"{peak / num_tokens:5.0f} while building"
    )
    return drafter


def answer(drafter: AnyDrafter, name: str, tokens: Sequence[int], limit: DraftLimit) -> None:
    """Observe a request token by token and propose after each; prints the times."""
    observing: list[list[float]] = []
    proposing: list[list[float]] = []
    for _ in range(NUM_REPEATS):
        state = drafter.begin(request())
        observing.append([])
        proposing.append([])
        num_drafted = num_right = 0
        for index, token in enumerate(tokens):
            observing[-1].append(seconds(functools.partial(drafter.observe, state, [token], None)))
            started = time.thread_time()
            draft = drafter.propose([state], [limit])[0]
            proposing[-1].append(time.thread_time() - started)
            num_drafted += len(draft) > 0
            num_right += bool(draft) and index + 1 < len(tokens) and draft.tokens[0] == tokens[index + 1]
    shape = "tree" if limit.is_tree else "chain"
    print(
        f"{'':14} {name:6} {shape:5} N={limit.num_tokens:<2}  observe {summary(fastest(observing))}"
        f"   propose {summary(fastest(proposing))}   drafts {num_drafted / len(tokens):4.0%}, "
        f"first right {num_right / max(1, num_drafted):4.0%}",
        flush=True,
    )


def own_memory(drafter: AnyDrafter, tokens: Sequence[int]) -> None:
    """Observe a long request; prints what its own index holds."""
    tracemalloc.start()
    state = drafter.begin(request())
    drafter.observe(state, tokens, None)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    print(f"{'':14} a request's own text: {held / len(tokens):.0f} bytes a token")


def feed(method: str, case: Case, *, feeds_corpus: bool) -> None:
    """Answer requests beside a nearly full corpus that their outputs enter; prints how long each call took.

    An eighth of the bound comes in, so that the oldest part is cut at least once. ``time.sleep`` stands for the passes.
    """
    num_tokens = sum(map(len, case.corpus))
    num_fed, num_held = num_tokens // 8, num_tokens - num_tokens // 14
    knobs = {"max_corpus_tokens": num_tokens, "max_corpus_sequences": num_tokens, "feeds_corpus": feeds_corpus}
    drafter: AnyDrafter = build(method, knobs)
    drafter.ingest(case.corpus[: len(case.corpus) * num_held // num_tokens])
    text = edited([token for sequence in case.corpus for token in sequence][-num_fed:], random.Random(1))
    wall: dict[str, list[float]] = {"observe": [], "propose": [], "feed": []}
    own: dict[str, list[float]] = {"observe": [], "propose": [], "feed": []}

    def timed(name: str, call: Callable[[], object]) -> None:
        started, ran = time.perf_counter(), time.thread_time()
        call()
        own[name].append(time.thread_time() - ran)
        wall[name].append(time.perf_counter() - started)

    most_parts, elsewhere = 0, time.process_time() - time.thread_time()
    for start in range(0, num_fed, ANSWER_TOKENS):
        state = drafter.begin(request())
        for position in range(start, start + ANSWER_TOKENS, TOKENS_A_ROUND):
            for token in text[position : position + TOKENS_A_ROUND]:
                timed("observe", functools.partial(drafter.observe, state, [token], None))
            timed("propose", functools.partial(drafter.propose, [state], [DraftLimit(15, 15)]))
            time.sleep(PASS_SECONDS)
        timed("feed", functools.partial(drafter.end, state))
        most_parts = max(most_parts, len(drafter.corpus.parts))
    elsewhere = time.process_time() - time.thread_time() - elsewhere
    print(
        f"{method:7} {'fed' if feeds_corpus else 'not fed, the same requests'}: {num_fed:,} tokens by {ANSWER_TOKENS}, "
        f"other threads {MICRO * elsewhere / num_fed:.1f} us a token, at most {most_parts} parts"
    )
    for name, times in own.items():
        num_long, num_long_wall = (sum(one > TOO_LONG for one in some) for some in (times, wall[name]))
        print(
            f"{'':14} {name:7} {summary(times)}   by the clock {summary(wall[name])}, "
            f"over {1e3 * TOO_LONG:.0f} ms: {num_long}, by the clock {num_long_wall}, of {len(times):,}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tokens", type=int, default=1_000_000, help="tokens in the corpus")
    parser.add_argument("--method", choices=["ngram", "suffix"], action="append")
    parser.add_argument("--feed", action="store_true", help="feed the corpus while it is read")
    args = parser.parse_args()
    gc.disable()
    print("microseconds of the thread's own time: median, 99th percentile, maximum")
    methods = args.method or ["ngram", "suffix"]
    if args.feed:
        text = next(cases(args.tokens))
        for method in methods:
            for feeds_corpus in (False, True):
                feed(method, text, feeds_corpus=feeds_corpus)
        return
    for case in cases(args.tokens):
        for method in methods:
            drafter = built(method, case)
            for name, tokens in case.requests.items():
                answer(drafter, name, tokens, DraftLimit(15, 15))
                if method == "suffix":
                    answer(drafter, name, tokens, DraftLimit(7, 24, is_tree=True))
            if case.name == "text":
                own_memory(drafter, [token for sequence in case.corpus for token in sequence][:32_000])
            del drafter
            gc.collect()


if __name__ == "__main__":
    run_script(main)
