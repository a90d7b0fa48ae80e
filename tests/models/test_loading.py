"""What a person can name, and what is said when it can't be loaded."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file

from forerun.errors import ForerunError
from forerun.models import device
from forerun.models.adapter.adapter_target import AdapterTarget
from forerun.models.decoder import Decoder
from forerun.models.loading import hub
from forerun.models.loading.load_target import load_target
from support.tiny_models import BY_NAME, TinyModel, load, random_tokens
from support.tiny_tokenizer import save_tokenizer


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "tiny-llama"
    BY_NAME["llama"].save(path)
    save_tokenizer(path)
    return path


def refused(source: str | Path, pattern: str, **kwargs: str) -> None:
    with pytest.raises(ForerunError, match=pattern) as error:
        load_target(source, **({"device": "cpu", "dtype": "float32"} | kwargs))
    assert "\n" not in str(error.value), "one line"


def test_a_directory_loads_whole(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORERUN_KERNELS", "torch")
    (directory / "generation_config.json").write_text(json.dumps({"eos_token_id": [5, 2]}))
    loaded = load_target(str(directory), device="cpu", dtype="float32")
    assert isinstance(loaded.target, Decoder)
    assert loaded.target.traits.eos_token_ids == (5, 2)
    assert loaded.tokenizer.encode("w7 w9") == [7, 9]
    assert loaded.artifact.id == "tiny-llama"
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", loaded.artifact.hash)
    assert loaded.artifact.quantisation == "float32, computed in float32"
    assert torch.equal(loaded.target.logits_of([3, 4]), load(directory).logits_of([3, 4]))


def test_bf16_is_packed_and_keeps_its_bits(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORERUN_KERNELS", "torch")
    packed = load_target(directory, device="cpu", dtype="bf16").target
    plain = load(directory, torch.bfloat16)
    assert torch.equal(packed.logits_of(random_tokens(20)), plain.logits_of(random_tokens(20)))


@pytest.mark.parametrize("stored", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_auto_rounds_no_file(stored: torch.dtype, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine that computes with bf16, only what is bf16 already is."""
    monkeypatch.setattr(device, "_is_bf16_fast", lambda on: True)
    path = directory / "model.safetensors"
    # As checkpoints of bf16 come: vectors in fp32.
    save_file({name: t.to(stored) if t.dim() > 1 else t for name, t in load_file(path).items()}, path)
    expected = torch.bfloat16 if stored is torch.bfloat16 else torch.float32
    loaded = load_target(directory, device="cpu")
    assert loaded.target.traits.dtype == str(expected).removeprefix("torch.")
    assert load_target(directory, device="cpu", dtype="bf16").target.traits.dtype == "bfloat16", "it may be asked for"


def test_other_architectures_go_to_the_adapter(tmp_path: Path) -> None:
    model = TinyModel("olmo2", "olmo2", {"head_dim": None}).save(tmp_path)
    save_tokenizer(tmp_path)
    target = load_target(tmp_path, device="cpu", dtype="float32").target
    assert isinstance(target, AdapterTarget)
    tokens = random_tokens(12)
    with torch.no_grad():
        expected = model(torch.tensor([tokens])).logits[0]
    torch.testing.assert_close(target.logits_of(tokens), expected, atol=1e-4, rtol=1e-4)


def test_nothing_there(tmp_path: Path) -> None:
    refused(tmp_path / "absent", "none of them")
    refused("no-such-name", "smollm2-135m.*'no-such-name'")
    refused(tmp_path, "config.json")
    (tmp_path / "notes.txt").write_text("hello")
    refused(tmp_path / "notes.txt", "begins with b'hell'")


def test_a_single_safetensors_file_is_pointed_to_its_directory(directory: Path) -> None:
    refused(directory / "model.safetensors", "give its directory")


def test_missing_weights_tokenizer_or_configuration(directory: Path) -> None:
    for name in ("tokenizer.json", "model.safetensors", "config.json"):
        (directory / name).rename(directory / "away")
        refused(directory, "tokenizer" if name.startswith("tokenizer") else name)
        (directory / "away").rename(directory / name)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    BY_NAME["llama"].save(tmp_path, max_shard_size="30KB")
    save_tokenizer(tmp_path)
    shard = sorted(tmp_path.glob("*.safetensors"))[1]
    shard.unlink()
    refused(tmp_path, re.escape(shard.name))
    (tmp_path / "model.safetensors.index.json").write_text("{")
    refused(tmp_path, "index.json")


@pytest.mark.parametrize("kept", [4, 500, -8])
def test_truncated_weights(kept: int, directory: Path) -> None:
    path = directory / "model.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    refused(directory, "whole safetensors")


