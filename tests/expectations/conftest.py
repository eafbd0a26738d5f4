"""A small Spark session, for what runs on both engines; and what judges a run by its summaries."""

import logging
import os
import sys

import pytest
from pyspark.sql import SparkSession

from history.java import spark_java_home
from tests.expectations.summaries import judged

__all__ = ["judged"]


@pytest.fixture(scope="module")
def spark():
    """A local session with one core and one shuffle partition; other tests end all processes below them."""
    os.environ |= {"JAVA_HOME": str(spark_java_home()), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    session = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it says goodbye after pytest closed its streams
