"""What is known of one partition's replicas beside its samples: the controller's states, faults and limits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from kafka_files.states import State

SLACK_NS = 100_000_000  # a state is dated by the controller's wall clock, in milliseconds
UNFENCED_NS = 2_000_000_000  # a follower that was fenced and lives may still move the high watermark so long
SETTLE_NS = 3_000_000_000  # three times the wait of a parked fetch and the follower's next one
FOREVER_NS = 2**63 - 1


class Span(NamedTuple):
    """A phase, from its first event to its last, or a part of it."""

    phase: str
    from_ns: int
    to_ns: int


class Fault(NamedTuple):
    """A broker that was killed, stopped or paused: asked for, proven, and cleared, or started again before that.

    ``ended``: its process ended, as the next one's start shows.
    """

    broker_id: int
    asked_ns: int
    from_ns: int
    until_ns: int
    ended: bool = False


class Outage(NamedTuple):
    """When a broker (None: a controller) may have been out of others' reach: from when a fault was asked for on."""

    broker_id: int | None
    from_ns: int
    until_ns: int


class NewLog(NamedTuple):
    """When a broker (None: any) may have got another log for a replica of a topic (None: any): a step moved it, or
    damaged its files.
    """

    broker_id: int | None
    t_ns: int
    topic: str | None = None


class LostCopy(NamedTuple):
    """A fault took records off the disk of the only live member of the ISR: those from an offset on.

    ``unknown`` says, where the fault could not ask for the other members, that nothing tells whether there were any.
    """

    t_ns: int
    from_offset: int = 0
    unknown: str | None = None


class Stretch(NamedTuple):
    """A state of the controller's history, with the time in which it certainly held."""

    state: State
    from_ns: int
    until_ns: int


class ShortIsr(NamedTuple):
    """A stretch in which a leader's ISR was below min.insync.replicas, as it has known for long enough since
    ``known_ns``.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    known_ns: int
    until_ns: int


@dataclass(frozen=True)
class Facts:
    """What is known of one partition beside its samples.

    ``starts`` maps a leader epoch to the offset where it begins; ``max_isr_lag_ns`` is the longest that a member of
    the ISR may lag, and ``stale_controller_ns`` how much longer it may while brokers are out of reach
    (``lag_limit_ns``); ``isr_change_limit_ns`` is how long an ISR change may take with all in reach;
    ``effective_min_isr`` is min(min.insync.replicas, replicas), the largest that was active, and ``lowest_min_isr``
    the smallest, where a step changed it; a state with fewer replicas needs no more than those (``at_most_all``). Below
    it HW stands still in all versions of the run (``strict_min_isr``), in none of them (``lax_min_isr``), or in some.
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
        """The ISR below which nothing may be committed, whatever min.insync.replicas was at the moment."""
        return self.effective_min_isr if self.lowest_min_isr is None else self.lowest_min_isr

    @cached_property
    def dated(self) -> list[State]:
        """The states in order, if each has a time; a history with gaps does not say what held when."""
        return [] if any(state.t_ns is None for state in self.states) else list(self.states)

    @cached_property
    def leaders(self) -> dict[int, int]:
        """Who led which epoch."""
        return {state.leader_epoch: state.leader for state in self.states if state.leader >= 0}

    @cached_property
    def stretches(self) -> list[Stretch]:
        """Every dated state with the time in which it certainly held."""
        ends = [(state.t_ns or 0) - SLACK_NS for state in self.dated[1:]] + [FOREVER_NS]
        return [Stretch(s, (s.t_ns or 0) + SLACK_NS, until) for s, until in zip(self.dated, ends, strict=False)]

    def lag_limit_ns(self, others: Collection[int], from_ns: int, until_ns: int) -> int:
        """The longest that a member of the ISR may lag in a time in which one of these brokers may be out of reach.

        A leader that takes such a broker for ZooKeeper's controller waits for it before it asks the one that is.
        """
        hangs = any(o.broker_id in others and o.from_ns <= until_ns and o.until_ns >= from_ns for o in self.outages)
        return self.max_isr_lag_ns + (self.stale_controller_ns if hangs else 0)

    def disturbed(self, leader: int, from_ns: int, until_ns: int) -> bool:
        """Whether the leader or a controller may have been out of reach for a time: nobody need have been evicted."""
        return any(o.from_ns <= until_ns and o.until_ns >= from_ns for o in self._outages_of(leader))

    def undisturbed(self, leader: int, from_ns: int, until_ns: int) -> Iterator[tuple[int, int]]:
        """Return the parts of a time, as (from, until), in which the leader and the controllers were in reach."""
        return outside(((o.from_ns, o.until_ns) for o in self._outages_of(leader)), from_ns, until_ns)

    def _outages_of(self, leader: int) -> list[Outage]:
        return [o for o in self.outages if o.broker_id in {None, leader}]


def outside(spans: Iterable[tuple[int, int]], from_ns: int, until_ns: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of a time, as (from, until), that lie in none of the spans."""
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
    """min.insync.replicas as it is active in a state: all replicas are enough, and ``reassign`` changes how many."""
    return min(effective_min_isr, len(state.replicas) or effective_min_isr)


def is_short(facts: Facts, state: State) -> bool:
    """Return whether a leader's ISR is below min.insync.replicas."""
    return state.leader >= 0 and len(state.isr) < at_most_all(facts.smallest_isr, state)


def short_of_members(facts: Facts) -> Iterator[Stretch]:
    """The stretches in which a leader's ISR was below min.insync.replicas, it and the controllers being in reach."""
    for stretch in facts.stretches:
        state, since_ns, until_ns = stretch
        if is_short(facts, state) and not facts.disturbed(state.leader, since_ns, until_ns):
            yield stretch
