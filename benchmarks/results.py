"""RESULTS.md from what every pair of models came to. Losses stand where wins do, and say so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.report import Figure, RatioRow, Report, SettingRow

_HEAD = """# forerun beside its peers

Every engine got the same token ids, wrote the same number of tokens greedily (as many as forerun's own answer has, end
token left out), one request at a time, every cache and drafter memory empty. Engines took turns prompt by prompt, in an
order drawn anew for each, and those that were not at work were suspended; an answer during which the machine was busy
with something else was repeated, or dropped. First the fastest way to run its threads was found for each peer, then the
best setting of each engine was chosen on some prompts and measured on others.

Ratios are another engine's time over forerun's: above 1 forerun is faster. The median stands before its interval (order
statistics, 96.9 %), which six pairs of prompts or more give. *End to end* holds the prompt's pass, *decoding* is the
time per token behind the first one. An interval that holds 1 is a tie. None of this is a multiplier for another
machine, model or traffic.

What favours whom: llama.cpp's wheel is one build for all CPUs (the table names the instructions that it uses; where
they end with AVX2, it leaves AVX-512 and AMX lying), compiled for the machine it would be faster. vLLM runs compiled
unless the table calls it eager, and has no tcmalloc, which no Python package brings. transformers runs as it ships
but for its threads. forerun's draft model computes as the GGUF setting does beside bf16 weights too (`--draft-
dtype`), as a draft changes no text; transformers' and vLLM's is bf16, which is what they have on a CPU. Peers' n-gram
settings are those for short texts, in runs with all settings as they ship too; forerun's own were not tuned for these
prompts. Where texts part, an engine drafts for a text of its own, which may copy more than forerun's or less.
"""


def render(reports: Iterable[Report]) -> str:
    """The whole page."""
    return "\n".join([_HEAD, *(_pair(report) for report in reports)])


def _pair(report: Report) -> str:
    is_full = not report.is_quick and "--few-settings" not in report.command
    kind = "All settings" if is_full else "Quick run" if report.is_quick else "Few settings"
    end = "" if report.is_complete else " The time was up before the last prompt: fewer pairs than planned."
    parts = [
        f"## {report.pair}\n",
        f"    {report.command}\n",
        f"{kind}, {report.date}. {report.machine}.{end}\n",
        _table(["engine", "version and build"], [[name, version] for name, version in report.versions.items()]),
        _table(["workload", "prompts"], [[name, count] for name, count in report.prompts.items()]),
        "### Chosen settings, on fresh prompts\n",
        _table(
            ["workload", "what", "forerun", "peer", "end to end", "decoding", "pairs", "aim", "so"],
            [_figure(figure) for figure in report.figures],
        ),
        _broken(report),
        _tunings(report),
        "### Every setting, on the choosing prompts\n",
        "Ratio: forerun's plain decoding takes so many times as long as this setting, end to end. 0 drafted tokens\n"
        "beside a setting that is switched on: it never fired on these prompts. *Same text* counts answers equal to\n"
        "forerun's token by token; engines round differently, and near-ties then turn.\n",
        _table(
            ["workload", "setting", "tok/s", "ms/token", "ratio", "pairs", "accepted / drafted", "tokens a pass"]
            + ["same text", "spoiled"],
            [_setting(row) for row in report.rows],
        ),
        "### What the arithmetic costs\n",
        _divergences(report),
    ]
    if report.not_run:
        rows = [[entry.what, entry.reason.replace("|", "/").replace("\n", " ")] for entry in report.not_run]
        parts += ["### Not run\n", _table(["what", "why"], rows)]
    return "\n".join(part for part in parts if part)


def _figure(figure: Figure) -> list[str]:
    aim = "" if figure.reach is None else f"≥ {figure.reach:g}"
    return [
        figure.workload,
        figure.what,
        figure.ours,
        figure.theirs,
        interval(figure.end_to_end),
        interval(figure.decoding),
        str(figure.end_to_end.num_pairs),
        aim,
        verdict(figure.end_to_end, figure.reach),
    ]


def verdict(ratio: RatioRow, reach: float | None) -> str:
    """In words: faster, slower or a tie; and whether the aim was reached, by the median."""
    if ratio.median is None:
        return "not measured"
    if ratio.low is None or ratio.high is None:
        return "too few pairs"
    is_tie = ratio.low <= 1 <= ratio.high
    word = "tie" if is_tie else "faster" if ratio.median > 1 else "**slower**"
    if reach is None:
        return word
    return f"{word}, aim {'reached' if ratio.median >= reach else '**missed**'}"


def _tunings(report: Report) -> str:
    if not report.tunings:
        return ""
    head = (
        "### How the peers' threads run best\n\n"
        "Plain decoding on a prompt of each workload, before all else; the fastest of each engine is what it was\n"
        "compared with. Ratio as below. A wait policy is OpenMP's; where none is named, its library's own.\n\n"
    )
    rows = [
        [row.label, _number(row.tokens_per_second, 1), interval(row.ratio), "chosen" if row.is_chosen else ""]
        for row in report.tunings
    ]
    return head + _table(["setting", "tok/s", "ratio", ""], rows)


def _setting(row: SettingRow) -> list[str]:
    return [
        row.workload,
        row.label,
        _number(row.tokens_per_second, 1),
        _number(row.milliseconds_per_token, 1),
        interval(row.ratio),
        str(row.ratio.num_pairs),
        f"{row.num_accepted} / {row.num_drafted}",
        _number(row.tokens_per_step, 2),
        f"{row.num_same_texts} of {row.num_texts}",
        str(row.num_spoiled),
    ]


def interval(ratio: RatioRow) -> str:
    """``1.23 [1.10, 1.40]``; without brackets where pairs were too few for an interval."""
    if ratio.median is None:
        return "–"
    if ratio.low is None or ratio.high is None:
        return f"{ratio.median:.2f}"
    return f"{ratio.median:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]"


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _broken(report: Report) -> str:
    if report.broken:
        return (
            "**forerun's own contract is broken**: another text than plain decoding by "
            + ", ".join(report.broken)
            + "\n"
        )
    return "Every text of every forerun setting was that of its plain decoding, token by token.\n"


def _divergences(report: Report) -> str:
    if not report.divergences:
        return "Not measured in this run (`--positions 0`).\n"
    head = (
        "Next-token laws beside fp32 arithmetic on the same weights, at positions within answers. KL in nats over the\n"
        "1,000 likeliest tokens of both and one class for the rest, which is never more than the whole divergence.\n"
    )
    rows = [
        [entry.label, str(entry.num_positions), f"{entry.mean_kl:.2g}", f"{entry.median_kl:.2g}"]
        + [f"{entry.top1_agreement:.0%}"]
        for entry in report.divergences
    ]
    return head + "\n" + _table(["engine", "positions", "mean KL", "median KL", "same likeliest token"], rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [" | ".join(head), " | ".join("---" for _ in head), *(" | ".join(row) for row in rows)]
    return "\n".join(f"| {line} |" for line in lines) + "\n"
