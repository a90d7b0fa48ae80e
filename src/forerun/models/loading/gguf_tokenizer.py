"""The tokenizer that a GGUF file describes, rebuilt from its vocabulary, merges and kind.

GGUF keeps no normaliser and no split expression, only a name for them. The expressions are those that the models' own
tokenizers have (also listed in llama.cpp, src/llama-vocab.cpp); a name without one here is refused.
"""

from __future__ import annotations

from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend
from transformers import PreTrainedTokenizerFast

from forerun.errors import ForerunError
from forerun.models.loading.gguf_file import GGUFFile
from forerun.models.tokenizer import Tokenizer

_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_QWEN2 = _WORDS + r"\p{N}" + _REST
_LLAMA3 = _WORDS + r"\p{N}{1,3}" + _REST
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_SPLITS = {
    "qwen2": _QWEN2,
    "deepseek-r1-qwen": _QWEN2,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
    "llama-bpe": _LLAMA3,
    "tekken": _TEKKEN,
}
# Cut like GPT-2, whose expression the byte-level step has built in; the first group takes digits one by one before.
_SINGLE_DIGITS = frozenset({"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"})
_LIKE_GPT2 = frozenset({"gpt-2", "phi-2", "olmo", "jais"})
_COMPOSED = frozenset({"qwen2", "deepseek-r1-qwen"})  # normalise to NFC first

_UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = 2, 3, 4, 5, 6
# Control tokens that end an answer even where the file's metadata names just one of them.
_ENDS = frozenset({"<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<end_of_turn>"})
_SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # how SentencePiece spells a space


def gguf_tokenizer(file: GGUFFile) -> Tokenizer:
    """Raises ForerunError for a kind of tokenizer that can't be rebuilt exactly."""
    tokens: list[str] = file.require("tokenizer.ggml.tokens")
    types: list[int] = file.get("tokenizer.ggml.token_type") or [1] * len(tokens)
    try:
        backend = _backend(file, tokens)
    except ForerunError:
        raise
    except Exception as error:  # the library raises nothing narrower
        raise ForerunError(f"a consistent vocabulary in {file.path}", str(error), "convert the model again") from error
    special = {index for index, kind in enumerate(types) if kind in (_CONTROL, _UNKNOWN)}
    backend.add_special_tokens([AddedToken(tokens[index], normalized=False) for index in sorted(special)])
    spelled = backend.get_vocab(with_added_tokens=False)
    whole = [token for token, kind in zip(tokens, types) if kind == _USER_DEFINED and token in spelled]
    backend.add_tokens([AddedToken(token, normalized=False) for token in whole])
    if backend.get_vocab_size() != len(set(tokens)):
        raise ForerunError(
            f"{len(tokens)} different tokens in {file.path}", f"{backend.get_vocab_size()}", "convert the model again"
        )
    named = {name: file.get(f"tokenizer.ggml.{name}_token_id") for name in ("bos", "eos", "unknown", "padding")}
    named = {name: index for name, index in named.items() if index is not None}
    for name, index in named.items():
        if not isinstance(index, int) or not 0 <= index < len(tokens):
            raise ForerunError(
                f"an id below {len(tokens)} as {name} token in {file.path}", repr(index), "convert the model again"
            )
    _add_bos(file, backend, tokens, named)
    wrapped: Any = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        chat_template=file.get("tokenizer.chat_template"),
        clean_up_tokenization_spaces=False,
        **{f"{_HF_NAMES.get(name, name)}_token": tokens[index] for name, index in named.items()},
    )
    stated = [file.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot", "eom")]
    return Tokenizer(
        wrapped,
        label=file.path.name,
        eos_token_ids=[int(index) for index in stated if index is not None]
        + [index for index in sorted(special) if tokens[index] in _ENDS],
        unused=frozenset(index for index, kind in enumerate(types) if kind == _UNUSED),
    )


_HF_NAMES = {"unknown": "unk", "padding": "pad"}


def _backend(file: GGUFFile, tokens: list[str]) -> Backend:
    model, kind = file.require("tokenizer.ggml.model"), file.get("tokenizer.ggml.pre", "default")
    if model == "gpt2" and kind in _SINGLE_DIGITS | _LIKE_GPT2 | _SPLITS.keys():
        return _byte_level(kind, tokens, [_pair(merge) for merge in file.require("tokenizer.ggml.merges")])
    if model == "llama":
        return _sentencepiece(file, tokens)
    known = sorted(_SINGLE_DIGITS | _LIKE_GPT2 | _SPLITS.keys())
    raise ForerunError(
        f"a tokenizer of kind llama, or gpt2 cut like {', '.join(known)}",
        f"{model} cut like {kind} in {file.path}",
        "use the model's Hugging Face directory",
    )


def _pair(merge: str) -> tuple[str, str]:
    left, _, right = merge.partition(" ")
    return left, right


def _byte_level(kind: str, tokens: list[str], merges: list[tuple[str, str]]) -> Backend:
    vocabulary = {token: index for index, token in enumerate(tokens)}
    backend = Backend(models.BPE(vocabulary, merges))
    if kind in _COMPOSED:
        backend.normalizer = normalizers.NFC()
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=kind not in _SPLITS)
    steps: list[Any] = []
    if kind in _SPLITS:
        steps.append(pre_tokenizers.Split(Regex(_SPLITS[kind]), behavior="isolated"))
    elif kind in _SINGLE_DIGITS:
        steps.append(pre_tokenizers.Digits(individual_digits=True))
    backend.pre_tokenizer = pre_tokenizers.Sequence([*steps, byte_level])
    backend.decoder = decoders.ByteLevel()
    return backend


