"""The page of a soak: that of randomised schedules, with one."""

from reports.fuzz_page import render

__all__ = ["render"]
