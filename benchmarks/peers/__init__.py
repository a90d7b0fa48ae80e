"""One file per engine: its environment, its settings, how it is started and asked."""
