"""Bits of the adapter's rows: the same whatever is beside them, however the work is cut, in trees as in chains."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor

from forerun.models.adapter import adapt, adapter_target, exact_functions
from forerun.models.adapter.adapter_target import AdapterTarget
from forerun.models.base import AttentionGroup, PassInput
from forerun.types import Draft
from support.adapted_models import ALL, BASE, NOT_EXACT, RECURRENT, adapted, some_tokens
from support.passes import Chunk, batch_of, run_chunked

EXACT = [name for name in ALL if name not in NOT_EXACT]
QUICK = ["olmo2", "gpt_oss", "qwen3_moe", "gemma4", "qwen3_next"]
NUM_TOKENS = 40


def _check_cuts(target: AdapterTarget) -> None:
    tokens = some_tokens(NUM_TOKENS)
    expected = target.logits_of(tokens)
    for size in (1, 3, 7, 16, 17):
        assert torch.equal(run_chunked(target, tokens, size), expected), f"chunks of {size}"


def _check_neighbours(target: AdapterTarget) -> None:
    """Five sequences of other lengths, growing unevenly in shared passes, slots scattered over the pool."""
    lengths = [37, 5, 21, 1, 30]
    sequences = [some_tokens(length, seed) for seed, length in enumerate(lengths)]
    scattered = torch.randperm(sum(lengths), generator=torch.Generator().manual_seed(1)).split(lengths)
    store = target.new_store(sum(lengths))
    done = [0] * len(sequences)
    found: list[list[torch.Tensor]] = [[] for _ in sequences]
    generator = torch.Generator().manual_seed(2)
    while any(at < len(tokens) for at, tokens in zip(done, sequences, strict=True)):
        grows = {
            index: min(int(torch.randint(1, 9, (1,), generator=generator)), len(tokens) - done[index])
            for index, tokens in enumerate(sequences)
            if done[index] < len(tokens)
        }
        chunks = [
            Chunk(sequences[index][done[index] : done[index] + rows], done[index], scattered[index])
            for index, rows in grows.items()
        ]
        batch = _with_owners(batch_of(chunks), list(grows))
        parts = target.forward(batch, store).logits.split(list(grows.values()))
        for (index, rows), part in zip(grows.items(), parts, strict=True):
            found[index].append(part)
            done[index] += rows
    for tokens, parts in zip(sequences, found, strict=True):
        assert torch.equal(torch.cat(parts), target.logits_of(tokens))


def _with_owners(batch: PassInput, ids: list[int]) -> PassInput:
    """The batch with its owners renamed: a recurrent state belongs to an owner from pass to pass."""
    return PassInput(
        batch.tokens,
        batch.positions,
        batch.slots,
        tuple(ids[owner] for owner in batch.owners),
        batch.groups,
        batch.logit_rows,
        {ids[owner]: rows for owner, rows in batch.num_committed.items()},
    )


@pytest.mark.parametrize("name", QUICK)
def test_rows_do_not_depend_on_cuts_or_neighbours(name: str) -> None:
    target = adapted(name)
    assert target.traits.is_bit_exact
    _check_cuts(target)
    _check_neighbours(target)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", EXACT)
def test_rows_of_every_model_do_not_depend_on_cuts_or_neighbours(name: str, dtype: torch.dtype) -> None:
    target = adapted(name, dtype)
    assert target.traits.is_bit_exact
    _check_cuts(target)
    _check_neighbours(target)


WIDE = {"hidden_size": 924, "intermediate_size": 2731, "num_attention_heads": 21, "num_key_value_heads": 7}


def _wide() -> Any:
    """Odd widths, and inner dimensions that torch's fp32 product cuts by the number of threads."""
    torch.manual_seed(0)
    return hf.Olmo2ForCausalLM(hf.Olmo2Config(**BASE | WIDE | {"num_hidden_layers": 1})).eval()


@contextmanager
def _num_threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _is_thread_proof(target: AdapterTarget) -> bool:
    tokens = some_tokens(NUM_TOKENS)
    with _num_threads(1):
        expected = target.logits_of(tokens)
    for count in (1, 2, 3, 4):
        with _num_threads(count):
            if not torch.equal(run_chunked(target, tokens, 7), expected):
                return False
    return True


