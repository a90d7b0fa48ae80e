"""GGUF files: every type that the library reads, names and row order per family, damaged files refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind

from forerun.errors import ForerunError
from forerun.models.loading.gguf_file import GGUFFile
from forerun.models.loading.load_gguf import load_gguf, load_gguf_decoder
from forerun.models.loading.load_target import load_target
from support.tiny_gguf import raw_blocks, readable_types, write_gguf
from support.tiny_models import BY_NAME, random_tokens

CPU = torch.device("cpu")
TYPES = readable_types()


def test_the_library_reads_k_and_iq_types() -> None:
    names = {kind.name for kind in TYPES}
    assert {"Q4_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "IQ2_XXS", "BF16"} <= names


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_every_type_reads_as_the_library_dequantises_it(kind: Kind, tmp_path: Path) -> None:
    data = raw_blocks(kind, (3, 512))
    stored = data.view({Kind.F32: np.float32, Kind.F16: np.float16}.get(kind, np.uint8))
    path = tmp_path / "one.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tensor("before", np.arange(5, dtype=np.float32))
    writer.add_tensor("some.weight", stored, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    tensor = GGUFFile(path).read("some.weight")
    assert tensor.dtype is torch.float32
    assert tensor.shape == (3, 512)
    assert tensor.isfinite().all()
    assert len(tensor.unique()) > 4
    np.testing.assert_array_equal(tensor.numpy(), gguf.dequantize(stored, kind).reshape(3, 512))


def check_against_transformers(path: Path, model: Any, stored: dict[str, torch.Tensor]) -> None:
    missing = model.load_state_dict(stored, strict=False).missing_keys
    assert set(missing) <= {"lm_head.weight"}
    model.tie_weights()
    tokens = random_tokens(30)
    with torch.no_grad():
        expected = model(torch.tensor([tokens])).logits[0]
    found = load_gguf_decoder(GGUFFile(path), torch.float32, CPU).logits_of(tokens)
    scale = expected.abs().max()
    torch.testing.assert_close(found / scale, expected / scale, atol=1e-5, rtol=0)


FAMILIES = {
    "llama": ("llama", {"llama.rope.freq_base": 10000.0}),
    "llama_biased": ("llama", {}),
    "linear_rope": ("llama", {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}),
    "yarn_rope": (
        "llama",
        {
            "llama.rope.scaling.type": "yarn",
            "llama.rope.scaling.factor": 4.0,
            "llama.rope.scaling.original_context_length": 64,
        },
    ),
    "qwen2": ("qwen2", {}),
    "qwen2_tied": ("qwen2", {}),
    "qwen3": ("qwen3", {}),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_families_equal_transformers(name: str, tmp_path: Path) -> None:
    architecture, metadata = FAMILIES[name]
    model = BY_NAME[name].build(mlp_bias=False, attention_bias=False) if "biased" in name else BY_NAME[name].build()
    stored = write_gguf(tmp_path / "m.gguf", model, architecture, metadata=metadata)
    check_against_transformers(tmp_path / "m.gguf", model, stored)


def test_gemma3_equals_transformers(tmp_path: Path) -> None:
    layers = {"num_hidden_layers": 7, "layer_types": None, "query_pre_attn_scalar": 16, "final_logit_softcapping": None}
    model = BY_NAME["gemma3"].build(**layers)
    metadata = {"gemma3.rope.freq_base": 1e6, "gemma3.attention.sliding_window": 13}
    stored = write_gguf(tmp_path / "m.gguf", model, "gemma3", metadata=metadata)
    check_against_transformers(tmp_path / "m.gguf", model, stored)


@pytest.mark.parametrize("kind", [Kind.F16, Kind.BF16, Kind.Q8_0, Kind.Q5_1, Kind.Q5_0, Kind.Q4_1, Kind.Q4_0])
def test_quantised_models_equal_transformers_with_the_same_values(kind: Kind, tmp_path: Path) -> None:
    model = BY_NAME["llama"].build(hidden_size=64, intermediate_size=96)
    kinds = {end: kind for end in ("ffn_down.weight", "attn_q.weight", "attn_k.weight", "token_embd.weight")}
    stored = write_gguf(tmp_path / "m.gguf", model, "llama", kinds)
    assert not torch.equal(
        stored["model.layers.0.self_attn.q_proj.weight"], model.model.layers[0].self_attn.q_proj.weight
    )
    check_against_transformers(tmp_path / "m.gguf", model, stored)


def test_llama3_frequency_factors_are_used(tmp_path: Path) -> None:
    """Converters write Llama 3's scaling as one divisor per frequency."""
    model = BY_NAME["llama3_rope"].build()
    rotary = model.model.rotary_emb
    plain = 1 / 10000.0 ** (torch.arange(0, 16, 2).float() / 16)
    model.register_buffer("factors", plain / rotary.inv_freq)
    path = tmp_path / "m.gguf"
    original = gguf.get_tensor_name_map

    class Table:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def get_name(self, name: str, try_suffixes: tuple[str, ...]) -> str | None:
            return "rope_freqs.weight" if name == "factors" else self.inner.get_name(name, try_suffixes=try_suffixes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gguf, "get_tensor_name_map", lambda arch, n: Table(original(arch, n)))
        stored = write_gguf(path, model, "llama")
    del model.factors, stored["factors"]
    check_against_transformers(path, model, stored)


