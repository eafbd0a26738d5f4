"""Judge partitions as rows of a DataFrame, with or without Spark Connect."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from evidence.facts import PartitionFacts
from history.errors import EvidenceError, HarnessError
from history.folder import RunFolder
from judge.run import Spread
from spark.progress import Watch, told
from spark.tasks import UNITS, answers

SHARE_BYTES = 8 << 20  # about 0.2 s: ten times what a task costs, and short where cores end
OPENING_BYTES = 256 << 10  # a partition's files take as long to open as this much to judge


def spread_over(session: SparkSession, watch: Watch, folder: RunFolder) -> Spread:
    """Judge partitions in Spark's tasks, the largest first, and report progress."""

    def spread(judge: Callable[[PartitionFacts], Any], partitions: Sequence[PartitionFacts]) -> list[Any]:
        shares = shares_of([facts.size for facts in partitions])
        if not shares:
            return []
        sizes = [sum(partitions[number].size for number in share) for share in shares]
        with watch(session) as done, told(folder, sizes, done):
            found = (
                session.createDataFrame(_units(partitions, shares))
                .repartitionById(len(shares), "share")
                .mapInArrow(partial(answers, folder.path, judge), "number int, answer binary")
                .toArrow()
            )
        in_order = sorted(zip(found["number"].to_pylist(), found["answer"], strict=True), key=itemgetter(0))
        answered = [pickle.loads(answer.as_buffer()) for _, answer in in_order]
        if len(answered) != len(partitions):
            raise HarnessError(f"Spark returned {len(answered)} answers for {len(partitions)} partitions.")
        for answer in answered:
            if isinstance(answer, EvidenceError):
                raise answer
        return answered

    return spread


def shares_of(sizes: Sequence[int]) -> list[list[int]]:
    """Group numbers by their sizes in bytes, the largest first: a large one alone, small ones up to a share."""
    shares: list[list[int]] = []
    free = 0
    for number in sorted(range(len(sizes)), key=lambda number: -sizes[number]):
        if free <= 0:
            shares.append([])
            free = SHARE_BYTES
        shares[-1].append(number)
        free -= sizes[number] + OPENING_BYTES
    return shares


def _units(partitions: Sequence[PartitionFacts], shares: Sequence[Sequence[int]]) -> pa.Table:
    rows = [
        {"number": number, "share": place, "facts": pickle.dumps(partitions[number])}
        for place, share in enumerate(shares)
        for number in share
    ]
    return pa.Table.from_pylist(rows, UNITS)
