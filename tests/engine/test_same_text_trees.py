"""Every path of a tree has the logits of the same path as a chain, bit for bit, through the engine's own layout."""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor

from forerun.drafters.base import DraftLimit
from forerun.engine.engine import Engine
from forerun.engine.layout import lay_out
from forerun.engine.request import Request
from forerun.engine.scheduler import Work
from forerun.models.base import Target
from forerun.sampling.params import SamplingParams
from forerun.types import Draft
from support.faded_models import MODELS, target_named

# Anchors at positions 5, 18, 62 and 130: trees beside a window's edge and across the borders of blocks of 64 keys.
LENGTHS = (5, 18, 62, 130)


def a_tree(rng: random.Random, num_rows: int, vocab_size: int, reach: int) -> Draft:
    """``reach`` bounds how far back a parent may lie: 1 is a chain, many a bush. Siblings differ."""
    parents = tuple(rng.randrange(max(0, row - reach + 1), row + 1) for row in range(num_rows))
    return Draft(tuple(rng.sample(range(3, vocab_size), num_rows)), parents)


def decoding_requests(engine: Engine, rng: random.Random) -> list[Request]:
    """Requests whose prompts are in the cache and whose anchors wait for the next pass."""
    vocab_size = engine.target.traits.vocab_size
    params = SamplingParams(max_tokens=40, ignore_eos=True)
    prompts = [[rng.randrange(3, vocab_size) for _ in range(length)] for length in LENGTHS]
    requests = [engine.submit(prompt, params)[0] for prompt in prompts]
    while any(request.is_prefilling for request in requests):
        engine.step()
    return requests


def logits_of(engine: Engine, requests: list[Request], drafts: list[Draft]) -> list[Tensor]:
    """Per request the logits of its anchor and its draft's rows, [1 + rows, vocabulary]; nothing is committed."""
    sequences = [request.sequence for request in requests]
    works = []
    windows = []
    for request, sequence, draft in zip(requests, sequences, drafts, strict=True):
        assert sequence is not None
        num_committed = request.num_tokens - sequence.num_computed
        works.append(Work(request, num_committed, True, DraftLimit(len(draft), len(draft), not draft.is_chain)))
        windows.append(engine.cache.open_window(sequence, num_committed + len(draft)))
    layout = lay_out(works, drafts, windows)
    logits = engine.target.forward(layout.batch, engine.cache.store).logits
    for window in windows:
        engine.cache.close_window(window, [], 0)
    return [logits[part.first_logit : part.first_logit + 1 + len(part.draft)] for part in layout.parts]


def path_chain(draft: Draft, row: int) -> Draft:
    return Draft.chain([draft.tokens[at - 1] for at in draft.path_to(row)[1:]])


def check_trees(target: Target, seed: int, num_rows: int) -> None:
    rng = random.Random(seed)
    engine = Engine(target, reuses_prefixes=False)
    requests = decoding_requests(engine, rng)
    drafts = [a_tree(rng, num_rows, target.traits.vocab_size, reach) for reach in (num_rows, 5, 2, 3)]
    rng.shuffle(drafts)
    in_trees = logits_of(engine, requests, drafts)
    # Chains run beside the chains of other requests, then alone: neither may show.
    for row in range(num_rows + 1):
        chains = [path_chain(draft, row) for draft in drafts]
        together = logits_of(engine, requests, chains)
        for request, draft, chain, tree_logits, chain_logits in zip(
            requests, drafts, chains, in_trees, together, strict=True
        ):
            path = torch.tensor(draft.path_to(row))
            assert torch.equal(tree_logits[path], chain_logits), f"path {path.tolist()} of {draft.parents}"
            if not draft.children()[row]:
                assert torch.equal(tree_logits[path], logits_of(engine, [request], [chain])[0])


@pytest.mark.parametrize("model", MODELS)
def test_a_path_has_the_bits_of_its_chain(model: str) -> None:
    for seed, num_rows in enumerate((2, 13, 30)):
        check_trees(target_named(model), seed, num_rows)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_many_paths_have_the_bits_of_their_chains(model: str) -> None:
    for seed in range(12):
        check_trees(target_named(model), 100 + seed, 3 + 3 * seed)


def test_a_wrong_parent_is_noticed() -> None:
    """The comparison can fail: a row hung elsewhere has other logits."""
    engine = Engine(target_named("llama"), reuses_prefixes=False)
    requests = decoding_requests(engine, random.Random(0))
    right = logits_of(engine, requests, [Draft((5, 6, 7), (0, 0, 2))] * len(requests))
    wrong = logits_of(engine, requests, [Draft((5, 6, 7), (0, 0, 1))] * len(requests))
    for one, other in zip(right, wrong, strict=True):
        assert torch.equal(one[:3], other[:3])
        assert not torch.equal(one[3], other[3])
