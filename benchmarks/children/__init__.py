"""What runs inside the peers' environments. Only the forerun child knows forerun."""
