"""GGUF files as shipped: the file's numbers, the same bits in every circumstance, refusals that say what to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import gguf
import pytest
import torch
from gguf import GGMLQuantizationType as Kind

from forerun.errors import ForerunError
from forerun.models.loading.gguf_file import GGUFFile
from forerun.models.loading.load_gguf import load_gguf_decoder, load_gguf_decoder_as_shipped
from forerun.models.loading.load_target import load_target
from forerun.models.native.kernels import find_kernels
from support.passes import run_chunked
from support.tiny_gguf import write_gguf
from support.tiny_models import BY_NAME, random_tokens

pytestmark = pytest.mark.skipif(find_kernels() is None, reason="no kernels are built")

CPU = torch.device("cpu")
SHAPE = {"hidden_size": 64, "intermediate_size": 96}
ALL = {"weight": Kind.Q4_1}
MIXED = {
    "norm.weight": Kind.F32,
    "token_embd.weight": Kind.Q5_0,
    "attn_v.weight": Kind.Q8_0,
    "ffn_down.weight": Kind.Q5_1,
    "weight": Kind.Q4_0,
}
FAMILIES = [
    ("llama", "llama"),
    ("qwen2", "qwen2"),
    ("qwen2_tied", "qwen2"),
    ("qwen3", "qwen3"),
    ("gemma3", "gemma3"),
]
METADATA = {"gemma3": {"gemma3.attention.sliding_window": 13}}
NORMS = {"norm.weight": Kind.F32}


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def written(directory: Path, name: str, architecture: str, kinds: dict[str, Kind], **changes: object) -> Path:
    path = directory / f"{name}.gguf"
    heads = {"head_dim": 32} if name == "qwen3" else {}
    model = BY_NAME[name].build(**SHAPE | heads | changes)
    write_gguf(path, model, architecture, NORMS | kinds, METADATA.get(architecture))
    return path


@pytest.mark.parametrize("kinds", [ALL, MIXED], ids=["one type", "mixed types"])
@pytest.mark.parametrize(("name", "architecture"), FAMILIES)
def test_every_family_computes_with_the_numbers_of_the_file(
    name: str, architecture: str, kinds: dict[str, Kind], tmp_path: Path
) -> None:
    file = GGUFFile(written(tmp_path, name, architecture, kinds))
    expected = load_gguf_decoder(file, torch.float32, CPU)
    found, num_dequantised = load_gguf_decoder_as_shipped(file, torch.float32)
    tokens = random_tokens(40)
    assert num_dequantised == 0
    assert torch.equal(found.embed(torch.tensor(tokens)), expected.embed(torch.tensor(tokens)))
    # Only the rounding of activations to int8 is between the two.
    near = torch.cosine_similarity(found.logits_of(tokens), expected.logits_of(tokens), -1)
    assert near.min() > 0.95
    assert near.mean() > 0.99


@pytest.mark.parametrize("pool_dtype", [torch.float32, torch.bfloat16, torch.int8])
def test_the_same_bits_at_any_chunk_and_thread_count(pool_dtype: torch.dtype, tmp_path: Path) -> None:
    file = GGUFFile(written(tmp_path, "qwen2", "qwen2", MIXED))
    target, _ = load_gguf_decoder_as_shipped(file, pool_dtype)
    tokens = random_tokens(140)
    torch.set_num_threads(1)
    expected = run_chunked(target, tokens, 1)
    for num_threads in (1, 2, 4):
        torch.set_num_threads(num_threads)
        for size in (5, 8, 13, 64, 140):
            assert torch.equal(run_chunked(target, tokens, size), expected), (num_threads, size)


def test_the_artifact_says_what_was_computed(tmp_path: Path) -> None:
    loaded = load_target(written(tmp_path, "llama", "llama", ALL), dtype="as-shipped", device="cpu")
    assert loaded.artifact.quantisation == "GGUF Q4_1 as shipped, int8 activations per block of 32"
    assert loaded.target.traits.dtype == "as-shipped"
    assert loaded.target.traits.is_bit_exact


def test_what_has_no_kernels_is_dequantised_and_said(tmp_path: Path) -> None:
    """Types that share a panel, and types that aren't blocks, are the same numbers in fp32."""
    kinds = {"ffn_gate.weight": Kind.Q4_0, "ffn_up.weight": Kind.Q8_0, "output.weight": Kind.F16, **ALL}
    path = written(tmp_path, "qwen2", "qwen2", kinds, num_hidden_layers=2)
    loaded = load_target(path, dtype="as-shipped", device="cpu")
    assert "as shipped, 7 matrices of other types in float32, int8" in loaded.artifact.quantisation
    tokens = random_tokens(20)
    expected = load_gguf_decoder(GGUFFile(path), torch.float32, CPU).logits_of(tokens)
    assert torch.cosine_similarity(loaded.target.logits_of(tokens), expected, -1).min() > 0.95


