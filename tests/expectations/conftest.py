"""The Spark session of the judging half, for what runs on both engines; and what judges a run by its summaries."""

from tests.expectations.summaries import judged
from tests.spark.conftest import spark

__all__ = ["judged", "spark"]
