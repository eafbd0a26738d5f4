"""One partition's evidence as typed columns: NumPy arrays of integers, read without Spark."""
