"""All evidence about one topic partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evidence.batches import ReplicaBatches
from evidence.columns import NULL, Bools, Ints, Log, Markers, Names, Polls, Samples, Seeks, Sends, ToldNames, Views
from evidence.facts import Facts, ShortIsr
from evidence.groups import GroupEvidence
from evidence.readers import ReaderEvidence
from evidence.shares import ShareEvidence
from evidence.views import Change, leaders
from history.partition import TopicPartition

Row = Mapping[str, Any]


class Drain(NamedTuple):
    """A partition's final drain; ``end_offset`` is its target."""

    position: int | None
    end_offset: int | None
    complete: bool
    start_offset: int | None = None


class Copied(NamedTuple):
    """The committed input records that a copier must write.

    ``producer`` identifies the copies; ``offsets`` below ``committed`` are required.
    """

    producer: str
    offsets: Ints
    committed: int
    whole: bool
    deleted_before: int = 0
    clean: bool = True
    kept: bool = True


class Unreadable(NamedTuple):
    """An unreadable place; ``problem`` as in ``kafka_files.segments``."""

    broker_id: int
    node: str
    offset: int | None
    problem: str


class Replica(NamedTuple):
    """A replica's files, last captured state and checkpoint entries."""

    broker_id: int
    segments: Sequence[Path]
    epochs: Sequence[tuple[int, int]] | None
    log_start_offset: int | None = None
    high_watermark: int | None = None
    log_end_offset: int | None = None


@dataclass(frozen=True)
class PartitionEvidence:
    """One partition's columns, and facts from the whole run.

    By broker: ``observed`` (first and last probe) and ``members`` (final ISR with complete logs: the offset from which
    it must have all records). ``complete`` are the brokers whose log was read from start to last captured end;
    ``whole``: all are. The broker ``final`` has the authoritative log.

    ``leaders`` and ``epoch_starts`` map an epoch to its leader with the first observation, and to its smallest start.
    ``short`` are the times below min.insync.replicas.

    ``unclean_producers`` may lack sends. ``clean``: all committed records must be present. ``kept``: nothing is
    compacted. ``expires``: an imported topic's retention may have deleted any record.

    ``lines`` are ``kafka_files.broker_log.BROKER_LOG``, ``captures`` ``history.tables.OFFSETS``.
    """

    where: TopicPartition
    names: Names
    sends: Sends
    polls: Polls
    seeks: Seeks
    samples: Samples
    logs: Mapping[int, Log] = field(default_factory=dict)
    markers: Mapping[int, Markers] = field(default_factory=dict)
    complete: frozenset[int] = frozenset()
    unreadable: tuple[Unreadable, ...] = ()
    nodes: Mapping[int, str] = field(default_factory=dict)
    drain: Drain | None = None
    whole: bool = True
    deleted_before: int | None = None
    leaders: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    unclean_producers: frozenset[str] = frozenset()
    told_names: ToldNames | None = None  # in an imported history
    views: Views = field(default_factory=Views.nothing)
    changes: tuple[Change, ...] = ()
    facts: Facts = field(default_factory=Facts)
    epoch_starts: Mapping[int, int] = field(default_factory=dict)
    observed: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    replicas: tuple[Replica, ...] = ()
    batches: Mapping[int, ReplicaBatches] = field(default_factory=dict)
    final: int | None = None
    clean: bool = True
    kept: bool = True
    expires: bool = False
    tombstones_stay_ns: int = 0
    idempotent: bool = True
    transactional: bool = False
    copied: Copied | None = None  # if a copier writes the partition
    members: Mapping[int, int] = field(default_factory=dict)
    short: Sequence[ShortIsr] = ()
    lines: Sequence[Row] = ()
    captures: Sequence[Row] = ()
    group: GroupEvidence | None = None
    share: ShareEvidence | None = None
    faults: Sequence[tuple[int, int]] = ()
    disturbances: Sequence[tuple[int, int]] = ()
    request_timeouts_ns: Mapping[str, int] = field(default_factory=dict)
    readers: ReaderEvidence | None = None

    @property
    def log_start(self) -> int:
        return next((each.log_start_offset or 0 for each in self.replicas if each.broker_id == self.final), 0)

    @property
    def epochs(self) -> list[tuple[int, int, int]]:
        """Return (broker_id, leader_epoch, start_offset) of all checkpoint entries."""
        return [(each.broker_id, *entry) for each in self.replicas for entry in each.epochs or ()]

    @cached_property
    def leader_epochs(self) -> set[int]:
        seen = np.unique(np.concatenate([self.samples.epoch, self.views.epoch]))
        return {*seen[seen != NULL].tolist(), *self.epoch_starts}

    @cached_property
    def of_leaders(self) -> Bools:
        return self.samples.of_leaders(leaders(self.views))
