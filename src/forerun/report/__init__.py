"""Terminal tables and the one-file report."""
