"""Any Hugging Face causal LM that declares the attention interface, as a forerun target."""

from forerun.models.adapter.loading import adapt, load_adapter

__all__ = ["adapt", "load_adapter"]
