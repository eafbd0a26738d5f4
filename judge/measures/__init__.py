"""Measure a run."""
