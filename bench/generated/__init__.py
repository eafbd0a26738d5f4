"""Run folders of any size, written instead of recorded; ``bench.folders`` is the command."""
