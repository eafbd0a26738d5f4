"""All evidence about one topic partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from evidence.batches import ReplicaBatches
from evidence.columns import NULL, Bools, ImportedNames, Ints, Log, Markers, Names, Polls, Seeks, Sends, Views
from evidence.facts import FOREVER_NS, PartitionFacts, RunFacts, ShortIsr, log_start
from evidence.groups import GroupEvidence
from evidence.pieces import PlainRange
from evidence.readers import ReaderEvidence
from evidence.samples import Samples
from evidence.shares import ShareEvidence
from evidence.views import Change, leaders


class Unreadable(NamedTuple):
    """An unreadable place; ``problem`` as in ``kafka_files.segments``."""

    broker_id: int
    node: str
    offset: int | None
    problem: str


@dataclass(frozen=True, kw_only=True)
class PartitionEvidence(PartitionFacts):
    """One partition's columns and facts.

    By broker: ``observed`` (first and last probe) and ``members`` (final ISR with complete logs: the offset from which
    it must have all records). ``complete`` are the brokers whose log was read from start to last captured end;
    ``whole``: all are. ``replicas`` have only the segments that were read.

    ``epoch_starts`` maps an epoch to its smallest start. ``short`` are the times below min.insync.replicas.
    ``input_offsets`` are those of the records that a copier read. ``samples`` are those of one ``window`` (after,
    until), with what it needs of earlier ones. The records of ``plain`` ranges are in no column.
    """

    run: RunFacts = field(default_factory=RunFacts)
    names: Names
    plain: Sequence[PlainRange] = ()
    sends: Sends
    polls: Polls
    seeks: Seeks
    samples: Samples
    window: tuple[int, int] = (NULL, FOREVER_NS)
    logs: Mapping[int, Log] = field(default_factory=dict)
    markers: Mapping[int, Markers] = field(default_factory=dict)
    complete: frozenset[int] = frozenset()
    unreadable: tuple[Unreadable, ...] = ()
    whole: bool = True
    imported_names: ImportedNames | None = None  # in an imported history
    views: Views = field(default_factory=Views.nothing)
    changes: tuple[Change, ...] = ()
    epoch_starts: Mapping[int, int] = field(default_factory=dict)
    observed: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    batches: Mapping[int, ReplicaBatches] = field(default_factory=dict)
    input_offsets: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    members: Mapping[int, int] = field(default_factory=dict)
    short: Sequence[ShortIsr] = ()
    group: GroupEvidence | None = None
    share: ShareEvidence | None = None
    readers: ReaderEvidence | None = None

    @property
    def log_start(self) -> int:
        return log_start(self.replicas, self.final)

    @property
    def epochs(self) -> list[tuple[int, int, int]]:
        """Return (broker_id, leader_epoch, start_offset) of all checkpoint entries."""
        return [(each.broker_id, *entry) for each in self.replicas for entry in each.epochs or ()]

    @cached_property
    def leader_epochs(self) -> set[int]:
        seen = np.unique(np.concatenate([self.samples.epoch, self.views.epoch]))
        return {*seen[seen != NULL].tolist(), *self.epoch_starts}

    @cached_property
    def sampled_leaders(self) -> Bools:
        return self.samples.of_leaders(leaders(self.views))
