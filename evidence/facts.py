"""Facts about a run and its partitions, before their records are read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from evidence.groups import GroupFacts
from evidence.pieces import Piece
from evidence.profiles import RECORDED, Profile
from evidence.readers import ReaderFacts
from evidence.shares import ShareFacts
from history.partition import TopicPartition
from history.payload import copier_id
from kafka_files.states import State

Row = Mapping[str, Any]
Transaction = tuple[str, int]  # producer, number

SLACK_NS = 100_000_000  # controller times are wall-clock milliseconds
UNFENCED_NS = 2_000_000_000  # a fenced follower, or a former leader, may go on as before this long
SETTLE_NS = 3_000_000_000  # three times a parked fetch's wait plus the next fetch
MARKERS_NS = 10_000_000_000  # for the markers of an aborted transaction
STALE_METADATA_NS = 2_000_000_000  # a broker's metadata may be stale this long
FOREVER_NS = 2**63 - 1


class Span(NamedTuple):
    """A phase or a part of it; ``completed``: the phase ended."""

    phase: str
    from_ns: int
    to_ns: int
    completed: bool = True


class BrokerStop(NamedTuple):
    """When a fault killed, stopped or paused a broker; ``ended``: the process ended."""

    broker_id: int
    ordered_ns: int
    from_ns: int
    until_ns: int
    ended: bool = False


class Outage(NamedTuple):
    """When a broker, or a controller (None), may have been unreachable."""

    broker_id: int | None
    from_ns: int
    until_ns: int


class NewLog(NamedTuple):
    """When a step may have replaced a log; None means any broker or topic."""

    broker_id: int | None
    t_ns: int
    topic: str | None = None


class LostCopy(NamedTuple):
    """A fault that took records from the only live in-sync replica's disk.

    ``unknown``: why other ISR members are unknown.
    """

    t_ns: int
    from_offset: int = 0
    unknown: str | None = None


class Stretch(NamedTuple):
    """A controller state and when it certainly held."""

    state: State
    from_ns: int
    until_ns: int


class ShortIsr(NamedTuple):
    """When an ISR was below min.insync.replicas, known to the leader from ``known_ns`` on."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    known_ns: int
    until_ns: int


class Cause(StrEnum):
    """A possible cause of a case (``judge.checks.causes``)."""

    NEW_LEADER = "new_leader"
    UNCLEAN_LEADER = "unclean_leader"
    LOST_COPY = "lost_copy"  # a fault removed the only live in-sync copy
    SENT_AGAIN = "sent_again"
    NEVER_READ = "never_read"  # no reader shows a broker had the record
    COPIER_RESUMED = "copier_resumed"  # the copier resumed at the committed offset
    MEMBER_ENDED = "member_ended"  # the member ended between commit and processing
    RELEASED = "released"  # members released the record at each delivery
    SHORT_ISR = "short_isr"  # final ISR below min.insync.replicas


class Permission(NamedTuple):
    """Why a producer may show an anomaly, and the cause required."""

    why: str
    cause: Cause


Permitted = Mapping[str, Mapping[str, Sequence[Permission]]]  # producer → anomaly → permissions


