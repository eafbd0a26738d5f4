"""Judge on a Spark cluster as ``job.py`` does, but end the application if no executor answers in time.

Executors that cannot reach the driver are restarted endlessly: a standalone master gives up only while no executor
runs, and one is always starting.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from threading import Event, Thread
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext

from spark import job
from spark.connection import EXECUTOR_LIMIT, NO_EXECUTOR

_LOOK_S = 1.0


def main(folders: Sequence[str]) -> None:
    """Judge run folders as ``job.main`` does."""
    context = SparkContext.getOrCreate()
    ended = Event()
    Thread(target=_end_without_executors, args=(context, ended), daemon=True).start()
    try:
        job.main(folders)
    finally:
        ended.set()


def _end_without_executors(context: SparkContext, ended: Event) -> None:
    jvm: Any = context._jvm  # noqa: SLF001  # the only access to Spark's status
    tracker: Any = context._jsc.sc().statusTracker()  # noqa: SLF001
    limit = context.getConf().get(EXECUTOR_LIMIT)
    limit_s: int = jvm.org.apache.spark.network.util.JavaUtils.timeStringAsSec(limit)
    last_well = time.monotonic()
    while not ended.wait(_LOOK_S):
        try:
            waits = len(tracker.getActiveStageIds()) > 0 and len(tracker.getExecutorInfos()) <= 1  # the driver is one
        except Py4JError:  # Spark has stopped
            return
        if not waits:
            last_well = time.monotonic()
        elif time.monotonic() - last_well > limit_s:
            print(f"No executor answered the driver for {limit}.", file=sys.stderr, flush=True)  # noqa: T201
            os._exit(NO_EXECUTOR)  # the thread that waits for its tasks cannot be interrupted
