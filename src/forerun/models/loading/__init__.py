"""From a path, a hub id or a catalog name to a target, its tokenizer and a description of the artifact."""
