"""Read a run folder, without Spark."""
