"""Judges a recorded run: plain functions over a partition's evidence, with no Spark and no Kafka at hand."""
