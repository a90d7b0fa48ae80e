"""Dense families that the lean decoder runs: one file each, listed in ``registry.py``."""
