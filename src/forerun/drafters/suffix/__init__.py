"""SuffixDecoding: frequent continuations of what the text ends with, from the request itself and from a corpus."""
