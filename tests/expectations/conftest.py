"""What judges a run by its summaries."""

from tests.expectations.summaries import judged

__all__ = ["judged"]