def test_rows_do_not_depend_on_the_number_of_threads() -> None:
    assert _is_thread_proof(adapt(_wide()))
    assert _is_thread_proof(adapted("qwen3_moe"))
    assert _is_thread_proof(adapted("deepseek_v3")), "a linear has 24 outputs"


def test_the_librarys_own_functions_would_depend_on_threads_or_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that the test above can fail; which of torch's functions do depend on them differs from CPU to CPU."""
    target = adapt(_wide())
    assert _is_thread_proof(target)
    monkeypatch.setattr(adapter_target, "ExactFunctions", nullcontext)
    if _is_thread_proof(target):
        pytest.skip(f"torch gives this model the same bits on this CPU ({torch.backends.cpu.get_cpu_capability()})")


def test_the_librarys_own_experts_would_depend_on_their_neighbours() -> None:
    target = adapted("gpt_oss")
    target._model.set_experts_implementation("eager")
    tokens = some_tokens(NUM_TOKENS)
    assert not torch.equal(run_chunked(target, tokens, 7), target.logits_of(tokens))


@pytest.mark.parametrize("swap", list(exact_functions._EXACT.items())[1:], ids=lambda swap: swap[0].__name__)
def test_swapped_functions_compute_the_same(swap: tuple[Callable[..., Tensor], Callable[..., Tensor]]) -> None:
    theirs, ours = swap
    values = torch.cat([torch.linspace(-30, 30, 1001), torch.tensor([0.0, 100.0, -100.0])])
    expected = theirs(values)
    torch.testing.assert_close(ours(values), expected, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(ours(values.bfloat16()), theirs(values.bfloat16()), atol=1e-2, rtol=1e-2)
    by_sevens = torch.cat([ours(part.clone()) for part in values.split(7)])
    assert torch.equal(by_sevens, ours(values)), "an element's bits don't depend on its place"


@pytest.mark.parametrize("name", [name for name in QUICK if name not in RECURRENT])
def test_every_tree_path_equals_the_chain(name: str) -> None:
    target = adapted(name)
    prefix, draft = some_tokens(29), Draft(tuple(some_tokens(20, 1)), tuple(_parents(20)))
    store = target.new_store(len(prefix) + len(draft))
    prefix_slots = torch.arange(len(prefix))
    target.forward(batch_of([Chunk(prefix[:-1], 0, prefix_slots)]), store)
    logits = target.forward(_tree_pass(prefix, draft), store).logits
    leaves = [row for row, children in enumerate(draft.children()) if not children]
    assert len(leaves) > 3
    for leaf in leaves:
        path = draft.path_to(leaf)
        chain = target.logits_of(prefix + [draft.tokens[row - 1] for row in path[1:]])
        assert torch.equal(logits[list(path)], chain[len(prefix) - 1 :])


def _parents(count: int) -> list[int]:
    generator = torch.Generator().manual_seed(4)
    return [int(torch.randint(max(0, row - 3), row + 1, (1,), generator=generator)) for row in range(count)]


def _tree_pass(prefix: list[int], draft: Draft) -> PassInput:
    """Anchor (the prefix's last token) and a tree behind it: a group per leaf, each row in its first leaf's group."""
    first = len(prefix) - 1
    slots = torch.arange(first, first + len(draft) + 1)
    groups, seen = [], set()
    for leaf in (row for row, children in enumerate(draft.children()) if not children):
        path = draft.path_to(leaf)
        rows = tuple(row for row in path if row not in seen)
        seen.update(rows)
        groups.append(AttentionGroup(rows, torch.cat([torch.arange(first), slots[list(path)]])))
    positions = torch.tensor([first + depth for depth in draft.depths()])
    count = len(draft) + 1
    return PassInput(
        torch.tensor([prefix[-1], *draft.tokens]),
        positions,
        slots,
        (0,) * count,
        tuple(groups),
        tuple(range(count)),
        {0: 1},
    )


def test_two_targets_in_two_threads_do_not_mix() -> None:
    targets = {name: adapted(name) for name in ("olmo2", "gemma4")}
    tokens = some_tokens(NUM_TOKENS)
    expected = {name: target.logits_of(tokens) for name, target in targets.items()}
    wrong: list[str] = []

    def drive(name: str) -> None:
        for _ in range(10):
            if not torch.equal(targets[name].logits_of(tokens), expected[name]):
                wrong.append(name)

    threads = [threading.Thread(target=drive, args=(name,)) for name in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
