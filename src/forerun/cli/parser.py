"""An argument parser that errs in one line, and flags that several commands share."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from forerun.errors import ForerunError
from forerun.models.dtype_names import full_dtype_name


class Parser(argparse.ArgumentParser):
    """Raises ``ForerunError`` where argparse would print its usage and leave."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False, **kwargs})

    def error(self, message: str) -> NoReturn:
        """One line with the way out."""
        raise ForerunError("known flags and values", message, f"see `{self.prog} --help`")


def read_pairs(pairs: list[str], flag: str, form: str = "NAME=VALUE") -> dict[str, str]:
    """``name=value`` texts as a mapping. Raises ``ForerunError`` for anything else, or a name given twice."""
    read: dict[str, str] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise ForerunError(f"{flag} {form}", repr(pair), "write it with an equals sign")
        if name in read:
            raise ForerunError(f"one value for {flag} {name}", "two", "drop one of them")
        read[name] = value
    return read


def add_model_flags(parser: argparse.ArgumentParser) -> None:
    """Which target, and how it is loaded."""
    from forerun.models.catalog import DEFAULT_MODEL

    parser.add_argument(
        "--model",
        default=DEFAULT_MODEL,
        metavar="MODEL",
        help="directory, GGUF file, catalog name or hub:ORG/NAME (default: %(default)s)",
    )
    add_dtype_flags(parser)
    add_kv_flag(parser, default="auto")
    add_inexact_flag(parser)
    parser.add_argument("--device", default="auto", help="cuda, mps, cpu or auto")


def add_dtype_flags(parser: argparse.ArgumentParser) -> None:
    """The arithmetic of the target, and of a draft model beside it."""
    types = ("auto", "as-shipped", "int8", "float32", "bfloat16", "float16")
    parser.add_argument(
        "--dtype",
        default="auto",
        type=full_dtype_name,
        choices=types,
        help="arithmetic (auto); also fp32, bf16, fp16 (GPU); int8 is lossy unless measured (docs/quantisation.md)",
    )
    parser.add_argument(
        "--draft-dtype",
        type=full_dtype_name,
        choices=types,
        help="arithmetic of the draft model (default: as --dtype); drafts change no text, so coarser is only cheaper",
    )


def add_kv_flag(parser: argparse.ArgumentParser, default: str | None) -> None:
    """The number type of keys and values."""
    parser.add_argument(
        "--kv-dtype",
        default=default,
        type=full_dtype_name,
        metavar="TYPE",
        help="keys and values in float32, bfloat16 or int8, also fp32 and bf16; auto is the model's own, int8 is lossy",
    )


def add_inexact_flag(parser: argparse.ArgumentParser) -> None:
    """Whether torch's own kernels compute."""
    parser.add_argument(
        "--inexact",
        action="store_true",
        help="torch's own kernels: the text may then depend on drafts and neighbours, and results say so",
    )


def add_drafting_flags(parser: argparse.ArgumentParser) -> None:
    """Which method, N, shape and knobs."""
    parser.add_argument("--method", default="off", help="see `forerun methods` (default: off)")
    parser.add_argument(
        "-n",
        "--num-speculative-tokens",
        type=int,
        metavar="N",
        help="tokens proposed per round (default: the largest of the method's grid)",
    )
    parser.add_argument("--tree", action="store_true", help="draft trees where the method can")
    parser.add_argument("--tree-rows", type=int, metavar="ROWS", help="tokens of a tree in all (default: twice N)")
    parser.add_argument("--draft-model", metavar="MODEL", help="second model for --method draft_model")
    parser.add_argument(
        "--knob", action="append", default=[], metavar="NAME=VALUE", help="a knob of the method; may be repeated"
    )


