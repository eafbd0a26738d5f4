"""Draw conclusions."""
