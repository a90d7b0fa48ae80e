"""What proposes tokens: one contract, one folder per method."""
