"""Targets, conditions and steps as data; ``clusters.faults.phase`` performs them."""
