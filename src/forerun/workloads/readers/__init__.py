"""Prompts from files: public benchmarks, recorded sessions, one's own traffic."""
