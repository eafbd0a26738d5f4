"""Run folders of any size, written by ``bench.folders``."""
