"""Partitions spread over Spark's tasks, in one process with three tries of a task."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from clusters.waiting import wait_until
from evidence.facts import PartitionFacts
from history.errors import EvidenceError
from history.folder import RunFolder
from history.partition import TopicPartition
from spark import progress, submit
from spark.connection import SparkConnection
from spark.failures import reason_of
from spark.progress import by_status
from spark.spread import SHARE_BYTES, shares_of, spread_over

MB = 1 << 20
TRIES = 3


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session of two cores whose results may have 1 MB."""
    connection, folder = SparkConnection(f"local[2,{TRIES}]"), tmp_path_factory.mktemp("spark")
    builder = SparkSession.builder.master(connection.master)
    for name, value in {**submit.settings(connection, None, folder), "spark.driver.maxResultSize": "1m"}.items():
        builder = builder.config(name, value)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in submit._environment(connection, folder).items():
            patch.setenv(name, value)
        started = builder.getOrCreate()
        yield started
        started.stop()


@pytest.fixture
def spread(session: SparkSession, tmp_path: Path) -> Callable[..., list[Any]]:
    """Judge partitions 0, 1, … of these sizes with a function."""

    def judged(judge: Callable[[PartitionFacts], Any], *sizes: int) -> list[Any]:
        facts = [PartitionFacts(TopicPartition("orders", number), size=size) for number, size in enumerate(sizes)]
        return spread_over(session, by_status, RunFolder(tmp_path))(judge, facts)

    return judged


def test_small_partitions_share_a_task_and_large_ones_have_their_own() -> None:
    """The largest come first, alone from a share's size on; a thousand empty ones are neither one task nor as many."""
    assert shares_of([]) == []
    assert shares_of([3 * MB, 10 * MB, 3 * MB, SHARE_BYTES, 3 * MB, 3 * MB]) == [[1], [3], [0, 2, 4], [5]]
    assert [len(share) for share in shares_of([0] * 1000)] == [32] * 31 + [8]


@pytest.mark.pipeline
def test_answers_keep_the_order_of_partitions(spread: Callable[..., list[Any]]) -> None:
    """Answers have the partitions' order, not that of their tasks; no partition gives no answer."""
    assert spread(lambda facts: (facts.where.partition, facts.size), MB, 30 * MB, 9 * MB) == [
        (0, MB),
        (1, 30 * MB),
        (2, 9 * MB),
    ]
    assert spread(lambda facts: facts) == []


@pytest.mark.pipeline
@pytest.mark.parametrize(
    ("error", "tries", "reason"),
    [
        (OSError(5, "Input/output error"), TRIES, "to the end of orders-0: [Errno 5] Input/output error"),
        (OSError("Corrupt snappy compressed data."), 1, "to the end of orders-0: Corrupt snappy compressed data."),
        (EvidenceError("orders-0 is odd."), 1, "orders-0 is odd."),
    ],
)
def test_only_what_may_pass_is_tried_again(
    spread: Callable[..., list[Any]], tmp_path: Path, error: Exception, tries: int, reason: str
) -> None:
    """Spark retries an I/O error, but not damaged evidence; the last try's reason is kept."""
    tried = tmp_path / "tried"

    def judge(_: PartitionFacts) -> None:
        with tried.open("a") as file:
            file.write("x")
        raise error

    with pytest.raises(Exception, match=r"Corrupt|odd|Input/output") as failed:
        spread(judge, MB)
    assert reason_of(failed.value).endswith(reason)
    assert tried.read_text() == "x" * tries


@pytest.mark.pipeline
def test_an_error_that_passes_leaves_no_trace(spread: Callable[..., list[Any]], tmp_path: Path) -> None:
    """A partition that is readable at the second try is judged."""
    tried = tmp_path / "tried"

    def judge(facts: PartitionFacts) -> int:
        if not tried.exists():
            tried.touch()
            raise OSError(5, "Input/output error")
        return facts.size

    assert spread(judge, MB) == [MB]


def _killed(_: PartitionFacts) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _without_memory(_: PartitionFacts) -> None:
    raise MemoryError


def _large(_: PartitionFacts) -> bytes:
    return os.urandom(3 * MB)


def _wrong(_: PartitionFacts) -> None:
    raise KeyError("x")


@pytest.mark.pipeline
@pytest.mark.parametrize(
    ("judge", "reason"),
    [
        (_killed, "A Python worker was killed while it judged"),
        (_without_memory, "A Python worker had too little memory to judge orders-0 (1 MB)."),
        (_large, "exceed spark.driver.maxResultSize (1024.0 KiB)"),
        (_wrong, "The judge itself failed: KeyError: 'x'"),
    ],
)
def test_an_error_of_the_application_is_its_own_reason(
    spread: Callable[..., list[Any]], judge: Callable[[PartitionFacts], Any], reason: str
) -> None:
    """A killed worker, lack of memory, a large result and a defect have different reasons."""
    with pytest.raises(Exception, match=r"Python worker|maxResultSize") as failed:
        spread(judge, MB)
    assert reason in reason_of(failed.value)


@pytest.mark.pipeline
def test_progress_is_told_while_tasks_run(
    spread: Callable[..., list[Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first task's bytes are told while the second one runs."""
    monkeypatch.setattr(progress, "EVERY_S", 0.05)
    stages = RunFolder(tmp_path).stages

    def judge(facts: PartitionFacts) -> bool:
        return facts.where.partition == 0 or wait_until(
            lambda: "judged 20 of 30 MB" in stages.read_text(), limit_s=300, what="progress", ignoring=(OSError,)
        )

    assert spread(judge, 20_000_000, 10_000_000) == [True, True]
