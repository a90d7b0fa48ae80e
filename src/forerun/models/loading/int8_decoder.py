"""A decoder whose weights are rounded to int8 while they are loaded, and what is known of the price."""

from __future__ import annotations

from dataclasses import replace

from forerun.conditions import Artifact
from forerun.models.base import Target
from forerun.models.decoder import Decoder
from forerun.models.device import INT8
from forerun.models.loading.int8_gate import describe_gate
from forerun.models.loading.int8_weights import SENSITIVE, Int8Weights
from forerun.models.loading.weights import WeightSource
from forerun.models.native.kernels import required_kernels
from forerun.models.native.native_decoder import NativeDecoder
from forerun.models.native.stored_blocks import BLOCK


def int8_decoder(empty: Decoder, source: WeightSource, sensitive: frozenset[str] = SENSITIVE) -> tuple[Target, str]:
    """``empty`` (on the meta device, its number type that of sensitive matrices) filled, and how it was rounded.

    Raises ForerunError for weights that aren't those of the configuration, and where there are no native kernels.
    """
    kernels = required_kernels(INT8)
    weights = Int8Weights(empty, source, kernels, empty.dtype, sensitive)
    traits = replace(empty.traits, dtype=INT8, device="cpu", is_bit_exact=True)
    target = NativeDecoder(empty.config, traits, weights.read(), empty.dtype, kernels)
    plain = f"{weights.num_plain} matrices in {str(empty.dtype).removeprefix('torch.')}"
    return target, f"rounded to int8 blocks of {BLOCK} but for {plain}, int8 activations per block of {BLOCK}"


def int8_artifact(artifact: Artifact) -> Artifact:
    """The artifact with what was measured of its rounding, or that it is lossy as long as nothing was."""
    return replace(artifact, quantisation=f"{artifact.quantisation}; {describe_gate(artifact.hash)}")
