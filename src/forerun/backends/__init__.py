"""What runs a trial: one folder per engine."""
