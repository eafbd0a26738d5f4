"""Intervals of a recording in which only the observed quantity changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from claims.recording import Recording, Sample
from history.partition import TopicPartition
from kafka_files.states import State

SILENCE_NS = 150_000_000  # a paused replica's last answer is at most three probes old
REST_NS = 700_000_000  # longer than replica.fetch.wait.max.ms (500)


class Moment(NamedTuple):
    """An interval in which a leader's HW and LEO and its partition's state did not change.

    ``live`` has the last samples of replicas that answered, ``known`` also those of silent replicas whose last answer
    shows their position. ``heard``: replicas that answered long enough to have fetched. ``appended``: the leader had
    appended.
    """

    where: TopicPartition
    state: State
    from_ns: int
    leader: Sample
    known: dict[int, Sample]
    live: dict[int, Sample]
    heard: frozenset[int]
    appended: bool

    @property
    def to_ns(self) -> int:
        return self.leader.received_ns

    @property
    def whole(self) -> bool:
        """Return whether every ISR member's position is known, also to the leader.

        A member that fell silent before its next fetch has records that its leader does not know.
        """
        isr = set(self.state.isr)
        return isr <= self.known.keys() and (isr <= self.heard or self.leader.hw >= self.least)

    @property
    def least(self) -> int:
        return min(self.known[member].leo for member in self.state.isr)

    @property
    def outside(self) -> list[Sample]:
        return [self.known[r] for r in self.state.replicas if r not in self.state.isr and r in self.known]

    @property
    def followers(self) -> list[Sample]:
        return [sample for broker, sample in self.live.items() if broker != self.state.leader]


def at_rest(recording: Recording, least_ns: int = REST_NS) -> Iterator[Moment]:
    """Yield all moments of at least ``least_ns``, by partition."""
    for where in recording.states:
        yield from _of_partition(recording, where, least_ns)


def _of_partition(recording: Recording, where: TopicPartition, least_ns: int) -> Iterator[Moment]:
    groups: list[tuple[State, list[Sample]]] = []
    for sample in recording.lead(where):
        state = recording.state_at(where, sample.sent_ns)
        if state is None or state.leader != sample.broker:
            continue
        last = groups[-1][1][-1] if groups and groups[-1][0] is state else None
        if last and (last.hw, last.leo) == (sample.hw, sample.leo):
            groups[-1][1].append(sample)
        else:
            groups.append((state, [sample]))
    begun: dict[int, int] = {}  # partition epoch → LEO when that state began
    for state, samples in groups:
        first = begun.setdefault(state.partition_epoch, samples[0].leo)
        if samples[-1].received_ns - samples[0].sent_ns >= least_ns:
            yield _moment(recording.samples[where], where, state, samples, appended=samples[0].leo > first)


def _moment(
    replicas: Sequence[Sample], where: TopicPartition, state: State, samples: Sequence[Sample], *, appended: bool
) -> Moment:
    first, last = samples[0], samples[-1]
    known = {sample.broker: sample for sample in replicas if sample.received_ns <= last.received_ns}
    # a follower gets the new HW when a waiting fetch returns
    late_ns = last.received_ns - (last.received_ns - first.sent_ns) // 3
    live = {broker: sample for broker, sample in known.items() if sample.sent_ns >= late_ns}
    late = [sample for sample in replicas if late_ns <= sample.sent_ns <= (late_ns + last.received_ns) // 2]
    of_leader = [sample for sample in replicas if sample.broker == last.broker]
    known = {b: sample for b, sample in known.items() if b in live or _had_all(sample, of_leader)}
    heard = frozenset(live.keys() & {sample.broker for sample in late})
    return Moment(where, state, first.sent_ns, last, known, live, heard, appended)


def _had_all(silent: Sample, of_leader: Sequence[Sample]) -> bool:
    after = (sample for sample in of_leader if sample.sent_ns > silent.received_ns + SILENCE_NS)
    return next((sample.leo == silent.leo for sample in after), False)


class Shrink(NamedTuple):
    """An ISR that shrank without a leader change, with the leader's samples before and after."""

    where: TopicPartition
    state: State
    before: Sample
    after: Sample
    least: int  # of the LEOs in the remaining ISR


def shrinks_at_rest(recording: Recording, least_ns: int = REST_NS) -> Iterator[Shrink]:
    """Yield shrinks that could release records, followed by no appends."""
    for where, history in recording.states.items():
        samples = recording.lead(where)
        for state, after in pairwise(history):
            if not (set(after.isr) < set(state.isr) and after.leader == state.leader >= 0):
                continue
            before = [s for s in samples if s.received_ns <= (after.t_ns or 0)]
            held = [
                s
                for s in samples
                if s.sent_ns > (after.t_ns or 0) and recording.state_at(where, s.received_ns) is after
            ]
            still = [
                s for s in held if before and s.leo == before[-1].leo and s.sent_ns >= (after.t_ns or 0) + least_ns
            ]
            if still and before[-1].hw < before[-1].leo:
                # A returning member's first fetch moves the HW, before it rejoins the ISR.
                last = [s for s in still if s.hw == still[0].hw][-1]
                known = {s.broker: s for s in recording.samples[where] if s.received_ns <= last.received_ns}
                least = min(known[member].leo for member in after.isr if member in known)
                yield Shrink(where, after, before[-1], last, least)


class Change(NamedTuple):
    """A partition got another leader, possibly after having none."""

    where: TopicPartition
    before: State
    after: State


def leader_changes(recording: Recording) -> Iterator[Change]:
    """Yield every leader change in order, by partition."""
    for where, history in recording.states.items():
        led = [state for state in history if state.leader >= 0]
        for before, after in pairwise(led):
            if before.leader != after.leader:
                yield Change(where, before, after)