@dataclass(frozen=True)
class RunFacts:
    """Facts about a run, sent to each worker.

    ``load_spans`` are the phases (``spans``) from their last load on. Producers: ``open_loops``
    ignore responses; ``resending`` are idempotent and met a fault that can move a leader; ``gave_up`` are idempotent,
    non-transactional, and gave up a response; ``unclean_producers`` may lack sends. ``disturbances`` may have cost a
    producer a response. In an imported history (``foreign``), ``subscribed`` consumers have group assignment, and
    ``from_start`` ones began at the first record. ``group`` and ``share`` need complete records.
    """

    folder: Path = Path()
    profile: Profile = RECORDED
    foreign: bool = False
    transactional: bool = False
    nodes: Mapping[int, str] = field(default_factory=dict)
    permitted: Permitted = field(default_factory=dict)
    unclean_producers: frozenset[str] = frozenset()
    subscribed: frozenset[str] = frozenset()
    from_start: Mapping[TopicPartition, Sequence[str]] = field(default_factory=dict)
    open_loops: frozenset[str] = frozenset()
    resending: frozenset[str] = frozenset()
    gave_up: frozenset[str] = frozenset()
    spans: tuple[Span, ...] = ()
    load_spans: tuple[Span, ...] = ()
    active_faults: tuple[tuple[int, int], ...] = ()
    disturbances: tuple[tuple[int, int], ...] = ()
    request_timeouts_ns: Mapping[str, int] = field(default_factory=dict)
    transaction_limit_ns: int = 0
    origin_ns: int = 0
    probe_hz: float = 0.0
    group: GroupFacts | None = None
    share: ShareFacts | None = None
    readers: ReaderFacts | None = None


class Drain(NamedTuple):
    """A partition's final drain; ``end_offset`` is its target."""

    position: int | None
    end_offset: int | None
    complete: bool
    start_offset: int | None = None


class Replica(NamedTuple):
    """A replica's files, last captured state and checkpoint entries."""

    broker_id: int
    segments: Sequence[Path]
    epochs: Sequence[tuple[int, int]] | None
    log_start_offset: int | None = None
    high_watermark: int | None = None
    log_end_offset: int | None = None


def log_start(replicas: Iterable[Replica], broker_id: int | None) -> int:
    """Return a broker's log start offset, 0 if unknown."""
    return next((each.log_start_offset or 0 for each in replicas if each.broker_id == broker_id), 0)


class Input(NamedTuple):
    """A copier's input partition and committed offset; ``whole``: the drain is complete."""

    where: TopicPartition
    committed: int
    whole: bool
    deleted_before: int = 0
    clean: bool = True
    kept: bool = True

    @property
    def copier(self) -> str:
        return copier_id(self.where.partition)


