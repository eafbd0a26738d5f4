"""The page of a soak: randomised schedules, with a single schedule."""

from reports.fuzz_page import render

__all__ = ["render"]
