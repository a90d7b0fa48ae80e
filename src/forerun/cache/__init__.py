"""Which pool slot holds which position: blocks, sequences, shared prefixes."""
