"""The same bytes at scale: many prompts, a covering array of settings, against plain decoding. `make test-bytes`."""