def _sentencepiece(file: GGUFFile, tokens: list[str]) -> Backend:
    """SentencePiece BPE: pairs merge in the order of the merged piece's score, unknown characters fall to bytes."""
    is_gemma = file.architecture.startswith("gemma")
    # Gemma's files spell runs of spaces with real spaces, and list pieces in merge order whatever their scores say.
    spelled = [_SPACE * len(token) if is_gemma and token and not token.strip(" ") else token for token in tokens]
    scores = file.require("tokenizer.ggml.scores")
    order = range(len(tokens)) if is_gemma else [-score for score in scores]
    vocabulary = {token: index for index, token in enumerate(spelled)}
    unknown = file.get("tokenizer.ggml.unknown_token_id")
    backend = Backend(
        models.BPE(
            vocabulary,
            _merges_of(vocabulary, dict(zip(spelled, order, strict=True))),
            byte_fallback=True,
            fuse_unk=True,
            unk_token=None if unknown is None else tokens[unknown],
        )
    )
    has_prefix = bool(file.get("tokenizer.ggml.add_space_prefix", True))
    replace = normalizers.Replace(" ", _SPACE)
    backend.normalizer = normalizers.Sequence([normalizers.Prepend(_SPACE), replace]) if has_prefix else replace
    strip = [decoders.Strip(" ", 1, 0)] if has_prefix else []
    backend.decoder = decoders.Sequence(
        [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
    )
    return backend


def _merges_of(vocabulary: dict[str, int], rank: dict[str, float]) -> list[tuple[str, str]]:
    """Every way to make a piece of two pieces, best piece first, then by the parts' ids."""
    merges = []
    for piece, place in rank.items():
        for cut in range(1, len(piece)):
            left, right = vocabulary.get(piece[:cut]), vocabulary.get(piece[cut:])
            if left is not None and right is not None:
                merges.append((place, left, right, piece[:cut], piece[cut:]))
    return [(left, right) for _, _, _, left, right in sorted(merges)]


def _add_bos(file: GGUFFile, backend: Backend, tokens: list[str], named: dict[str, int]) -> None:
    """A text begins with BOS where the file says so, and for SentencePiece where it says nothing."""
    begins = file.get("tokenizer.ggml.add_bos_token", file.require("tokenizer.ggml.model") == "llama")
    if begins and "bos" in named:
        bos = tokens[named["bos"]]
        backend.post_processor = processors.TemplateProcessing(
            single=f"{bos}:0 $A:0", pair=f"{bos}:0 $A:0 $B:1", special_tokens=[(bos, named["bos"])]
        )
