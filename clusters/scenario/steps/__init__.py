"""Targets, conditions and steps as data; ``clusters.run.phase`` performs them."""
