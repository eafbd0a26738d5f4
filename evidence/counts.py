"""Count recorded rows by partition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evidence.columns import (
    INCOMPLETE,
    OK,
    Codes,
    Ints,
    Names,
    Polls,
    Seeks,
    Sends,
    groups,
    producer_of,
    seq_of,
)
from evidence.facts import Span
from evidence.partition import PartitionEvidence, Unreadable
from evidence.samples import Samples
from evidence.silences import Silence
from expectations.tallies import Tallies
from history.partition import TopicPartition

Replica = tuple[int, str, int]  # broker_id, topic, partition
UNREADABLE = ("bad crc", "codec", "magic", "malformed", "too large")


@dataclass(frozen=True)
class Ledger:
    """One producer's sends; ``distinct`` counts a number once per partition."""

    rows: int = 0
    distinct: int = 0
    last_seq: int = -1
    seq_sum: int = 0
    acked: int = 0

    def __add__(self, other: Ledger) -> Ledger:
        return Ledger(
            self.rows + other.rows,
            self.distinct + other.distinct,
            max(self.last_seq, other.last_seq),
            self.seq_sum + other.seq_sum,
            self.acked + other.acked,
        )

    @property
    def repeated(self) -> int:
        """Return how many sends certainly reuse a number.

        Across partitions this is a lower bound: distinct numbers up to ``last_seq`` have only one sum.
        """
        numbers = self.last_seq + 1
        counted = self.rows - min(self.distinct, numbers)
        swapped = self.rows == numbers and self.seq_sum != numbers * (numbers - 1) // 2
        return max(counted, int(swapped))


class Copies(NamedTuple):
    """Records of a copier's input, below its group's committed offset (``required``) and above."""

    required: int
    left: int


@dataclass
class Counts:
    """Counts of a run or a part of it."""

    ledgers: dict[str, Ledger] = field(default_factory=dict)
    read: Counter[str] = field(default_factory=Counter)
    sought: Counter[str] = field(default_factory=Counter)
    undecided_readers: list[str] = field(default_factory=list)  # sentences
    unrecorded: Counter[str] = field(default_factory=Counter)  # that its ledger lacks
    completed_reads: int = 0  # of completed operations
    unnamed_reads: int = 0  # no test records
    probed: Counter[str] = field(default_factory=Counter)
    sampled: set[Replica] = field(default_factory=set)  # with a valid sample
    probed_in: set[tuple[str, int]] = field(default_factory=set)  # (phase, broker_id) with a valid sample
    captured: dict[str, set[Replica]] = field(default_factory=dict)
    ends: dict[Replica, int] = field(default_factory=dict)  # log end offsets in the capture AFTER
    log_ends: dict[Replica, int] = field(default_factory=dict)  # replicas without segments are absent
    log_problems: dict[Replica, list[str]] = field(default_factory=dict)
    log_gaps: dict[Replica, tuple[int, int]] = field(default_factory=dict)  # the first missing (from, to)
    copies: dict[TopicPartition, Copies] = field(default_factory=dict)
    silences: list[Silence] = field(default_factory=list)
    tallies: Tallies = field(default_factory=Tallies)

    def merge(self, others: Iterable[Counts]) -> Counts:
        for other in others:
            for name, ledger in other.ledgers.items():
                self.ledgers[name] = self.ledgers.get(name, Ledger()) + ledger
            for own, more in (
                (self.read, other.read),
                (self.sought, other.sought),
                (self.unrecorded, other.unrecorded),
                (self.probed, other.probed),
            ):
                own.update(more)
            self.completed_reads += other.completed_reads
            self.unnamed_reads += other.unnamed_reads
            self.sampled |= other.sampled
            self.probed_in |= other.probed_in
            for capture, replicas in other.captured.items():
                self.captured.setdefault(capture, set()).update(replicas)
            self.ends |= other.ends
            self.log_ends |= other.log_ends
            self.log_problems |= other.log_problems
            self.log_gaps |= other.log_gaps
            self.copies |= other.copies
            self.undecided_readers += other.undecided_readers
            self.silences += other.silences
            self.tallies.merge([other.tallies])
        return self


