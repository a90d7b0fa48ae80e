"""Speculative decoding under one contract, and a tuner that says what pays."""
