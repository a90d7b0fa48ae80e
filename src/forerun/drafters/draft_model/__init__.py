"""A second, smaller language model of the same vocabulary drafts token by token."""
