"""Kafka's own files, read without Kafka and without Spark."""