def add_sampling_flags(parser: argparse.ArgumentParser) -> None:
    """Every field of SamplingParams."""
    group = parser.add_argument_group("sampling")
    group.add_argument("--temperature", type=float, default=0.0, metavar="T", help="0 is greedy (default)")
    group.add_argument("--top-k", type=int, default=0)
    group.add_argument("--top-p", type=float, default=1.0)
    group.add_argument("--min-p", type=float, default=0.0)
    group.add_argument("--repetition-penalty", type=float, default=1.0)
    group.add_argument("--presence-penalty", type=float, default=0.0)
    group.add_argument("--frequency-penalty", type=float, default=0.0)
    group.add_argument("--logit-bias", action="append", default=[], metavar="ID=BIAS")
    group.add_argument("--min-tokens", type=int, default=0)
    group.add_argument("--max-tokens", type=int, default=128)
    group.add_argument("--stop", action="append", default=[], metavar="TEXT")
    group.add_argument("--stop-token-id", action="append", default=[], type=int, metavar="ID")
    group.add_argument("--ignore-eos", action="store_true", help="go on past the natural end")
    group.add_argument("--seed", type=int, help="default: a random one, printed with the result")
    group.add_argument("--choices", type=int, default=1, metavar="K", help="independent choices (n in the OpenAI API)")
    group.add_argument("--logprobs", type=int, metavar="K", help="log-probabilities with the top K alternatives")


def sampling_params(args: argparse.Namespace) -> Any:
    """The SamplingParams that the flags describe."""
    from forerun.sampling.params import SamplingParams

    if args.choices < 1:
        raise ForerunError("--choices of 1 or more", str(args.choices), "leave it out for one")
    biases = []
    for token, bias in read_pairs(args.logit_bias, "--logit-bias", "ID=BIAS").items():
        try:
            biases.append((int(token), float(bias)))
        except ValueError:
            raise ForerunError("--logit-bias ID=BIAS with numbers", f"{token}={bias}", "correct it") from None
    return SamplingParams(
        temperature=args.temperature,
        top_k=args.top_k,
        top_p=args.top_p,
        min_p=args.min_p,
        repetition_penalty=args.repetition_penalty,
        presence_penalty=args.presence_penalty,
        frequency_penalty=args.frequency_penalty,
        logit_bias=tuple(biases),
        min_tokens=args.min_tokens,
        max_tokens=args.max_tokens,
        stop=tuple(args.stop),
        stop_token_ids=tuple(args.stop_token_id),
        ignore_eos=args.ignore_eos,
        seed=args.seed,
        n=args.choices,
        logprobs=args.logprobs,
    )


def drafting_of(args: argparse.Namespace) -> Any:
    """The Drafting that the flags describe; N defaults to the largest of the method's grid.

    Raises ``ForerunError`` for flags that contradict each other, before anything is loaded.
    """
    from forerun.drafters.knobs import read_knobs
    from forerun.drafters.registry import check_num_speculative_tokens, find_method
    from forerun.engine.drafting import Drafting

    method = find_method(args.method)
    info = method.info
    n = args.num_speculative_tokens
    if n and info.max_num_speculative_tokens == 0:
        raise ForerunError(f"a method that drafts, for -n {n}", f"--method {info.name}", "add --method, or drop -n")
    if n is None:
        n = max(info.default_grid, default=0)
    check_num_speculative_tokens(info, n)
    if args.tree and not info.has_trees:
        raise ForerunError(f"chains for method {info.name}", "--tree", "drop it or choose another method")
    if args.method == "draft_model" and args.draft_model is None:
        raise ForerunError("--draft-model MODEL for --method draft_model", "none", "name a model of its tokenizer")
    if args.method != "draft_model" and args.draft_model is not None:
        raise ForerunError(
            "--draft-model with --method draft_model alone", f"--method {args.method}", "drop one of the two"
        )
    if args.draft_dtype is not None and args.draft_model is None:
        raise ForerunError("--draft-dtype with --draft-model alone", f"--draft-dtype {args.draft_dtype}", "drop it")
    knobs: dict[str, object] = {**read_pairs(args.knob, "--knob")}
    read_knobs(info.name, method.config, knobs)
    return Drafting(args.method, n, is_tree=args.tree, num_rows=args.tree_rows, knobs=knobs)
