"""The conditions of what an engine does."""

from __future__ import annotations

from dataclasses import fields, replace

import torch

from forerun.conditions import Artifact, Conditions, of_machine, sorted_flags
from forerun.engine.engine import Engine
from forerun.models.device import describe_device
from forerun.sampling.params import SamplingParams


def conditions_of(
    engine: Engine, params: SamplingParams, target: Artifact, drafter: Artifact, *, concurrency: int
) -> Conditions:
    """What this machine, this engine and these parameters are; the prompt set is for the caller to fill in."""
    traits = engine.target.traits
    device = describe_device(torch.device(traits.device))
    drafting = engine.drafting
    rule = "natural end" if not params.ignore_eos else "past the natural end"
    flags = {
        "block_size": engine.cache.block_size,
        "dtype": traits.dtype,
        "exact": traits.is_bit_exact,
        "kernels": traits.kernels,
        "prefill_rows": engine.prefill_rows,
        "row_budget": engine.row_budget,
        "row_limits": "none" if engine.limits is None else engine.limits.describe(engine.prefill_rows),
        "tree": drafting.is_tree,
        "tree_rows": drafting.max_rows if drafting.is_tree else 0,
        **{f"knob.{name}": value for name, value in drafting.knobs.items()},
    }
    return replace(
        of_machine(),
        target=target,
        drafter=drafter,
        engine="forerun",
        flags=sorted_flags(flags.items()),
        method=drafting.method,
        num_speculative_tokens=drafting.num_speculative_tokens,
        context=traits.max_context,
        output_length_rule=f"{rule}, at most {params.max_tokens} tokens",
        kv_dtype=str(engine.cache.store.dtype).removeprefix("torch."),
        sampling=describe_sampling(params),
        concurrency=concurrency,
        batch=concurrency,
        graphs="none",
        cache_state="prefixes shared between requests" if engine.reuses_prefixes else "cold",
        device=device.name,
        device_count=device.count,
        driver=device.driver,
        threads=device.threads,
    )


def describe_sampling(params: SamplingParams) -> str:
    """Every parameter that differs from plain greedy, in the order of the fields; lengths and choices are elsewhere."""
    left_out = {"max_tokens", "ignore_eos", "logprobs", "n", "seed"}
    plain = SamplingParams()
    changed = [
        f"{field.name}={getattr(params, field.name)}"
        for field in fields(params)
        if field.name not in left_out and getattr(params, field.name) != getattr(plain, field.name)
    ]
    return ", ".join(changed) or "greedy"
