"""All evidence of a run about one topic partition."""

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
    """The records that a copier must write: its input's committed ones, as the final drain read them.

    ``producer`` identifies the copies. ``offsets`` below ``committed`` must be copied. ``whole``: the drain reached the
    end. The rest: as in ``PartitionEvidence``, for the input.
    """

    producer: str
    offsets: Ints
    committed: int
    whole: bool
    deleted_before: int = 0
    clean: bool = True
    kept: bool = True


class Unreadable(NamedTuple):
    """An unreadable place of a replica's log; ``problem`` as in ``kafka_files.segments``."""

    broker_id: int
    node: str
    offset: int | None
    problem: str


class Replica(NamedTuple):
    """A replica's files and last captured state; ``epochs`` are its checkpoint's entries, unchanged."""

    broker_id: int
    segments: Sequence[Path]
    epochs: Sequence[tuple[int, int]] | None
    log_start_offset: int | None = None
    high_watermark: int | None = None
    log_end_offset: int | None = None


@dataclass(frozen=True)
class PartitionEvidence:
    """One partition's columns, and facts from the whole run.

    Mappings from a broker: ``logs``, ``markers``, ``nodes`` (its node), ``observed`` (first and last probe, successful
    or not: ``views.observed``), ``batches``, and ``members`` (final ISR with complete logs: the offset from which it
    must have all records). ``complete`` are the brokers whose log was read from its start to the last captured end;
    ``whole``: all are. ``replicas`` have exported files; the broker ``final`` has the partition's authoritative log.

    ``leaders`` maps an epoch to its leader and first observation (``views.first_leaders``), ``epoch_starts`` to the
    smallest start offset in a leader-epoch-checkpoint. ``views`` are observers' metadata, ``changes`` the states in
    order (``views.changes``), ``short`` the times below min.insync.replicas.

    Records below ``deleted_before`` were deleted, by request or retention. ``unclean_producers`` may lack sends in
    their ledgers. ``clean``: all committed records must be present. ``kept``: nothing is compacted. ``expires``: an
    imported topic's retention may have deleted any record; ``tombstones_stay_ns`` is its delete.retention.ms.
    ``idempotent``, ``transactional``: some producer is.

    ``lines`` are brokers' log lines (``kafka_files.broker_log.BROKER_LOG``), ``captures`` the captures' responses
    (``history.tables.OFFSETS``). ``group`` and ``share`` exist if a group reads the topic and its records are complete.
    ``faults``, ``disturbances``, ``request_timeouts_ns``: as in ``gather.RunFacts``. ``readers`` are final positions,
    if recorded.
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
    told_names: ToldNames | None = None  # only in an imported history
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
    copied: Copied | None = None  # only if a copier writes the partition
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
        """Return the checkpoints' entries: (broker_id, leader_epoch, start_offset)."""
        return [(each.broker_id, *entry) for each in self.replicas for entry in each.epochs or ()]

    @cached_property
    def leader_epochs(self) -> set[int]:
        seen = np.unique(np.concatenate([self.samples.epoch, self.views.epoch]))
        return {*seen[seen != NULL].tolist(), *self.epoch_starts}

    @cached_property
    def of_leaders(self) -> Bools:
        """Return which samples come from their epoch's leader, by any observer."""
        return self.samples.of_leaders(leaders(self.views))