def test_tensors_missing_surplus_misshapen_or_not_a_number(directory: Path) -> None:
    path = directory / "model.safetensors"
    name = "model.layers.1.self_attn.k_proj.weight"
    tensors = load_file(path)
    save_file({key: value for key, value in tensors.items() if key != name}, path)
    refused(directory, re.escape(f"no {name}"))
    save_file(tensors | {"model.layers.1.self_attn.k_proj.lora": torch.ones(2)}, path)
    refused(directory, "also model.layers.1.self_attn.k_proj.lora")
    save_file(tensors | {name: tensors[name][:-1].clone()}, path)
    refused(directory, r"\[31, 48\] where \[32, 48\]")
    save_file(tensors | {name: tensors[name] * float("nan")}, path)
    refused(directory, f"NaN or infinity in {name}")


def test_a_tied_head_in_the_file_is_left_out(tmp_path: Path) -> None:
    BY_NAME["qwen2_tied"].save(tmp_path)
    path = tmp_path / "model.safetensors"
    expected = load(tmp_path).logits_of([3, 4])
    save_file(load_file(path) | {"lm_head.weight": torch.full((97, 48), float("nan"))}, path)
    assert torch.equal(load(tmp_path).logits_of([3, 4]), expected)


def test_the_text_half_of_a_multimodal_gemma3_loads(tmp_path: Path) -> None:
    BY_NAME["gemma3"].save(tmp_path)
    expected = load(tmp_path).logits_of(random_tokens(20))
    path, settings = tmp_path / "model.safetensors", tmp_path / "config.json"
    tensors = {f"language_model.{name}": value for name, value in load_file(path).items()}
    save_file(tensors | {"vision_tower.x.weight": torch.ones(2), "multi_modal_projector.y": torch.ones(2)}, path)
    text = json.loads(settings.read_text())
    whole = {"model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"], "text_config": text}
    settings.write_text(json.dumps(whole))
    assert torch.equal(load(tmp_path).logits_of(random_tokens(20)), expected)


def test_configurations_that_would_be_misread_are_refused(tmp_path: Path) -> None:
    BY_NAME["llama"].save(tmp_path)
    save_tokenizer(tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    for change, pattern in (
        ({"hidden_act": "relu"}, "'relu'"),
        ({"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}}, "'dynamic'"),
        ({"model_type": "nobody-knows"}, "nobody-knows"),
    ):
        path.write_text(json.dumps(config | change))
        refused(tmp_path, pattern)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hidden_size", "9" * 5000),
        ("vocab_size", "9" * 4000),
        ("num_hidden_layers", "9" * 30),
        ("intermediate_size", "9" * 12),
        ("max_position_embeddings", "1" + "0" * 400),
        ("head_dim", "-16"),
        ("num_key_value_heads", "0"),
    ],
)
def test_sizes_that_no_model_has_are_refused_in_one_line(name: str, text: str, tmp_path: Path) -> None:
    BY_NAME["llama"].save(tmp_path)
    save_tokenizer(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {name: "@"}).replace('"@"', text))
    refused(tmp_path, "expected .*; found .{1,200}; ")


@pytest.mark.parametrize(("setting", "value"), [("dtype", "int3"), ("dtype", "float16"), ("device", "quantum")])
def test_settings_that_do_not_exist(setting: str, value: str, directory: Path) -> None:
    refused(directory, value, **{setting: value})


@pytest.mark.skipif(torch.cuda.is_available(), reason="the machine has the device that the test wants absent")
def test_an_absent_device_is_refused(directory: Path) -> None:
    refused(directory, "only .*cpu on this machine", device="cuda")


def test_hub_ids_are_fetched_only_when_asked_for(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def snapshot_download(id: str, **_: object) -> str:
        asked.append(id)
        if id == "org/absent":
            raise OSError("404\nand more")
        return str(directory)

    monkeypatch.setitem(
        __import__("sys").modules, "huggingface_hub", SimpleNamespace(snapshot_download=snapshot_download)
    )
    loaded = load_target("hub:org/tiny-llama", device="cpu", dtype="float32")
    assert (loaded.artifact.id, loaded.artifact.revision) == ("org/tiny-llama", directory.name)
    load_target("hub:org/tiny-llama", device="cpu", dtype="float32")
    refused("hub:org/absent", "'org/absent' on the hub")
    refused("org/absent", "write hub:ORG/NAME")
    assert asked == ["org/tiny-llama", "org/tiny-llama", "org/absent"]
    monkeypatch.chdir(directory.parent.parent)
    load_target(f"{directory.parent.name}/tiny-llama", device="cpu", dtype="float32")
    assert len(asked) == 3, "a directory of that name comes first"
    assert hub.is_hub_id("hub:org/name-1.5_x")
    assert not hub.is_hub_id("org/name")
    assert not hub.is_hub_id("./org/name")
    assert not hub.is_hub_id("/abs/olute")
