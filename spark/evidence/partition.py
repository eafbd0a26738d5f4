"""Everything that a run holds about one topic partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from history.partition import TopicPartition
from spark.evidence.columns import Log, Markers, Names, Polls, Samples, Seeks, Sends, ToldNames


class Drain(NamedTuple):
    """How far the final drain of a partition came; ``end_offset`` is where readers stopped."""

    position: int | None
    end_offset: int | None
    complete: bool


class Unreadable(NamedTuple):
    """A place of a replica's log that cannot be read; ``problem`` as in ``kafka_files.segments``."""

    broker_id: int
    node: str
    offset: int | None
    problem: str


@dataclass(frozen=True)
class PartitionEvidence:
    """One partition's columns, with the few facts about it that follow from the whole run.

    ``logs`` maps a broker to its replica's log. ``whole`` says that every replica's log could be read from end to end;
    ``deleted_before`` up to where its records were deleted, by order or by retention. ``leaders`` maps a leader epoch
    to who led it and when that was first seen. ``unclean_producers`` did not end in order: their ledgers may lack
    sends. ``nodes`` maps a broker to its node's name.
    """

    where: TopicPartition
    names: Names
    sends: Sends
    polls: Polls
    seeks: Seeks
    samples: Samples
    logs: Mapping[int, Log] = field(default_factory=dict)
    markers: Mapping[int, Markers] = field(default_factory=dict)
    unreadable: tuple[Unreadable, ...] = ()
    nodes: Mapping[int, str] = field(default_factory=dict)
    drain: Drain | None = None
    whole: bool = True
    deleted_before: int | None = None
    leaders: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    unclean_producers: frozenset[str] = frozenset()
    told_names: ToldNames | None = None  # of an imported history
