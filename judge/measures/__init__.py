"""Measure a run: recovery, latency, series for the figures."""
