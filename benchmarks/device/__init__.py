"""Checks and times of the engine on a GPU: see benchmarks/gpu.py."""
