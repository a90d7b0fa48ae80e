"""Passes of fixed shape, recorded once and played again: CUDA graphs, or compiled."""
