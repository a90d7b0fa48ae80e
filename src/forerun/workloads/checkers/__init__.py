"""Whether an output is right: answers, JSON, calls, languages, code."""
