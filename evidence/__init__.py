"""The one reader of a run folder: its small files, and of each partition typed columns of integers; no Spark."""
