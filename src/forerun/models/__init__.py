"""Targets: families, attention over the pool, loading."""
