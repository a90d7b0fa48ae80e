"""Requests, the scheduler and the round."""
