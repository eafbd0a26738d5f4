"""Stretches of a recording in which nothing moved but what is looked at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from claims.recording import Recording, Sample
from history.partition import TopicPartition
from kafka_files.states import State

SILENCE_NS = 150_000_000  # a replica that is paused gave its last answer not longer ago than three probes take
REST_NS = 700_000_000  # longer than a parked fetch waits (replica.fetch.wait.max.ms, 500)


class Moment(NamedTuple):
    """Neither HW nor LEO of a leader moved for a while, and its partition's state stayed as it was.

    ``leader`` is its last sample of that while, ``live`` the last ones of replicas that answered during it, and
    ``known`` these and those of silent ones whose last answer tells where they stand. ``heard`` are replicas that
    answered for so long that they have fetched, too. ``appended``: in this state it had appended before.
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
        """Whether it is known where every member of the ISR stands, to the leader, too: one that fell silent between an
        append and its next fetch has records of which the leader has not heard.
        """
        isr = set(self.state.isr)
        return isr <= self.known.keys() and (isr <= self.heard or self.leader.hw >= self.least)

    @property
    def least(self) -> int:
        """The least LEO in the ISR of a whole moment."""
        return min(self.known[member].leo for member in self.state.isr)

    @property
    def outside(self) -> list[Sample]:
        """Replicas out of sync."""
        return [self.known[r] for r in self.state.replicas if r not in self.state.isr and r in self.known]

    @property
    def followers(self) -> list[Sample]:
        """Followers that answered, as of their last answer."""
        return [sample for broker, sample in self.live.items() if broker != self.state.leader]


def at_rest(recording: Recording, least_ns: int = REST_NS) -> Iterator[Moment]:
    """All such stretches of at least ``least_ns``, partition by partition."""
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
    begun: dict[int, int] = {}  # partition epoch → LEO with which the state began
    for state, samples in groups:
        first = begun.setdefault(state.partition_epoch, samples[0].leo)
        if samples[-1].received_ns - samples[0].sent_ns >= least_ns:
            yield _moment(recording.samples[where], where, state, samples, appended=samples[0].leo > first)


def _moment(
    replicas: Sequence[Sample], where: TopicPartition, state: State, samples: Sequence[Sample], *, appended: bool
) -> Moment:
    first, last = samples[0], samples[-1]
    known = {sample.broker: sample for sample in replicas if sample.received_ns <= last.received_ns}
    # Only the last third: a follower may hear of the new HW as late as a parked fetch returns.
    late_ns = last.received_ns - (last.received_ns - first.sent_ns) // 3
    live = {broker: sample for broker, sample in known.items() if sample.sent_ns >= late_ns}
    late = [sample for sample in replicas if late_ns <= sample.sent_ns <= (late_ns + last.received_ns) // 2]
    of_leader = [sample for sample in replicas if sample.broker == last.broker]
    known = {b: sample for b, sample in known.items() if b in live or _had_all(sample, of_leader)}
    heard = frozenset(live.keys() & {sample.broker for sample in late})
    return Moment(where, state, first.sent_ns, last, known, live, heard, appended)


def _had_all(silent: Sample, of_leader: Sequence[Sample]) -> bool:
    """Whether a replica's last answer tells where it stood when it fell silent: there was nothing more to fetch."""
    after = (sample for sample in of_leader if sample.sent_ns > silent.received_ns + SILENCE_NS)
    return next((sample.leo == silent.leo for sample in after), False)


class Shrink(NamedTuple):
    """An ISR that shrank under a leader that stayed: its sample before, and its last one with the HW that followed."""

    where: TopicPartition
    state: State
    before: Sample
    after: Sample
    least: int  # of the LEOs in the ISR that is left


def shrinks_at_rest(recording: Recording, least_ns: int = REST_NS) -> Iterator[Shrink]:
    """Shrinks after which the leader appended nothing for a while, and which had something to let go of."""
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
                # A member that comes back moves the HW with its first fetch, before the ISR has it again.
                last = [s for s in still if s.hw == still[0].hw][-1]
                known = {s.broker: s for s in recording.samples[where] if s.received_ns <= last.received_ns}
                least = min(known[member].leo for member in after.isr if member in known)
                yield Shrink(where, after, before[-1], last, least)


class Change(NamedTuple):
    """A partition got another leader, directly or after none."""

    where: TopicPartition
    before: State  # the last state with a leader
    after: State


def leader_changes(recording: Recording) -> Iterator[Change]:
    """Every change of a leader, in order, partition by partition."""
    for where, history in recording.states.items():
        led = [state for state in history if state.leader >= 0]
        for before, after in pairwise(led):
            if before.leader != after.leader:
                yield Change(where, before, after)
