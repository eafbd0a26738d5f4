"""A partition's controller states, faults and time limits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from kafka_files.states import State

SLACK_NS = 100_000_000  # controller timestamps are wall-clock milliseconds
UNFENCED_NS = 2_000_000_000  # a fenced but live follower can still advance the high watermark for this long
SETTLE_NS = 3_000_000_000  # three times a parked fetch's wait plus the follower's next fetch
FOREVER_NS = 2**63 - 1


class Span(NamedTuple):
    """A phase or part of one, from first to last event."""

    phase: str
    from_ns: int
    to_ns: int


class Fault(NamedTuple):
    """A broker that was killed, stopped or paused: when this was requested, took effect, and was healed (or the broker
    restarted).

    ``ended``: its process ended, as a later start shows.
    """

    broker_id: int
    asked_ns: int
    from_ns: int
    until_ns: int
    ended: bool = False


class Outage(NamedTuple):
    """When a broker (None: a controller) may have been unreachable, from the fault's request on."""

    broker_id: int | None
    from_ns: int
    until_ns: int


class NewLog(NamedTuple):
    """When a step may have replaced a replica's log, by moving or damaging it. ``broker_id``, ``topic``: None means
    any.
    """

    broker_id: int | None
    t_ns: int
    topic: str | None = None


class LostCopy(NamedTuple):
    """A fault that removed records (from an offset on) from the only live ISR member's disk.

    ``unknown``: why other ISR members could not be determined.
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
    """When a leader's ISR was below min.insync.replicas; the leader must respect it from ``known_ns`` on."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    known_ns: int
    until_ns: int


@dataclass(frozen=True)
class Facts:
    """Facts about one partition.

    ``starts`` maps a leader epoch to its start offset. An ISR member may lag ``max_isr_lag_ns``, and
    ``stale_controller_ns`` longer while brokers are unreachable (``lag_limit_ns``). ``isr_change_limit_ns`` limits an
    ISR change with all nodes reachable. ``effective_min_isr`` is the largest active min(min.insync.replicas, replicas),
    ``lowest_min_isr`` the smallest, if a step changed it; a state with fewer replicas needs only those
    (``at_most_all``). Below the minimum, HW stops advancing in all versions of the run (``strict_min_isr``), in none
    (``lax_min_isr``), or in some.
    """

    states: Sequence[State] = ()
    starts: Mapping[int, int] = field(default_factory=dict)
    faults: Sequence[Fault] = ()
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
        """Return the ISR size below which commits were never allowed."""
        return self.effective_min_isr if self.lowest_min_isr is None else self.lowest_min_isr

    @cached_property
    def dated(self) -> list[State]:
        """Return the states in order, none if one lacks a time: with gaps, intervals are unknown."""
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

        A leader that mistakes one for ZooKeeper's controller waits for it before asking the current controller.
        """
        hangs = any(o.broker_id in others and o.from_ns <= until_ns and o.until_ns >= from_ns for o in self.outages)
        return self.max_isr_lag_ns + (self.stale_controller_ns if hangs else 0)

    def disturbed(self, leader: int, from_ns: int, until_ns: int) -> bool:
        """Return whether the leader or a controller may have been unreachable, so that evictions cannot be expected."""
        return any(o.from_ns <= until_ns and o.until_ns >= from_ns for o in self._outages_of(leader))

    def undisturbed(self, leader: int, from_ns: int, until_ns: int) -> Iterator[tuple[int, int]]:
        """Return the parts (from, until) in which leader and controllers were reachable."""
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
    """Return the length in ns of the longest part of a time that lies in none of the spans; 0 if there is none."""
    return max((end_ns - begun_ns for begun_ns, end_ns in outside(spans, from_ns, until_ns)), default=0)


def at_most_all(effective_min_isr: int, state: State) -> int:
    """Return the active min.insync.replicas, at most the number of replicas, which ``reassign`` changes."""
    return min(effective_min_isr, len(state.replicas) or effective_min_isr)


def is_short(facts: Facts, state: State) -> bool:
    """Return whether a leader's ISR is below min.insync.replicas."""
    return state.leader >= 0 and len(state.isr) < at_most_all(facts.smallest_isr, state)


def short_of_members(facts: Facts) -> Iterator[Stretch]:
    """Yield when a leader's ISR was below min.insync.replicas, with it and the controllers reachable."""
    for stretch in facts.stretches:
        state, since_ns, until_ns = stretch
        if is_short(facts, state) and not facts.disturbed(state.leader, since_ns, until_ns):
            yield stretch
