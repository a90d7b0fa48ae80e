"""Text that retrieval methods draft from besides a request's own: bounded, oldest out first, indexed in flat arrays."""
