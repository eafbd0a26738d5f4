"""Reasons of failed judgements, as Spark 4.3 words its errors."""

from __future__ import annotations

import pytest

from history.errors import EvidenceError
from spark.failures import reason_of

ABORTED = "org.apache.spark.SparkException: Job aborted due to stage failure: "
WORKER = "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n  File x, line 1, in y\n"
CONNECT = WORKER.replace(":\nT", ": T")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (EvidenceError("manifest.json is missing."), "manifest.json is missing."),
        (
            PermissionError(13, "Permission denied", "x"),
            "read or written: [Errno 13] Permission denied: 'x'",
        ),
        (
            RuntimeError(f"{WORKER}OSError: The recorded tables could not be read to the end of o-1: [Errno 5] EIO\n"),
            "The recorded tables could not be read to the end of o-1: [Errno 5] EIO",
        ),
        (
            RuntimeError(f"{WORKER}MemoryError: A Python worker had too little memory to judge o-1 (9 MB).\n"),
            "A Python worker had too little memory to judge o-1 (9 MB).",
        ),
        (
            RuntimeError(
                f"{ABORTED}Total size of serialized results of 1 tasks (5.8 MiB) is bigger than "
                "spark.driver.maxResultSize (1024.0 KiB)\n\tat org.apache"
            ),
            "results (5.8 MiB) exceed spark.driver.maxResultSize (1024.0 KiB); raise it in the conf of spark_default.",
        ),
        (
            RuntimeError(
                f"{ABORTED}Task 0 in stage 2.0 failed 4 times, most recent failure: Lost task 0.3 in stage 2.0 (TID 5) "
                "(10.0.0.2 executor 3): ExecutorLostFailure (executor 3 exited caused by one of the running tasks) "
                "Reason: Command exited with code 137\nDriver stacktrace:"
            ),
            "Spark lost executor 3: Command exited with code 137",
        ),
        (
            RuntimeError(
                f"{ABORTED}ResultStage 2 (toArrow) has failed the maximum allowable number of times: 4. Most recent "
                "failure reason: org.apache.spark.shuffle.MetadataFetchFailedException: Missing an output location for "
                "shuffle 0 partition 0\n\tat org.apache"
            ),
            "Spark lost the executors that judged, as often as it tries again: Missing an output location",
        ),
        (
            RuntimeError(f"An error occurred while calling o1.x.\n{ABORTED}Task 0 was denied\n\tat org.apache"),
            "Spark could not finish the application: Task 0 was denied",
        ),
        (
            RuntimeError(f"{ABORTED}Task 0 failed: java.lang.OutOfMemoryError: Java heap space\n\tat"),
            "Spark's JVM had too little memory (java.lang.OutOfMemoryError: Java heap space)",
        ),
        (
            RuntimeError(f"{ABORTED}{ABORTED}Python worker exited unexpectedly (crashed). Consider setting"),
            "A Python worker was killed while it judged",
        ),
    ],
)
def test_an_error_of_the_application_is_named(error: Exception, reason: str) -> None:
    """Each error of evidence, system or application gives its own reason in one line."""
    assert reason in reason_of(error)
    assert "\n" not in reason_of(error)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RuntimeError(f"{WORKER}KeyError: 'x'\n"), "The judge itself failed: KeyError: 'x'"),
        (
            RuntimeError(f"{CONNECT}KeyError: 'x'\n SQLSTATE: 38000"),
            "The judge itself failed: KeyError: 'x'",
        ),
        (RuntimeError(f"{WORKER}OSError: out of tea\n"), "The judge itself failed: OSError: out of tea"),
        (ValueError("MemoryError is no reason"), "The judge itself failed: ValueError: MemoryError is no reason"),
        (RuntimeError("Lost executor 3\n\tat x"), "The judge itself failed: RuntimeError: Lost executor 3"),
    ],
)
def test_other_errors_are_the_judges(error: Exception, reason: str) -> None:
    """An error that only resembles those is one of the judge."""
    assert reason_of(error) == reason
