"""Rows of a JSON or JSONL file with the line each began on; a row is never dropped."""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from forerun.errors import ForerunError

Model = TypeVar("Model", bound=BaseModel)

_GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Row:
    """One JSON object: where it began and its fields."""

    file: str
    line: int
    fields: dict[str, Any]

    def parsed(self, model: type[Model]) -> Model:
        """The row as ``model``. Raises ``ForerunError`` with the line and the first field at fault."""
        try:
            return model.model_validate(self.fields)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the row"
            raise self.error(f"{where}: {first['msg']}") from error

    def error(self, fault: str, remedy: str = "correct that row") -> ForerunError:
        """The error that names this row."""
        return ForerunError(f"a well-formed row at {self.file}, line {self.line}", " ".join(fault.split()), remedy)


def read_bytes(path: Path) -> bytes:
    """The file's bytes, unpacked where it is gzip. Raises ``ForerunError`` for what can't be read."""
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        name = str(path).replace("\0", "\\0")
        found = f"{name} ({getattr(error, 'strerror', None) or error})"
        raise ForerunError("a readable prompt file", found, "check the path and its permissions") from error
    if not data.startswith(_GZIP_MAGIC):
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise ForerunError("a whole gzip file", f"{path}: {error}", "fetch the file again") from error


def decode(data: bytes, file: str) -> str:
    """UTF-8 text without its byte order mark. Raises ``ForerunError`` with the line of the first wrong byte."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        found = f"byte 0x{data[error.start]:02x} on line {line}"
        raise ForerunError(f"UTF-8 text in {file}", found, "convert the file to UTF-8") from error


def parse_rows(data: bytes, file: str) -> list[Row]:
    """Rows of a JSON list, of one JSON object over several lines, or of JSONL; blank lines are no rows."""
    text = decode(data, file)
    if text.lstrip().startswith("["):
        return _list_rows(text, file)
    whole = _whole_object(text)
    if whole is not None:
        return [Row(file, 1, whole)]
    rows: list[Row] = []
    # Only line feeds end a JSONL row: U+2028 and its kind may stand inside strings.
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            rows.append(_row(_loads(line, file, number), file, number))
    return rows


def _whole_object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _list_rows(text: str, file: str) -> list[Row]:
    decoder = json.JSONDecoder()
    rows: list[Row] = []
    position, line = text.index("[") + 1, 1 + text.count("\n", 0, text.index("["))
    expects_item = False
    while True:
        start = _skip_blank(text, position)
        line += text.count("\n", position, start)
        if text[start : start + 1] == "]" and not expects_item:
            break
        try:
            value, position = decoder.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            raise _malformed(file, line, error) from error
        rows.append(_row(value, file, line))
        after = _skip_blank(text, position)
        line += text.count("\n", start, after)
        expects_item = text[after : after + 1] == ","
        if not expects_item and text[after : after + 1] != "]":
            raise _malformed(file, line, "neither a comma nor the end of the list follows the row")
        position = after + 1 if expects_item else after
    if text[start + 1 :].strip():
        raise _malformed(file, line, "text after the end of the list")
    return rows


def _skip_blank(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position


def _loads(line: str, file: str, number: int) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _malformed(file, number, error) from error


def _row(value: Any, file: str, line: int) -> Row:
    if not isinstance(value, dict):
        raise _malformed(file, line, f"a {type(value).__name__} where an object should be")
    return Row(file, line, value)


def _malformed(file: str, line: int, fault: object) -> ForerunError:
    return ForerunError(f"JSON objects in {file}", f"line {line}: {fault}", "correct that row")
