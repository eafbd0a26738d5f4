"""A run folder as DataFrames."""
