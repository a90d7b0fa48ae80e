"""Which device and which number type a model runs with, and how to describe the machine."""

from __future__ import annotations

import platform
from dataclasses import dataclass

import psutil
import torch

from forerun.errors import ForerunError
from forerun.models.cpu_info import cpu_flags, cpu_info
from forerun.models.dtype_names import full_dtype_name

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
KV_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "int8": torch.int8}
# A dtype that isn't a number type: the blocks of a quantised file as they are.
AS_SHIPPED = "as-shipped"
# Nor is this one: weights rounded to blocks of int8 at loading, sensitive ones left out.
INT8 = "int8"


@dataclass(frozen=True, slots=True)
class DeviceDescription:
    """For ``Conditions``: what computes, how many of it, which driver, how many threads."""

    name: str
    count: int
    driver: str
    threads: int


def choose_device(wanted: str = "auto") -> torch.device:
    """CUDA or ROCm, else MPS, else CPU; or the one asked for. Raises ForerunError where that isn't there."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if wanted == "auto":
        return torch.device(next(kind for kind, is_there in available.items() if is_there))
    try:
        device = torch.device(wanted)
    except RuntimeError as error:
        raise ForerunError("device auto, cuda, mps or cpu", repr(wanted), "choose one of them") from error
    if not available.get(device.type, False):
        there = ", ".join(kind for kind, is_there in available.items() if is_there)
        raise ForerunError(f"device {wanted!r}", f"only {there} on this machine", "use --device auto")
    return device


def choose_dtype(wanted: str, device: torch.device) -> torch.dtype:
    """bf16 on GPUs that have it and on CPUs with bf16 instructions, else fp32; or the one asked for.

    Raises ForerunError for an unknown name, and for fp16 on a CPU.
    """
    if wanted == "auto":
        return torch.bfloat16 if _is_bf16_fast(device) else torch.float32
    dtype = DTYPES.get(full_dtype_name(wanted))
    if dtype is None:
        raise ForerunError(f"dtype auto, {AS_SHIPPED}, {INT8}, {', '.join(DTYPES)}", repr(wanted), "choose one of them")
    if dtype is torch.float16 and device.type == "cpu":
        raise ForerunError("bfloat16 or float32 on a CPU", "float16", "use --dtype auto")
    return dtype


def own_dtype(stored: torch.dtype | None, device: torch.device) -> torch.dtype:
    """What auto is for weights that are ``stored`` so: fp32 and fp16 are never rounded; on a CPU fp16 becomes fp32."""
    if stored is torch.float32 or (stored is torch.float16 and device.type == "cpu"):
        return torch.float32
    return torch.float16 if stored is torch.float16 else choose_dtype("auto", device)


def choose_kv_dtype(wanted: str) -> torch.dtype | None:
    """Number type of keys and values by its name; auto is None, which stands for the model's own.

    Raises ForerunError for an unknown name.
    """
    if wanted == "auto":
        return None
    dtype = KV_DTYPES.get(full_dtype_name(wanted))
    if dtype is None:
        raise ForerunError(f"a kv dtype auto, {', '.join(KV_DTYPES)}", repr(wanted), "choose one of them")
    return dtype


def free_memory(device: torch.device) -> int:
    """Bytes that could be allocated on the device now; the machine's, where the device has no memory of its own."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available)


def describe_device(device: torch.device) -> DeviceDescription:
    """The machine as a reader of a report wants it."""
    threads = torch.get_num_threads()
    if device.type == "cuda":
        hip = getattr(torch.version, "hip", None)
        driver = f"ROCm {hip}" if hip else f"CUDA {torch.version.cuda}"
        return DeviceDescription(torch.cuda.get_device_name(device), torch.cuda.device_count(), driver, threads)
    if device.type == "mps":
        return DeviceDescription(f"{platform.machine()} MPS", 1, f"macOS {platform.mac_ver()[0]}", threads)
    return DeviceDescription(_cpu_name(), 1, f"torch CPU {torch.backends.cpu.get_cpu_capability()}", threads)


def _is_bf16_fast(device: torch.device) -> bool:
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return device.type == "cpu" and not {"amx_bf16", "avx512_bf16"}.isdisjoint(cpu_flags())


def _cpu_name() -> str:
    return cpu_info("model name") or platform.processor() or platform.machine()
