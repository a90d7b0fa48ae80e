"""The lean decoder: dense families (llama, mistral, qwen2, qwen3, gemma3 text) over the slot pool, bit-exact rows."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from forerun.models.arithmetic.arithmetic import EXACT, Arithmetic
from forerun.models.arithmetic.attention import AttentionShape
from forerun.models.arithmetic.linear import Linear
from forerun.models.base import PassInput, PassOutput, Target, TargetTraits
from forerun.models.decoder_config import DecoderConfig
from forerun.models.decoder_layer import DecoderLayer, RMSNorm, unset
from forerun.models.device_pass import DevicePass, moved_together
from forerun.models.exact_ops import softcap
from forerun.models.kv_store import KVStore
from forerun.types import Tap, TapKind


class Decoder(nn.Module, Target):
    """Weights start as NaN and are filled through ``weight_slots``.

    Linears have ``dtype``, and so has a pool that isn't asked for in another; the residual stream, norms, attention
    sums and the head are fp32. The head's weights are fp32 too, since torch has no CPU product of bf16 that returns
    fp32; a tied embedding is that matrix. ``arithmetic`` is how passes are computed.
    """

    def __init__(
        self,
        config: DecoderConfig,
        *,
        name: str,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        eos_token_ids: tuple[int, ...] = (),
        arithmetic: Arithmetic = EXACT,
    ) -> None:
        super().__init__()
        self.config = config
        self.dtype = dtype
        self.device = torch.device(device)
        self.traits = TargetTraits(
            name=name,
            family=config.family,
            num_layers=config.num_layers,
            hidden_size=config.hidden_size,
            vocab_size=config.vocab_size,
            max_context=config.max_context,
            eos_token_ids=eos_token_ids,
            has_recurrent_state=False,
            # Proved by tests on CPUs alone so far.
            is_bit_exact=arithmetic.is_bit_exact and self.device.type == "cpu",
            dtype=str(dtype).removeprefix("torch."),
            device=str(self.device),
        )
        shape = (config.vocab_size, config.hidden_size)
        # Gemma was trained with this factor rounded to the number type that it ran in.
        self.embedding_scale = torch.tensor(config.embedding_scale).to(dtype).item()
        self.lm_head = arithmetic.linear(unset(*shape, dtype=torch.float32, device=self.device))
        self.embedding = (
            self.lm_head.weight
            if config.is_head_tied
            else nn.Parameter(unset(*shape, dtype=dtype, device=self.device), requires_grad=False)
        )
        self.attention = arithmetic.attention(
            AttentionShape(config.num_heads, config.num_kv_heads, config.attention_scale, config.attention_softcap)
        )
        self.blocks = nn.ModuleList(
            DecoderLayer(config, layer, dtype, self.device, arithmetic, self.attention) for layer in config.layers
        )
        self.final_norm = RMSNorm(config.hidden_size, config.norm_eps, self.device)
        self._frequencies = {layer.rotary: layer.rotary.frequencies(self.device) for layer in config.layers}

    def weight_slots(self) -> dict[str, Tensor]:
        """Every tensor to load, as views, by its Hugging Face name."""
        slots = {"model.embed_tokens.weight": self.embedding.data, "model.norm.weight": self.final_norm.weight.data}
        if not self.config.is_head_tied:
            slots["lm_head.weight"] = self.lm_head.weight.data
        for index, block in enumerate(self.blocks):
            assert isinstance(block, DecoderLayer)
            slots |= {f"model.layers.{index}.{name}": slot for name, slot in block.weight_slots().items()}
        return slots

    def pack(self) -> None:
        """After loading: lays linears out for the machine. ``weight_slots`` is of no use afterwards."""
        if self.config.is_head_tied:
            # The packed head can't be read row by row: the embedding keeps a copy in the linears' number type.
            self.embedding = nn.Parameter(self.lm_head.weight.data.to(self.dtype), requires_grad=False)
        for module in self.modules():
            if isinstance(module, Linear):
                module.pack()

    @property
    def weight_bytes(self) -> int:
        """See ``Target``."""
        packed = sum(module.packed_bytes for module in self.modules() if isinstance(module, Linear))
        return packed + sum(parameter.nbytes for parameter in self.parameters())

    def new_store(self, num_slots: int, dtype: torch.dtype | None = None) -> KVStore:
        """See ``Target``."""
        shape = (self.config.num_kv_heads, self.config.head_dim, self.config.head_dim)
        return KVStore.zeros([shape] * self.config.num_layers, num_slots, dtype or self.dtype, self.device)

    def forward(self, batch: PassInput, store: KVStore, taps: frozenset[Tap] = frozenset()) -> PassOutput:
        """See ``Target``."""
        return self.run(self.lay_out(batch), store, taps)

    def lay_out(self, batch: PassInput) -> DevicePass:
        """The pass on the device. Attention's layout is worked out on the host, once for each window."""
        plans = {
            window: self.attention.plan(batch.positions, batch.groups, window, self.device)
            for window in {layer.window for layer in self.config.layers}
        }
        wanted = torch.tensor(batch.logit_rows, dtype=torch.int64)
        ids = (batch.tokens, batch.positions, batch.slots, wanted)
        tokens, positions, slots, logit_rows = moved_together(ids, self.device)
        return DevicePass(tokens, positions, slots, logit_rows, plans)

    @torch.no_grad()
    def run(self, laid_out: DevicePass, store: KVStore, taps: frozenset[Tap] = frozenset()) -> PassOutput:
        """The pass itself: asks nothing of the host, so that it can be recorded. Angles are worked out once."""
        angles = {
            rotary: rotary.angles(laid_out.positions, frequencies) for rotary, frequencies in self._frequencies.items()
        }
        x = self.embed(laid_out.tokens).float()
        tapped: dict[Tap, Tensor] = {}
        for index, (block, layer) in enumerate(zip(self.blocks, self.config.layers, strict=True)):
            x = block(x, laid_out.slots, angles[layer.rotary], laid_out.plans[layer.window], store.layer(index))
            if (tap := Tap.of_block(index)) in taps:
                tapped[tap] = x
        for tap in taps - tapped.keys():
            tapped[tap] = self._final_state(tap, x)
        return PassOutput(self.head(self.final_norm(x[laid_out.logit_rows])), tapped)

    def _final_state(self, tap: Tap, x: Tensor) -> Tensor:
        if tap.kind is TapKind.BLOCK:
            raise ValueError(f"block {tap.block} of {self.traits.name}, which has {self.traits.num_layers}")
        return self.final_norm(x) if tap.kind is TapKind.AFTER_FINAL_NORM else x

    @torch.no_grad()
    def embed(self, tokens: Tensor) -> Tensor:
        """See ``Target``; scaled where the family scales."""
        rows = self.embedding[tokens.to(self.device)]
        return rows if self.embedding_scale == 1.0 else rows * self.embedding_scale

    @torch.no_grad()
    def head(self, hidden: Tensor) -> Tensor:
        """See ``Target``. Ids that only pad the vocabulary keep the checkpoint's logits, as in transformers."""
        logits: Tensor = self.lm_head(hidden)
        return logits if self.config.final_softcap is None else softcap(logits, self.config.final_softcap)
