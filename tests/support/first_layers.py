"""A target's first layers as a draft model of itself, whatever computes them."""

from __future__ import annotations

import copy
from dataclasses import replace

from forerun.models.base import Target
from forerun.models.decoder import Decoder
from forerun.models.native.native_decoder import NativeDecoder
from support.tiny_decoder import truncated


def first_layers(target: Target, num_layers: int) -> Target:
    """The first ``num_layers`` layers under the target's own final norm and head; the weights are shared."""
    if isinstance(target, Decoder):
        return truncated(target, num_layers)
    assert isinstance(target, NativeDecoder), "a lean decoder"
    shallow = copy.copy(target)
    shallow.config = replace(target.config, layers=target.config.layers[:num_layers])
    name = f"{target.traits.name}, first {num_layers} layers"
    shallow.traits = replace(target.traits, name=name, num_layers=num_layers)
    # The structure counts layers; the table of all of them stays as it is.
    shallow._struct = shallow._decoder_struct()
    return shallow
