"""Rounds of one request per line asked: phases in seconds of CPU time, of whatever forerun Python finds first."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import astuple

from benchmarks.command import run_script


def main() -> None:
    """First say whose package this is, then answer every line on standard input with the rounds of a run.

    A round is [seconds, draft, verify, sample, other].
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("method")
    parser.add_argument("length", type=int)
    parser.add_argument("temperature", type=float)
    parser.add_argument("tokens", type=int)
    options = parser.parse_args()
    # What else the machine does is not to be timed. The engine takes the clock when it is imported.
    time.perf_counter = time.process_time

    import torch

    import forerun
    from benchmarks.round import SETTINGS, run_of, uncollected
    from forerun.engine.drafting import Drafting
    from forerun.models.loading.load_target import load_target
    from forerun.sampling.params import SamplingParams
    from forerun.workloads.catalog import load_workload

    torch.set_num_threads(1)  # CPU time adds up over threads
    loaded = load_target(options.model)
    prompt = loaded.tokenizer.encode(load_workload("code_edit").prompts[0].plain_text)
    cut = SETTINGS["T = 0.8, top-p 0.95"].top_p if options.temperature else 1.0
    params = SamplingParams(
        temperature=options.temperature, top_p=cut, seed=20, max_tokens=options.tokens, ignore_eos=True
    )
    drafting = Drafting(options.method if options.length else "off", options.length)
    with uncollected():
        run_of(loaded, loaded.tokenizer, prompt, drafting, params)
        ready = {"package": forerun.__file__, "kernels": loaded.target.traits.kernels}
        print(json.dumps(ready), flush=True)
        for _ in sys.stdin:
            run = run_of(loaded, loaded.tokenizer, prompt, drafting, params)
            print(json.dumps([[round.seconds, *astuple(round.phases)] for round in run.rounds]), flush=True)


if __name__ == "__main__":
    run_script(main)
