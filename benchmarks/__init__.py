"""forerun beside its peers, in one run."""
