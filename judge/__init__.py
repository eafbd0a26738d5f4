"""Judge a recorded run."""
