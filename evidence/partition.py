"""Everything that a run holds about one topic partition."""

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
    """How far the final drain of a partition came; ``end_offset`` is where readers stopped."""

    position: int | None
    end_offset: int | None
    complete: bool
    start_offset: int | None = None


class Copied(NamedTuple):
    """What a copier owes a partition of its output: the input's committed records, as the final drain returned them.

    ``producer`` is by what the copies are told. Of ``offsets`` those below ``committed`` are owed, as far as its group
    has committed. ``whole``: the drain came to the input's end. The rest says of the input what ``PartitionEvidence``
    says of the output.
    """

    producer: str
    offsets: Ints
    committed: int
    whole: bool
    deleted_before: int = 0
    clean: bool = True
    kept: bool = True


class Unreadable(NamedTuple):
    """A place of a replica's log that cannot be read; ``problem`` as in ``kafka_files.segments``."""

    broker_id: int
    node: str
    offset: int | None
    problem: str


class Replica(NamedTuple):
    """A replica's files and what the last capture saw of it; ``epochs`` are its checkpoint's entries, as they stand."""

    broker_id: int
    segments: Sequence[Path]
    epochs: Sequence[tuple[int, int]] | None
    log_start_offset: int | None = None
    high_watermark: int | None = None
    log_end_offset: int | None = None


@dataclass(frozen=True)
class PartitionEvidence:
    """One partition's columns, with the few facts about it that follow from the whole run.

    ``logs`` maps a broker to its replica's log. ``complete`` are the brokers whose log was read from its start to the
    end that the last capture saw; ``whole`` says that all are. ``deleted_before`` is up to where its records were
    deleted, by order or by retention. ``leaders`` maps a leader epoch to who led it and when that was first seen
    (``views.first_leaders``). ``unclean_producers`` did not end in order: their ledgers may lack sends. ``nodes`` maps
    a broker to its node's name. ``views`` are the observers' metadata, and ``changes`` the partition's states in order
    (``views.changes``). ``epoch_starts`` maps an epoch to the smallest start that any replica's leader-epoch-checkpoint
    names. ``observed`` maps a broker to the times of the first and the last probe of its replica, good or not
    (``views.observed``). ``replicas`` are those with exported files, of which ``final`` (a broker) is the one whose log
    is the partition's, and ``batches`` maps a broker to the batches of its files. ``clean`` says that nothing committed
    may be missing, ``kept`` that nothing is compacted, ``expires`` that an imported topic's retention may have deleted
    any record, ``idempotent`` and ``transactional`` that some producer is.
    ``members`` maps the brokers of the final ISR whose logs are whole to the offset from which on each owes its
    records, ``short`` are the stretches below min.insync.replicas. ``lines`` are the brokers' own words on the
    partition (rows of ``kafka_files.broker_log.BROKER_LOG``), ``captures`` the answers that captures got
    (``history.tables.OFFSETS``).
    ``group`` and ``share`` are what a consumer or a share group recorded, where one reads the topic and what its
    members recorded is whole. ``faults``, ``disturbances`` and ``request_timeouts_ns`` as in ``gather.RunFacts``.
    ``readers`` is where readers were at the end, where the run recorded it.
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
    told_names: ToldNames | None = None  # of an imported history
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
    idempotent: bool = True
    transactional: bool = False
    copied: Copied | None = None  # of a partition that a copier writes
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
        """Where the partition's log starts."""
        return next((each.log_start_offset or 0 for each in self.replicas if each.broker_id == self.final), 0)

    @property
    def epochs(self) -> list[tuple[int, int, int]]:
        """What the replicas' leader-epoch-checkpoints say: (broker_id, leader_epoch, start_offset)."""
        return [(each.broker_id, *entry) for each in self.replicas for entry in each.epochs or ()]

    @cached_property
    def leader_epochs(self) -> set[int]:
        """Every leader epoch that the samples, the metadata or the epoch files name."""
        seen = np.unique(np.concatenate([self.samples.epoch, self.views.epoch]))
        return {*seen[seen != NULL].tolist(), *self.epoch_starts}

    @cached_property
    def of_leaders(self) -> Bools:
        """Which samples are of an epoch's own leader, as any observer named it."""
        return self.samples.of_leaders(leaders(self.views))
