"""Prompt lookup: the tokens that followed the longest earlier match of the text's end."""
