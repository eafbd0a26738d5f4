"""The Spark session of the judging half, for what runs on both engines."""

from tests.spark.conftest import spark

__all__ = ["spark"]
