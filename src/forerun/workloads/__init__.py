"""Prompts, checkers, readers and the inflation guard."""
