"""Which drafted tokens are kept: keyed match and the classical rules."""
