"""Bugs that Kafka had, found again by recipes that were written for them."""