def of_clients(sends: Sends, polls: Polls, seeks: Seeks, names: Names) -> Counts:
    """Count what clients recorded about one partition."""
    return Counts(
        ledgers=_ledgers(sends, names),
        read=_by_consumer(polls.consumer, names),
        sought=_by_consumer(seeks.consumer, names),
        completed_reads=int((polls.pass_ != INCOMPLETE).sum()),
        unnamed_reads=int((polls.value < 0).sum()),
    )


def of_copier(of: PartitionEvidence) -> Counts:
    """Count the records that a copier must write."""
    if of.input is None:
        return Counts()
    required = int((of.input_offsets < of.input.committed).sum())
    return Counts(copies={of.where: Copies(required, of.input_offsets.size - required)})


def _ledgers(sends: Sends, names: Names) -> dict[str, Ledger]:
    producers, seqs = producer_of(sends.value), seq_of(sends.value)
    found = {}
    for (code,), rows in groups(producers):
        if code < 0:
            continue
        seq = seqs[rows]
        acked = int((sends.outcome[rows] == OK).sum())
        found[names.listed[code]] = Ledger(seq.size, _distinct(seq), int(seq.max()), _sum(seq), acked)
    return found


def _distinct(seq: Ints) -> int:
    in_order = bool(np.all(seq[1:] > seq[:-1]))
    return seq.size if in_order else np.unique(seq).size


def _sum(seq: Ints) -> int:
    """Sum in Python, since NumPy could overflow."""
    return (int((seq >> 24).sum()) << 24) + int((seq & 0xFFFFFF).sum())


def _by_consumer(consumers: Codes, names: Names) -> Counter[str]:
    codes, counts = np.unique(consumers, return_counts=True)
    return Counter({names.listed[code]: count for code, count in zip(codes.tolist(), counts.tolist(), strict=True)})


def of_replicas(where: TopicPartition, samples: Samples, phases: Iterable[Span], *, rows: int, isr_rows: int) -> Counts:
    """Count the probe's rows; ``samples`` are the valid responses."""
    brokers = np.unique(samples.broker).tolist()
    answered = {broker: np.sort(samples.received_ns[samples.broker == broker]) for broker in brokers}
    return Counts(
        probed=Counter(rows=rows, isr_rows=isr_rows),
        sampled={(broker, *where) for broker in brokers},
        probed_in={
            (span.phase, broker)
            for span in phases
            for broker, received_ns in answered.items()
            if np.searchsorted(received_ns, span.from_ns) < np.searchsorted(received_ns, span.to_ns, side="right")
        },
    )


def of_logs(
    where: TopicPartition,
    log_ends: Mapping[int, int],
    unreadable: Iterable[Unreadable],
    gaps: Mapping[int, tuple[int, int]],
) -> Counts:
    """Count what the exported logs show."""
    problems: dict[Replica, set[str]] = {}
    for place in unreadable:
        problems.setdefault((place.broker_id, *where), set()).add(place.problem)
    return Counts(
        log_ends={(broker, *where): end for broker, end in log_ends.items()},
        log_problems={replica: sorted(found) for replica, found in problems.items()},
        log_gaps={(broker, *where): gap for broker, gap in gaps.items()},
    )


def log_end(file: Path, last_offset: int | None) -> int:
    """Return a segment's end offset, from the last of its readable batches."""
    return max(int(file.stem), -1 if last_offset is None else last_offset + 1)


def of_captures(rows: Iterable[Mapping[str, Any]]) -> Counts:
    """Count successful captures (rows of ``history.tables.OFFSETS``)."""
    found = Counts()
    for row in rows:
        if row["error"] is None and row["log_end_offset"] is not None:
            replica = row["broker_id"], row["topic"], row["partition"]
            found.captured.setdefault(row["capture"], set()).add(replica)
            if row["capture"] == "after":
                found.ends[replica] = row["log_end_offset"]
    return found