def test_a_file_without_blocks_computes_as_float32(tmp_path: Path) -> None:
    file = GGUFFile(written(tmp_path, "llama", "llama", {}))
    target, num_dequantised = load_gguf_decoder_as_shipped(file, torch.float32)
    tokens = random_tokens(20)
    assert num_dequantised == 7 * 3 + 2
    assert torch.equal(target.logits_of(tokens), load_gguf_decoder(file, torch.float32, CPU).logits_of(tokens))


def test_damage_is_refused(tmp_path: Path) -> None:
    model = BY_NAME["llama"].build(**SHAPE)
    less, more, infinite = (tmp_path / f"{name}.gguf" for name in ("less", "more", "infinite"))
    write_gguf(less, model, "llama", ALL | NORMS, skip=frozenset({"blk.1.ffn_up.weight"}))
    with pytest.raises(ForerunError, match=r"no model\.layers\.1\.mlp\.up_proj\.weight"):
        load_gguf_decoder_as_shipped(GGUFFile(less), torch.float32)
    write_gguf(more, model, "llama", ALL | NORMS, extra=("blk.0.attn_sinks.weight",))
    with pytest.raises(ForerunError, match=r"also blk\.0\.attn_sinks"):
        load_gguf_decoder_as_shipped(GGUFFile(more), torch.float32)
    write_gguf(infinite, model, "llama", NORMS | ALL)
    content = infinite.read_bytes()
    _, stored = GGUFFile(infinite).stored("blk.2.ffn_down.weight")
    at = content.index(stored.tobytes())
    infinite.write_bytes(content[:at] + b"\x00\x7c" + content[at + 2 :])  # the first scale
    with pytest.raises(ForerunError, match=r"finite in model\.layers\.2\.mlp\.down_proj\.weight"):
        load_gguf_decoder_as_shipped(GGUFFile(infinite), torch.float32)


def test_a_matrix_of_another_shape_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "llama", "llama", ALL)
    content = path.read_bytes()
    at = content.index(b"llama.feed_forward_length") + len(b"llama.feed_forward_length") + 4
    path.write_bytes(content[:at] + (64).to_bytes(4, "little") + content[at + 4 :])
    with pytest.raises(ForerunError, match=r"of shape \[96, 64\] where \[64, 64\] belongs|of shape \[64, 96\]"):
        load_gguf_decoder_as_shipped(GGUFFile(path), torch.float32)


def test_only_gguf_files_on_native_kernels_have_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "llama", "llama", ALL)
    BY_NAME["llama"].save(tmp_path / "directory")
    for source, exact, message in (
        (str(tmp_path / "directory"), True, "a directory"),
        ("hub:some/model", True, "a hub id"),
        (str(path), False, "exact=False"),
    ):
        with pytest.raises(ForerunError, match=message):
            load_target(source, dtype="as-shipped", device="cpu", exact=exact)
    monkeypatch.setenv("FORERUN_KERNELS", "torch")
    with pytest.raises(ForerunError, match="native kernels"):
        load_target(path, dtype="as-shipped", device="cpu")


def test_rows_of_the_file_are_read_as_they_lie(tmp_path: Path) -> None:
    file = GGUFFile(written(tmp_path, "qwen2", "qwen2", ALL))
    kind, rows = file.stored("blk.0.ffn_down.weight")
    assert kind is Kind.Q4_1
    assert torch.equal(torch.tensor(gguf.dequantize(rows, kind)), file.read("blk.0.ffn_down.weight"))
