"""Which formats there are, and how a file is read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from forerun.errors import ForerunError
from forerun.workloads.prompt import Prompt
from forerun.workloads.readers.agentperf import ManifestReader, TraceReader
from forerun.workloads.readers.base import Reader
from forerun.workloads.readers.gsm8k import Gsm8kReader
from forerun.workloads.readers.human_eval import HumanEvalReader
from forerun.workloads.readers.math500 import Math500Reader
from forerun.workloads.readers.mbpp import MbppReader
from forerun.workloads.readers.plain import PlainReader
from forerun.workloads.readers.rows import Row, decode, parse_rows, read_bytes
from forerun.workloads.readers.sharegpt import ShareGptReader
from forerun.workloads.readers.text_file import paragraphs, whole_file
from forerun.workloads.readers.turns import MtBenchReader, SpecBenchReader

# From the most particular to the most general: the first that recognises a file reads it.
READERS: tuple[Reader, ...] = (
    ManifestReader(),
    TraceReader(),
    HumanEvalReader(),
    MbppReader(),
    SpecBenchReader(),
    MtBenchReader(),
    ShareGptReader(),
    Math500Reader(),
    Gsm8kReader(),
    PlainReader(),
)
TEXT_FORMATS = {"paragraphs": paragraphs, "whole_file": whole_file}
FORMATS = ("auto", *(reader.name for reader in READERS), *TEXT_FORMATS)

_TEXT_SUFFIXES = frozenset({".txt", ".md", ".text"})


def read_prompts(path: str | Path, format: str = "auto") -> tuple[Prompt, ...]:
    """Every prompt of a file, in order, none left out.

    ``auto`` takes .txt, .text and .md for one prompt per paragraph and tells the JSON formats (.json, .jsonl, packed
    by gzip or not) apart by their fields. Raises ``ForerunError``: an unknown format, an unreadable or empty file, a
    malformed row (with its line), two prompts of one id.
    """
    path = Path(path)
    if format not in FORMATS:
        raise ForerunError(f"a format among {', '.join(FORMATS)}", repr(format), "pick one, or leave it to auto")
    data = read_bytes(path)
    if format == "auto" and path.suffix.lower() in _TEXT_SUFFIXES:
        format = "paragraphs"
    if format in TEXT_FORMATS:
        return tuple(TEXT_FORMATS[format](decode(data, path.name), path.name))
    rows = parse_rows(data, path.name)
    if not rows:
        raise ForerunError(f"at least one row in {path.name}", "none", "pass a file that holds prompts")
    prompts = _reader(rows, format).read(rows, path.parent)
    _require_unique_ids(prompts, path.name)
    return tuple(prompts)


def _reader(rows: Sequence[Row], format: str) -> Reader:
    for reader in READERS:
        if reader.name == format or (format == "auto" and reader.recognises(rows)):
            return reader
    fields = ", ".join(sorted(rows[0].fields)) or "no fields"
    known = "a known format, or rows with prompt, messages or text"
    raise ForerunError(known, f"{rows[0].file} with {fields}", "rename the fields, or name the format")


def _require_unique_ids(prompts: Sequence[Prompt], file: str) -> None:
    seen: set[str] = set()
    for prompt in prompts:
        if prompt.id in seen:
            raise ForerunError(
                f"a different id for each row of {file}", f"{prompt.id!r} twice", "rename or leave out ids"
            )
        seen.add(prompt.id)