@pytest.fixture
def llama_file(tmp_path: Path) -> Path:
    path = tmp_path / "llama.gguf"
    write_gguf(path, BY_NAME["llama"].build(), "llama")
    return path


def test_a_whole_file_loads_with_tokenizer_and_artifact(llama_file: Path) -> None:
    loaded = load_target(llama_file, dtype="float32", device="cpu")
    assert loaded.artifact.id == "llama"
    assert loaded.artifact.hash.startswith("sha256:")
    assert loaded.artifact.quantisation == "GGUF F32, computed in float32"
    assert load_target(llama_file, device="cpu").artifact == loaded.artifact, "auto rounds no numbers"
    assert loaded.target.traits.eos_token_ids == (2,)
    assert loaded.tokenizer.eos_token_ids == (2,)
    assert len(loaded.tokenizer.vocabulary) == loaded.target.traits.vocab_size


@pytest.mark.parametrize("kept", [0, 3, 20, 200, 3000, -1])
def test_truncated_files_are_refused(kept: int, llama_file: Path) -> None:
    content = llama_file.read_bytes()
    llama_file.write_bytes(content[:kept])
    with pytest.raises(ForerunError, match="GGUF"):
        load_target(llama_file, device="cpu")


@pytest.mark.parametrize(
    ("offset", "replacement", "message"),
    [(0, b"GGUX", "GGUX"), (4, b"\x09\x00\x00\x00", "version 9"), (16, b"\xff" * 8, "ends after")],
)
def test_damaged_headers_are_refused(offset: int, replacement: bytes, message: str, llama_file: Path) -> None:
    content = bytearray(llama_file.read_bytes())
    content[offset : offset + len(replacement)] = replacement
    llama_file.write_bytes(content)
    with pytest.raises(ForerunError, match=message):
        GGUFFile(llama_file)


def test_an_unknown_architecture_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    write_gguf(path, BY_NAME["llama"].build(), "llama")
    path.write_bytes(path.read_bytes().replace(b"llama", b"rwkv6"))
    with pytest.raises(ForerunError, match=r"gemma3, llama, qwen2, qwen3.*'rwkv6'"):
        load_gguf(path, torch.float32, CPU)


def test_a_missing_and_a_surplus_tensor_are_named(tmp_path: Path) -> None:
    write_gguf(tmp_path / "less.gguf", BY_NAME["llama"].build(), "llama", skip=frozenset({"blk.1.ffn_up.weight"}))
    with pytest.raises(ForerunError, match=r"no model\.layers\.1\.mlp\.up_proj\.weight"):
        load_gguf(tmp_path / "less.gguf", torch.float32, CPU)
    write_gguf(tmp_path / "more.gguf", BY_NAME["qwen3"].build(), "qwen3", extra=("blk.0.attn_sinks.weight",))
    with pytest.raises(ForerunError, match=r"also blk\.0\.attn_sinks"):
        load_gguf(tmp_path / "more.gguf", torch.float32, CPU)


def test_an_unknown_tokenizer_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    write_gguf(path, BY_NAME["llama"].build(), "llama")
    path.write_bytes(path.read_bytes().replace(b"gpt-2", b"gpt-9"))
    with pytest.raises(ForerunError, match="gpt-9"):
        load_gguf(path, torch.float32, CPU)


def test_merges_of_tokens_that_are_not_there_are_refused(llama_file: Path) -> None:
    spoiled = "\u0102 \u0101".encode()
    llama_file.write_bytes(llama_file.read_bytes().replace("\u0100 \u0101".encode(), spoiled))
    with pytest.raises(ForerunError, match="out of vocabulary"):
        load_gguf(llama_file, torch.float32, CPU)
