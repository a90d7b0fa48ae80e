"""From what a person names to files that every peer can run."""

from __future__ import annotations

from pathlib import Path

from transformers import AutoTokenizer

from benchmarks.export import export
from benchmarks.peers.base import ModelFiles
from forerun.errors import ForerunError
from forerun.models.catalog import CATALOG
from forerun.models.loading.hub import fetch_snapshot, is_hub_id
from forerun.models.pull import pull
from forerun.models.tokenizer import Tokenizer


def resolve(name: str) -> ModelFiles:
    """A GGUF file, a Hugging Face directory, ``hub:ORG/NAME`` or a catalogue name.

    Raises ForerunError for what is none of these, and for a file that can't be exported.
    """
    path = Path(name).expanduser()
    if path.is_dir():
        return ModelFiles(path.resolve().name, None, path.resolve())
    if path.is_file():
        return ModelFiles(path.stem, path.resolve(), export(path.resolve()))
    if name in CATALOG:
        file = pull(name)
        return ModelFiles(file.stem, file, export(file))
    if is_hub_id(name):
        snapshot = fetch_snapshot(name)
        return ModelFiles(snapshot.id.replace("/", "--"), None, snapshot.directory)
    known = ", ".join(CATALOG)
    raise ForerunError(
        f"a GGUF file, a model directory, hub:ORG/NAME or one of {known}", f"{name!r}, which is none", "check the path"
    )


def tokenizer_of(files: ModelFiles) -> Tokenizer:
    """The one that writes every engine's prompts. Raises ForerunError where the directory has none."""
    try:
        backend = AutoTokenizer.from_pretrained(str(files.directory), use_fast=True, trust_remote_code=False)
    except Exception as error:  # the tokenizers library raises plain exceptions
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ForerunError(f"a tokenizer in {files.directory}", reason, "fetch the model again") from error
    return Tokenizer(backend, label=files.name)
