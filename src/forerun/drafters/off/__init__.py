"""Plain decoding: the candidate that every other one is measured against."""
