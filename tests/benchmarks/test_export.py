"""An exported directory holds the bf16 values of the file, under names that transformers reads."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from benchmarks.export import export, write
from benchmarks.models import resolve, tokenizer_of
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from forerun.errors import ForerunError
from forerun.models.loading.load_target import load_target
from support.tiny_gguf import write_gguf
from support.tiny_models import BY_NAME


@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen3", "gemma3"])
def test_values_are_those_of_the_file_rounded_to_bf16(name: str, tmp_path: Path) -> None:
    layers = {"num_hidden_layers": 7, "layer_types": None, "query_pre_attn_scalar": 16, "final_logit_softcapping": None}
    changes = layers if name == "gemma3" else {}
    metadata = {"gemma3.rope.freq_base": 1e6, "gemma3.attention.sliding_window": 13} if name == "gemma3" else {}
    model = BY_NAME[name].build(**changes)
    stored = write_gguf(tmp_path / "m.gguf", model, name, metadata=metadata)
    write(tmp_path / "m.gguf", tmp_path / "out")
    exported = load_file(tmp_path / "out" / "model.safetensors")
    assert exported.keys() == stored.keys()
    assert all(torch.equal(tensor, stored[key].to(torch.bfloat16)) for key, tensor in exported.items())
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "out").dtype is torch.bfloat16
    back = AutoModelForCausalLM.from_pretrained(tmp_path / "out", dtype=torch.float32)
    # The same function of the same values: configuration and names are right.
    model.load_state_dict({key: tensor.float() for key, tensor in exported.items()}, strict=False)
    ids = torch.tensor([[3, 14, 15, 9, 26, 5]])
    assert torch.allclose(back(ids).logits, model(ids).logits, rtol=1e-4, atol=1e-5)
    assert AutoTokenizer.from_pretrained(tmp_path / "out").encode("<t1>") == [1]


def test_both_ways_in_give_one_model(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf", BY_NAME["llama"].build(), "llama")
    write(tmp_path / "m.gguf", tmp_path / "out")
    file, directory = (load_target(path, dtype="bfloat16") for path in (tmp_path / "m.gguf", tmp_path / "out"))
    assert file.target.traits.eos_token_ids == directory.target.traits.eos_token_ids
    assert file.tokenizer.encode("<t0>Ā<t2>") == directory.tokenizer.encode("<t0>Ā<t2>")


def test_a_file_is_exported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORERUN_CACHE", str(tmp_path / "cache"))
    write_gguf(tmp_path / "m.gguf", BY_NAME["llama"].build(), "llama")
    directory = export(tmp_path / "m.gguf")
    written = (directory / "model.safetensors").stat().st_mtime_ns
    assert export(tmp_path / "m.gguf") == directory
    assert (directory / "model.safetensors").stat().st_mtime_ns == written
    files = resolve(str(tmp_path / "m.gguf"))
    assert (files.name, files.gguf, files.directory) == ("m", tmp_path / "m.gguf", directory)
    assert files.num_bytes == (directory / "model.safetensors").stat().st_size
    assert tokenizer_of(files).encode("<t1>") == [1]
    bare = resolve(str(directory))
    assert bare.gguf is None and bare.directory == directory


def test_what_cannot_be_exported_exactly_is_refused(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf", BY_NAME["llama"].build(), "llama", extra=("rope_freqs.weight",))
    with pytest.raises(ForerunError, match="rotary divisors"):
        write(tmp_path / "m.gguf", tmp_path / "out")
    write_gguf(tmp_path / "n.gguf", BY_NAME["llama"].build(), "llama", extra=("blk.0.attn_sinks.weight",))
    with pytest.raises(ForerunError, match="attn_sinks"):
        write(tmp_path / "n.gguf", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(ForerunError, match="which is none"):
        resolve("no-such-model")
