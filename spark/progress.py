"""Report how far a judgement is, by the number of Spark's tasks that are done."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import get_ident
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession

from history.background import every
from history.events import EventLog
from history.folder import RunFolder

EVERY_S = 5.0
# Yields a function that returns how many of the judging tasks, started by this thread, are done.
Watch = Callable[[SparkSession], AbstractContextManager[Callable[[], int]]]


@contextmanager
def by_status(session: SparkSession) -> Iterator[Callable[[], int]]:
    """Count tasks with the driver's status tracker."""
    context, group = session.sparkContext, uuid4().hex
    tracker = context.statusTracker()
    context.setJobGroup(group, "judge")  # of this thread

    def done() -> int:
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        return max(((stage.stageId, stage.numCompletedTasks) for stage in stages if stage), default=(0, 0))[1]

    yield done


@contextmanager
def by_messages(session: SparkSession) -> Iterator[Callable[[], int]]:
    """Count tasks by Spark Connect's progress messages, which the thread of an action receives."""
    thread, completed = get_ident(), {0: 0}

    def receive(stages: Sequence[Any] | None, **_: Any) -> None:
        if get_ident() == thread:
            completed.update({stage.stage_id: stage.num_completed_tasks for stage in stages or ()})

    session.registerProgressHandler(receive)  # type: ignore[arg-type]  # takes any callable
    try:
        yield lambda: completed[max(completed)]
    finally:
        session.removeProgressHandler(receive)  # type: ignore[arg-type]


@contextmanager
def told(folder: RunFolder, shares: Sequence[int], done: Callable[[], int]) -> Iterator[None]:
    """Report every few seconds the judged bytes and the remaining time; Spark takes ``shares`` (bytes) in order."""
    began_s, total = time.monotonic(), sum(shares)

    def tell() -> None:
        taken_s, read = time.monotonic() - began_s, sum(shares[: done()])
        left_s = round(taken_s * (total - read) / read) if read else None
        _say(folder, f"judged {read / 1e6:,.0f} of {total / 1e6:,.0f} MB", left_s)

    with every(EVERY_S, tell):
        yield


def _say(folder: RunFolder, what: str, left_s: int | None) -> None:
    """Write progress to the screen and, if the folder can grow, to the run's stages."""
    if isinstance(folder.stages, Path):
        EventLog(folder.stages).add("stage_progress", step="judge", what=what, left_s=left_s)
    left = "" if left_s is None else f", about {left_s} s to go"
    print(f"{folder.run_id}: {what}{left}", flush=True)  # noqa: T201  # what a person waits for
