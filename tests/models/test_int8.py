"""Weights rounded to int8 at loading: the rounding, the same bits, what is said of the price, what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import gguf
import pytest
import torch
from gguf import GGMLQuantizationType as Kind

from forerun.errors import ForerunError
from forerun.models.loading.int8_gate import describe_gate, write_gate
from forerun.models.loading.load_target import load_target
from forerun.models.native.int8_blocks import Q8_0, rounded_to_int8
from forerun.models.native.kernels import find_kernels
from support.passes import run_chunked
from support.tiny_gguf import write_gguf
from support.tiny_models import BY_NAME, random_tokens
from support.tiny_tokenizer import save_tokenizer

needs_kernels = pytest.mark.skipif(find_kernels() is None, reason="no kernels are built")
SHAPE = {"hidden_size": 64, "intermediate_size": 96}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("FORERUN_CACHE", str(tmp_path / "cache"))
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def saved(directory: Path, name: str, **changes: object) -> Path:
    BY_NAME[name].build(**SHAPE | changes).save_pretrained(directory)
    save_tokenizer(directory)
    return directory


def test_a_block_is_within_half_a_step_of_its_numbers() -> None:
    weight = torch.randn(5, 96, generator=torch.Generator().manual_seed(1)) * 3
    weight[2, 32:64] = 0
    weight[3, :32] = 1e-12
    blocks = rounded_to_int8(weight)
    assert (blocks.format, blocks.num_outputs, blocks.num_inputs) == (Q8_0, 5, 96)
    found = torch.tensor(gguf.dequantize(blocks.data, Kind.Q8_0))
    largest = weight.view(5, 3, 32).abs().amax(-1, keepdim=True).expand(5, 3, 32).reshape(5, 96)
    # fp16 moves a scale by one part in 2048, which the largest of 127 steps feels most.
    assert ((found - weight).abs() <= largest / 127 * (0.5 + 127 / 2048) + 1e-9).all()
    assert torch.equal(found[2, 32:64], torch.zeros(32))
    assert torch.equal(found[3, :32], torch.zeros(32))


@needs_kernels
@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen2_tied", "gemma3"])
def test_every_family_stays_near_its_own_numbers(name: str, tmp_path: Path) -> None:
    source = saved(tmp_path / name, name)
    expected = load_target(source, dtype="float32", device="cpu").target
    found = load_target(source, dtype="int8", device="cpu").target
    assert found.weight_bytes < 0.6 * expected.weight_bytes
    tokens = random_tokens(40)
    near = torch.cosine_similarity(found.logits_of(tokens), expected.logits_of(tokens), -1)
    assert near.min() > 0.9
    assert near.mean() > 0.99
    assert not torch.equal(found.logits_of(tokens), expected.logits_of(tokens))


@needs_kernels
@pytest.mark.parametrize("pool_dtype", [torch.float32, torch.int8])
def test_the_same_bits_at_any_chunk_and_thread_count(pool_dtype: torch.dtype, tmp_path: Path) -> None:
    target = load_target(saved(tmp_path / "model", "qwen2"), dtype="int8", device="cpu").target
    tokens = random_tokens(140)
    torch.set_num_threads(1)
    expected = run_chunked(target, tokens, 1)
    for num_threads in (1, 2, 4):
        torch.set_num_threads(num_threads)
        for size in (5, 13, 64, 140):
            assert torch.equal(run_chunked(target, tokens, size), expected), (num_threads, size)


@needs_kernels
def test_rows_without_whole_blocks_and_the_head_stay_as_they_are(tmp_path: Path) -> None:
    """Inputs of 48 and 80 are no whole blocks: only o_proj, whose inputs are the 64 of the heads, is rounded."""
    source = saved(tmp_path / "model", "llama", hidden_size=48, intermediate_size=80)
    loaded = load_target(source, dtype="int8", device="cpu")
    assert "but for 20 matrices in" in loaded.artifact.quantisation  # six in each of three layers, embedding, head


@needs_kernels
def test_a_gguf_file_is_rounded_too_and_lossy_until_it_is_measured(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write_gguf(path, BY_NAME["llama"].build(**SHAPE), "llama", {"norm.weight": Kind.F32, "weight": Kind.Q4_1})
    artifact = load_target(path, dtype="int8", device="cpu").artifact
    assert artifact.quantisation.startswith("GGUF Q4_1, rounded to int8 blocks of 32 but for 2 matrices in ")
    assert artifact.quantisation.endswith("lossy: KL to fp32 not measured")
    write_gate(artifact.hash, 0.0042, 1024)
    again = load_target(path, dtype="int8", device="cpu").artifact
    assert again.quantisation.endswith("; mean KL to fp32 0.0042 over 1024 positions")


@pytest.mark.parametrize(("kl", "num_positions"), [(0.0101, 5000), (0.001, 999), (float("nan"), 5000)])
def test_too_much_kl_or_too_little_text_is_lossy(kl: float, num_positions: int) -> None:
    write_gate("sha256:ab", kl, num_positions)
    assert describe_gate("sha256:ab").startswith("lossy: mean KL")
    assert describe_gate("sha256:cd") == "lossy: KL to fp32 not measured"


def test_a_damaged_gate_or_one_of_other_matrices_counts_as_none(tmp_path: Path) -> None:
    write_gate("sha256:ab", 0.001, 5000)
    (path,) = (tmp_path / "cache" / "int8_gates").iterdir()
    text = path.read_text()
    for broken in ("", "[]", text.replace("lm_head", "down_proj"), text.replace("mean_kl", "kl")):
        path.write_text(broken)
        assert describe_gate("sha256:ab") == "lossy: KL to fp32 not measured"


@needs_kernels
def test_it_needs_the_lean_decoder_on_native_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = saved(tmp_path / "model", "llama")
    with pytest.raises(ForerunError, match=r"native CPU kernels for dtype int8.*exact=False"):
        load_target(source, dtype="int8", device="cpu", exact=False)
    monkeypatch.setenv("FORERUN_KERNELS", "torch")
    with pytest.raises(
        ForerunError, match="kernels for dtype int8; found FORERUN_KERNELS=torch; unset FORERUN_KERNELS"
    ):
        load_target(source, dtype="int8", device="cpu")
    config = source / "config.json"
    config.write_text(config.read_text().replace("LlamaForCausalLM", "UnknownForCausalLM"))
    with pytest.raises(ForerunError, match=r"lean decoder for dtype int8.*UnknownForCausalLM"):
        load_target(source, dtype="int8", device="cpu")


@needs_kernels
def test_a_block_beyond_fp16_is_refused(tmp_path: Path) -> None:
    model = BY_NAME["llama"].build(**SHAPE)
    model.model.layers[1].mlp.down_proj.weight.data[3, 5] = 1e9
    model.save_pretrained(tmp_path)
    save_tokenizer(tmp_path)
    with pytest.raises(ForerunError, match=r"isn't finite in model\.layers\.1\.mlp\.down_proj"):
        load_target(tmp_path, dtype="int8", device="cpu")
