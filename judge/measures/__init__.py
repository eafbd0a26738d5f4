"""What a run measured: recovery, latency, series for the figures."""
