"""Our own engine, in this process."""
