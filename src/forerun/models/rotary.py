"""Rotary position embedding, evaluated per row from its absolute position alone.

Scalings whose frequencies depend on the longest row of a batch (dynamic NTK, LongRoPE) are refused: with them a row's
bits would depend on its neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from forerun.errors import ForerunError


@dataclass(frozen=True)
class Rotary:
    """Frequencies of one layer kind: fp32 ``inverse_frequencies`` [width / 2] and the factor on cosine and sine."""

    inverse_frequencies: tuple[float, ...]
    factor: float = 1.0

    def frequencies(self, device: torch.device) -> Tensor:
        """The inverse frequencies as a tensor, for whoever computes angles many times."""
        return torch.tensor(self.inverse_frequencies, dtype=torch.float32, device=device)

    def angles(self, positions: Tensor, frequencies: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Cosine and sine, fp32 [rows, 1, width / 2] each; ``positions`` is int64 [rows].

        ``frequencies`` are this object's own, where the caller has kept them on the device.
        """
        known = self.frequencies(positions.device) if frequencies is None else frequencies
        angles = positions.float()[:, None, None] * known
        return torch.cos(angles) * self.factor, torch.sin(angles) * self.factor

    def divided_by(self, factors: Tensor) -> Rotary:
        """The same with each frequency divided (GGUF stores Llama 3's scaling as such factors, [width / 2])."""
        scaled = torch.tensor(self.inverse_frequencies) / factors.float()
        return Rotary(tuple(scaled.tolist()), self.factor)

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any], width: int, max_context: int) -> Rotary:
        """From a ``rope_parameters`` mapping as transformers standardises it.

        Raises ForerunError for a kind that depends on the batch, is partial, or is unknown.
        """
        kind = parameters.get("rope_type", "default")
        if parameters.get("partial_rotary_factor", 1.0) not in (None, 1.0):
            raise _refused("partial")
        base = float(parameters["rope_theta"])
        plain = 1.0 / base ** (torch.arange(0, width, 2, dtype=torch.float32) / width)
        original = float(parameters.get("original_max_position_embeddings") or max_context)
        if kind == "default":
            return cls(tuple(plain.tolist()))
        if kind == "linear":
            return cls(tuple((plain / parameters["factor"]).tolist()))
        if kind == "llama3":
            return cls(tuple(_llama3(plain, parameters, original).tolist()))
        if kind == "yarn":
            stretch = float(parameters.get("factor") or max_context / original)
            frequencies = _yarn(plain, base, stretch, parameters, original)
            return cls(tuple(frequencies.tolist()), _yarn_factor(stretch, parameters))
        raise _refused(str(kind))


def rotate(states: Tensor, angles: tuple[Tensor, Tensor]) -> Tensor:
    """Rotates [rows, heads, width]: element i turns with element i + width / 2, as Hugging Face lays them out."""
    cos, sin = angles
    half = states.shape[-1] // 2
    left, right = states[..., :half], states[..., half:]
    return torch.cat((left * cos - right * sin, right * cos + left * sin), -1)


def _refused(kind: str) -> ForerunError:
    return ForerunError(
        "a rotary scaling that depends on a row's own position (default, linear, llama3, yarn)",
        f"rope_type {kind!r}",
        "use a checkpoint without it; frequencies that follow the batch would break the same-bytes contract",
    )


def _llama3(plain: Tensor, parameters: Mapping[str, Any], original: float) -> Tensor:
    """Long waves are stretched, short ones kept, those between blended (Llama 3.1)."""
    stretch = float(parameters["factor"])
    low, high = float(parameters["low_freq_factor"]), float(parameters["high_freq_factor"])
    turns = original * plain / (2 * math.pi)
    keep = ((turns - low) / (high - low)).clamp(0, 1)
    return (1 - keep) * plain / stretch + keep * plain


def _yarn(plain: Tensor, base: float, stretch: float, parameters: Mapping[str, Any], original: float) -> Tensor:
    """Blend by how often a dimension turns within the trained context (YaRN, arXiv 2309.00071, section 3.2)."""
    width = 2 * len(plain)

    def dimension_turning(turns: float) -> float:
        return width * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))

    low = dimension_turning(float(parameters.get("beta_fast") or 32))
    high = dimension_turning(float(parameters.get("beta_slow") or 1))
    if parameters.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, width - 1)
    span = high - low or 0.001
    stretched = ((torch.arange(len(plain), dtype=torch.float32) - low) / span).clamp(0, 1)
    return plain / stretch * stretched + plain * (1 - stretched)


def _yarn_factor(stretch: float, parameters: Mapping[str, Any]) -> float:
    """Temperature on the scores, folded into cosine and sine (YaRN, section 3.3)."""

    def temperature(weight: float) -> float:
        return 1.0 if stretch <= 1 else 0.1 * weight * math.log(stretch) + 1.0

    given = parameters.get("attention_factor")
    if given is not None:
        return float(given)
    part, whole = parameters.get("mscale"), parameters.get("mscale_all_dim")
    return temperature(part) / temperature(whole) if part and whole else temperature(1.0)