@dataclass(frozen=True)
class PartitionFacts:
    """Facts about one partition, sent to its worker.

    ``size`` is in bytes. ``assigned`` are the brokers with a replica, ``ends`` the last captured log ends.
    ``required_from`` maps a broker to the offset from which it must have all records. The broker ``final`` has the
    authoritative log. ``committed`` transactions have an unknown outcome, but a record of each was read.

    ``clean``: all committed records must be present. ``kept``: nothing is compacted. ``expires``: an imported topic's
    retention may have deleted any record.

    ``lines`` are rows of ``kafka_files.broker_log``, ``captures`` ``history.tables.OFFSETS``.

    ``starts`` maps a leader epoch to its start offset. ``stale_controller_ns`` adds to ``max_isr_lag_ns`` while brokers
    are unreachable. ``effective_min_isr`` is the largest min(min.insync.replicas, replicas), ``lowest_min_isr`` the
    smallest. Below the minimum, HW stops in all versions of the run (``strict_min_isr``), in none (``lax_min_isr``), or
    in some.

    ``offsets`` (from, until) make these the facts of a part of the partition; ``pieces`` are what is left of all parts.
    """

    where: TopicPartition
    size: int = 0
    offsets: tuple[int, int] | None = None
    pieces: Sequence[Piece] = ()
    replicas: tuple[Replica, ...] = ()
    assigned: tuple[int, ...] = ()
    ends: Mapping[int, int] = field(default_factory=dict)
    required_from: Mapping[int, int] = field(default_factory=dict)
    drain: Drain | None = None
    deleted_before: int | None = None
    final: int | None = None
    clean: bool = True
    kept: bool = True
    expires: bool = False
    tombstones_stay_ns: int = 0
    idempotent: bool = True
    lines: Sequence[Row] = ()
    captures: Sequence[Row] = ()
    committed: frozenset[Transaction] = frozenset()
    input: Input | None = None  # if a copier writes the partition
    states: Sequence[State] = ()
    starts: Mapping[int, int] = field(default_factory=dict)
    stops: Sequence[BrokerStop] = ()
    outages: Sequence[Outage] = ()
    new_logs: Sequence[NewLog] = ()
    lost_copies: Sequence[LostCopy] = ()
    max_isr_lag_ns: int = 45_000_000_000
    stale_controller_ns: int = 0
    isr_change_limit_ns: int = 40_000_000_000
    effective_min_isr: int = 1
    lowest_min_isr: int | None = None
    strict_min_isr: bool = True
    lax_min_isr: bool = False

    @property
    def smallest_isr(self) -> int:
        """Return the ISR size below which a commit was never allowed."""
        return self.effective_min_isr if self.lowest_min_isr is None else self.lowest_min_isr

    @cached_property
    def dated(self) -> list[State]:
        """Return the states; none if one lacks a time, since intervals would be unknown."""
        return [] if any(state.t_ns is None for state in self.states) else list(self.states)

    @cached_property
    def leaders(self) -> dict[int, int]:
        return {state.leader_epoch: state.leader for state in self.states if state.leader >= 0}

    @cached_property
    def stretches(self) -> list[Stretch]:
        ends = [(state.t_ns or 0) - SLACK_NS for state in self.dated[1:]] + [FOREVER_NS]
        return [Stretch(s, (s.t_ns or 0) + SLACK_NS, until) for s, until in zip(self.dated, ends, strict=False)]

    def lag_limit_ns(self, others: Collection[int], from_ns: int, until_ns: int) -> int:
        """Return an ISR member's longest lag while these brokers may be unreachable.

        A leader may take one of them for ZooKeeper's controller.
        """
        hangs = any(o.broker_id in others and o.from_ns <= until_ns and o.until_ns >= from_ns for o in self.outages)
        return self.max_isr_lag_ns + (self.stale_controller_ns if hangs else 0)

    def disturbed(self, leader: int, from_ns: int, until_ns: int) -> bool:
        """Return whether evictions cannot be expected."""
        return any(o.from_ns <= until_ns and o.until_ns >= from_ns for o in self._outages_of(leader))

    def undisturbed(self, leader: int, from_ns: int, until_ns: int) -> Iterator[tuple[int, int]]:
        return outside(((o.from_ns, o.until_ns) for o in self._outages_of(leader)), from_ns, until_ns)

    def _outages_of(self, leader: int) -> list[Outage]:
        return [o for o in self.outages if o.broker_id in {None, leader}]


def outside(spans: Iterable[tuple[int, int]], from_ns: int, until_ns: int) -> Iterator[tuple[int, int]]:
    """Yield the parts (from, until) that no span covers."""
    for begun_ns, ended_ns in sorted(spans):
        if from_ns < begun_ns < until_ns:
            yield from_ns, begun_ns
        if begun_ns < until_ns:
            from_ns = max(from_ns, ended_ns)
    if from_ns < until_ns:
        yield from_ns, until_ns


def longest_outside(spans: Iterable[tuple[int, int]], from_ns: int, until_ns: int) -> int:
    """Return the longest part that no span covers."""
    return max((end_ns - begun_ns for begun_ns, end_ns in outside(spans, from_ns, until_ns)), default=0)


def at_most_all(effective_min_isr: int, state: State) -> int:
    """Return min.insync.replicas, at most the replicas, which ``reassign`` changes."""
    return min(effective_min_isr, len(state.replicas) or effective_min_isr)


def is_short(facts: PartitionFacts, state: State) -> bool:
    """Return whether a leader's ISR is below min.insync.replicas."""
    return state.leader >= 0 and len(state.isr) < at_most_all(facts.smallest_isr, state)


def short_of_members(facts: PartitionFacts) -> Iterator[Stretch]:
    """Yield when an ISR was too small with its leader and the controllers reachable."""
    for stretch in facts.stretches:
        state, since_ns, until_ns = stretch
        if is_short(facts, state) and not facts.disturbed(state.leader, since_ns, until_ns):
            yield stretch
