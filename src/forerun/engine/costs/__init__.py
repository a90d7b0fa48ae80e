"""What a pass costs on this machine: measured, kept, and asked before rows are given out."""
