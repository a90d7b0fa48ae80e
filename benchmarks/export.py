"""A GGUF file as a Hugging Face directory with the bf16 values that its blocks stand for.

Peers that read no GGUF run the same numbers that way; forerun reads the file with its own loading code and writes them.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

from forerun.errors import ForerunError
from forerun.models.cache_root import cache_root
from forerun.models.families.registry import family_of_gguf
from forerun.models.loading.gguf_config import gguf_transformers_config
from forerun.models.loading.gguf_file import GGUFFile
from forerun.models.loading.gguf_source import ROTARY_FACTORS, GGUFSource
from forerun.models.loading.gguf_tokenizer import gguf_tokenizer
from forerun.models.pull import file_sha256

_HEAD, _EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"


def export(path: Path) -> Path:
    """The directory, written once per content of the file. Raises ForerunError for what can't be exported exactly."""
    directory = cache_root() / "exports" / f"{path.stem}-{file_sha256(path)[:12]}"
    if not directory.is_dir():
        directory.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory.parent, prefix=".export-") as folder:
            write(path, Path(folder) / "model")
            shutil.move(Path(folder) / "model", directory)
    return directory


def write(path: Path, directory: Path) -> None:
    """Configuration, weights, tokenizer and generation settings. See ``export``."""
    file = GGUFFile(path)
    family = family_of_gguf(file.architecture)
    if family is None or ROTARY_FACTORS in file.tensor_names:
        found = "rotary divisors kept as a tensor" if family else repr(file.architecture)
        raise ForerunError(
            f"a plain architecture of the lean decoder in {path.name}", found, "give its Hugging Face directory instead"
        )
    config = gguf_transformers_config(file, family)
    config.architectures = [family.architectures[0]]
    config.dtype = "bfloat16"
    tokenizer = gguf_tokenizer(file)
    config.eos_token_id = list(tokenizer.eos_token_ids)
    config.bos_token_id = file.get("tokenizer.ggml.bos_token_id")
    with torch.device("meta"):
        shapes = {name: tensor.shape for name, tensor in AutoModelForCausalLM.from_config(config).state_dict().items()}
    if config.tie_word_embeddings:
        del shapes[_HEAD]
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    source = GGUFSource(file, family, frozenset(shapes), heads)
    if surplus := sorted(source.names ^ shapes.keys()):
        raise ForerunError(f"the tensors of {family.architectures[0]} in {path.name}", f"{surplus[0]} amiss", "see it")
    weights = {}
    for name in shapes:
        tensor = source.read(name)
        # What safetensors files of such a family leave out of norms is in GGUF's.
        weights[name] = (tensor - family.norm_offset if name.endswith("norm.weight") else tensor).to(torch.bfloat16)
    directory.mkdir(parents=True)
    save_file(
        {name: tensor.contiguous() for name, tensor in weights.items()},
        directory / "model.safetensors",
        {"format": "pt"},
    )
    config.save_pretrained(directory)
    tokenizer.backend.save_pretrained(directory)
    ends = {"eos_token_id": list(tokenizer.eos_token_ids)}
    (directory / "generation_config.json").write_text(json.dumps(ends, indent=2))
