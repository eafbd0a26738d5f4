"""Read a run folder: its small files, and the integer columns of each partition. Needs no Spark."""
