"""Check leaders' and followers' HW and LEO by the controller's history.

A is before B if A.received_ns <= B.sent_ns. A state is trusted ``SLACK_NS`` inside its time, since its date is wall
clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise

import numpy as np

from evidence.columns import NULL, Bools, Ints, groups, joined
from evidence.facts import SETTLE_NS, PartitionFacts, Stretch, at_most_all, is_short, outside
from evidence.partition import PartitionEvidence
from evidence.samples import Samples
from evidence.views import known_since
from judge.checks.findings import Check, Checks, columns_of, gathered
from judge.checks.isr_changes import waiting
from kafka_files.states import State


def tops(values: Ints) -> Ints:
    """Return where each place's largest value so far came first."""
    highest = np.maximum.accumulate(values)
    place = np.arange(values.size)
    place[1:][highest[1:] == highest[:-1]] = 0
    return np.maximum.accumulate(place)


@gathered
def i4_follower_falls_once(evidence: PartitionEvidence) -> Iterator[Check]:
    """I4 (C11, C46), clean topics. Sound: a follower takes its HW from the leader's responses, and a leader's HW
    never falls within an epoch (I3). So only the epoch's first response may lower the follower's HW. No clean
    truncation lowers it (I6).
    """
    samples = evidence.samples.with_epoch
    for (broker_id, incarnation, leader_epoch), rows in groups(samples.broker, samples.incarnation, samples.epoch):
        own = samples.take(rows[_one_after_another(samples.sent_ns[rows], samples.received_ns[rows])])
        if len(own) < 2:
            continue
        fallen = np.flatnonzero(own.hw[1:] < own.hw[:-1]) + 1
        violated = fallen.size > 1
        shown = {
            "broker_id": broker_id,
            "incarnation": None if incarnation == NULL else incarnation,
            "leader_epoch": leader_epoch,
            "fell_to": own.hw[fallen].tolist(),
            "at_ns": own.received_ns[fallen].tolist(),
        }
        yield Check(int(own.received_ns[fallen[1]]) if violated else None, violated, shown)


def _one_after_another(sent_ns: Ints, received_ns: Ints) -> Ints:
    """Return the rows without overlapping samples."""
    if bool(np.all(received_ns[:-1] <= sent_ns[1:])):
        return np.arange(sent_ns.size)
    kept, answered_ns = [], NULL
    for row, (asked_ns, next_ns) in enumerate(zip(sent_ns.tolist(), received_ns.tolist(), strict=True)):
        if answered_ns <= asked_ns:
            kept.append(row)
            answered_ns = next_ns
    return np.array(kept, dtype=np.int64)


def i7_isr_covers_hw(evidence: PartitionEvidence) -> Checks:
    """I7 (C1, C4, C6, C10), clean topics, partitions that had a second replica. Sound across epochs: HW waits for every
    member, and joining requires LEO >= HW. The ISR is the controller's.
    """
    samples = evidence.samples.with_epoch
    shown = samples.take(samples.of_leaders(evidence.leaders.items())).answered
    state, held = _states_at(samples.sent_ns, evidence.stretches)
    answered = np.searchsorted(shown.received_ns, samples.sent_ns, side="right") - 1
    asked = np.flatnonzero(held & (answered >= 0) & ~samples.carried)
    top = tops(shown.hw)[answered[asked]]
    member = _members(samples.broker[asked], state[asked], evidence.stretches) & (
        shown.broker[top] != samples.broker[asked]
    )
    asked, top = asked[member], top[member]
    violated = np.flatnonzero(samples.leo[asked] < shown.hw[top])
    behind, ahead = asked[violated], top[violated]
    states = [stretch.state for stretch in evidence.stretches]
    evidence_of = columns_of(
        (behind, {"broker_id": samples.broker, "log_end_offset": samples.leo, "leo_ns": samples.received_ns}),
        (state[behind], {"isr": [sorted(each.isr) for each in states]}),
        (state[behind], {"partition_epoch": [each.partition_epoch for each in states]}),
        (ahead, {"leader": shown.broker, "leader_epoch": shown.epoch}),
        (ahead, {"leader_hw": shown.hw, "leader_hw_ns": shown.received_ns}),
    )
    return Checks(asked.size, samples.received_ns[behind], evidence_of)


def _states_at(t_ns: Ints, stretches: Sequence[Stretch]) -> tuple[Ints, Bools]:
    """Return the last state begun at each time (-1: none), and whether it certainly held."""
    begins = np.array([stretch.from_ns for stretch in stretches], dtype=np.int64)
    ends = np.array([*(stretch.until_ns for stretch in stretches), NULL], dtype=np.int64)
    state = np.searchsorted(begins, t_ns, side="right") - 1
    return state, (state >= 0) & (t_ns <= ends[state])


def _members(brokers: Ints, states: Ints, stretches: Sequence[Stretch]) -> Bools:
    found = np.zeros(brokers.size, dtype=np.bool_)
    for broker in np.unique(brokers).tolist():
        within = np.array([broker in stretch.state.isr for stretch in stretches], dtype=np.bool_)
        own = brokers == broker
        found[own] = within[states[own]]
    return found


def i9_follower_below_leader(evidence: PartitionEvidence) -> Checks:
    """I9 (C11, C21, C47), clean topics, partitions that had a second replica. Sound: no HW of an earlier epoch is above
    the start of epoch E (I8). So a follower's HW above this start came from E's leader, and a later sample of that
    leader shows at least this HW.
    """
    samples = evidence.samples.with_epoch
    leads = samples.of_leaders(evidence.leaders.items())
    checked, violated, tops_of, starts_of = 0, [], [], []
    for (epoch,), rows in groups(samples.epoch):
        start = evidence.starts.get(epoch)
        if epoch not in evidence.leaders or start is None:
            continue
        asked = rows[leads[rows] & ~samples.carried[rows]]
        shown = rows[~leads[rows] & (samples.hw[rows] > start)]
        shown = shown[np.argsort(samples.received_ns[shown], kind="stable")]
        answered = np.searchsorted(samples.received_ns[shown], samples.sent_ns[asked], side="right") - 1
        asked, answered = asked[answered >= 0], answered[answered >= 0]
        top = shown[tops(samples.hw[shown])[answered]]
        ahead = samples.hw[top] > samples.hw[asked]
        checked += asked.size
        violated.append(asked[ahead])
        tops_of.append(top[ahead])
        starts_of += [start] * int(ahead.sum())
    of_leader = joined(violated)
    of_follower = joined(tops_of)
    evidence_of = columns_of(
        (of_leader, {"leader": samples.broker, "leader_epoch": samples.epoch}),
        (of_leader, {"leader_hw": samples.hw, "leader_hw_ns": samples.received_ns}),
        (of_follower, {"follower": samples.broker, "follower_hw": samples.hw, "follower_hw_ns": samples.received_ns}),
        (np.arange(of_leader.size), {"epoch_start": starts_of}),
    )
    return Checks(checked, samples.received_ns[of_leader], evidence_of)


@gathered
def i11_frozen_below_min_isr(evidence: PartitionEvidence) -> Iterable[Check]:
    """I11 (C4, C18, C48), from 3.7.0 (KAFKA-15583, KIP-966), min.insync.replicas > 1. Checked from two seconds after
    the leader's own metadata showed this ISR: until then a fenced but live follower may move HW. Not checked while the
    controller has not answered the leader's proposal of a smaller ISR, and for two seconds afterwards: until then the
    leader's maximal ISR includes the leaving replicas (KIP-497; I38 checks that an answer comes). Up to 3.6 such a
    move is a ``behaviour_change``.
    """
    return _below_min_isr(evidence) if evidence.strict_min_isr else ()


@gathered
def hw_below_min_isr(evidence: PartitionEvidence) -> Iterable[Check]:
    """Up to Kafka 3.6, by design: HW moves while the ISR is below min.insync.replicas (from 3.7 I11 forbids it)."""
    return _below_min_isr(evidence) if evidence.lax_min_isr else ()


def _below_min_isr(evidence: PartitionEvidence) -> Iterator[Check]:
    samples = evidence.samples.with_epoch
    for state, part in _short_parts(evidence):
        shown = _within(samples.of_epoch(state.leader, state.leader_epoch), *part)
        if len(shown) > 1:
            low, high = int(np.argmin(shown.hw)), int(np.argmax(shown.hw))
            moved = bool(shown.hw[high] > shown.hw[low])
            yield Check(
                int(shown.received_ns[high]),
                moved,
                {
                    "leader": state.leader,
                    "leader_epoch": state.leader_epoch,
                    "isr": sorted(state.isr),
                    "effective_min_isr": at_most_all(evidence.smallest_isr, state),
                    "from_hw": int(shown.hw[low]),
                    "to_hw": int(shown.hw[high]),
                },
            )


def _short_parts(evidence: PartitionEvidence) -> Iterator[tuple[State, tuple[int, int]]]:
    """Yield when a leader knew that its ISR was too small, and waited for no answer."""
    waits = waiting(evidence)
    short = [each for each in evidence.stretches if is_short(evidence, each.state)]
    for state, known_ns, until_ns in known_since(evidence.views, evidence.names, short):
        for part in outside(waits.get(state.leader, ()), known_ns, until_ns):
            yield state, part


def i11_moments(evidence: PartitionEvidence) -> Iterator[int]:
    """Yield the bounds of times with an ISR below min.insync.replicas."""
    yield from (moment for _, part in _short_parts(evidence) for moment in part)


def _within(samples: Samples, from_ns: int, until_ns: int) -> Samples:
    begin = np.searchsorted(samples.sent_ns, from_ns)
    end = np.searchsorted(samples.sent_ns, until_ns, side="right")  # an answer follows its request
    asked = samples.take(slice(begin, end))
    return asked.take(asked.received_ns <= until_ns)


@gathered
def i22_hw_reaches_epoch_start(evidence: PartitionEvidence) -> Iterator[Check]:
    """I22 (C12), clean topics, timed. Once every member has fetched. Violated if one state of the history outlasted an
    eviction and the settling time, with leader and controllers within reach; from 3.7 with an ISR of
    min.insync.replicas.
    """
    samples = evidence.samples.with_epoch
    first = min(evidence.leaders, default=0)
    of_epoch: dict[int, list[Stretch]] = {}
    for stretch in evidence.stretches:
        of_epoch.setdefault(stretch.state.leader_epoch, []).append(stretch)
    for epoch, leader in evidence.leaders.items():
        start, shown = evidence.starts.get(epoch), samples.of_epoch(leader, epoch)
        if start is None or epoch == first or not len(shown):
            continue
        highest = int(shown.hw.max())
        late_ns = None if highest >= start else _late(shown, of_epoch.get(epoch, []), evidence)
        if highest >= start or late_ns is not None:
            shown_start = {"leader": leader, "leader_epoch": epoch, "epoch_start": start, "high_watermark": highest}
            yield Check(late_ns, highest < start, shown_start)


def _late(shown: Samples, stretches: Sequence[Stretch], facts: PartitionFacts) -> int | None:
    for stretch in stretches:
        for part in _due(stretch, facts):
            late = _within(shown, *part)
            if len(late):
                return int(late.received_ns[0])
    return None


def _due(stretch: Stretch, facts: PartitionFacts) -> Iterator[tuple[int, int]]:
    """Yield when a leader's high watermark must have reached its epoch's start."""
    state, since_ns, until_ns = stretch
    if len(state.isr) >= at_most_all(0 if facts.lax_min_isr else facts.effective_min_isr, state):
        needed_ns = facts.lag_limit_ns(state.isr, since_ns, until_ns) + SETTLE_NS + 1
        for from_ns, to_ns in facts.undisturbed(state.leader, since_ns, until_ns - 1):
            yield from_ns + needed_ns, to_ns


def i22_moments(evidence: PartitionEvidence) -> Iterator[int]:
    """Yield the bounds of times in which I22 can be violated."""
    yield from (moment for stretch in evidence.stretches for part in _due(stretch, evidence) for moment in part)


@gathered
def i23_evicted_in_time(evidence: PartitionEvidence) -> Iterator[Check]:
    """I23 (C16, C17, C38), timed. With traffic, within 1.5 x replica.lag.time.max.ms (or the follower's session, if
    shorter) and a settling time. Violated only if the leader remained, answered, and had three log end offsets within
    the first second (a follower with its LEO is never evicted for lag), and a controller acted within its reach.
    """
    samples = evidence.samples.with_epoch
    limit_ns = evidence.max_isr_lag_ns + SETTLE_NS
    decided_ns = np.array([state.t_ns for state in evidence.dated], dtype=np.int64)
    leaders = np.array([state.leader for state in evidence.dated], dtype=np.int64)

    @cache
    def member(broker_id: int) -> Bools:
        return np.array([broker_id in state.isr for state in evidence.dated], dtype=np.bool_)

    for stop in evidence.stops:
        begun = np.flatnonzero(decided_ns <= stop.ordered_ns)
        before = evidence.dated[begun[-1]] if begun.size else None
        if before is None or stop.broker_id not in before.isr or stop.broker_id == before.leader:
            continue
        later = decided_ns > stop.ordered_ns
        left = np.flatnonzero(later & ~member(stop.broker_id))
        taken_ns = int(decided_ns[left[0]]) - stop.from_ns if left.size else None
        in_time = taken_ns is not None and taken_ns <= limit_ns
        until_ns = stop.from_ns + limit_ns
        same = bool(np.all(leaders[later & (decided_ns <= until_ns)] == before.leader))
        observed = stop.until_ns >= until_ns and not evidence.disturbed(before.leader, stop.ordered_ns, until_ns)
        of_leader = samples.of_epoch(before.leader, before.leader_epoch)
        if in_time or (same and observed and _had_to_go(of_leader, stop.from_ns, until_ns)):
            yield Check(
                stop.from_ns,
                not in_time,
                {
                    "broker_id": stop.broker_id,
                    "isr": sorted(before.isr),
                    "stopped_ns": stop.from_ns,
                    "taken_ms": None if taken_ns is None else taken_ns // 1_000_000,
                    "limit_ms": limit_ns // 1_000_000,
                },
            )


def i23_moments(evidence: PartitionEvidence) -> Iterator[int]:
    """Yield when a follower stopped, and when it must have left the ISR."""
    for stop in evidence.stops:
        yield from (stop.from_ns, stop.from_ns + evidence.max_isr_lag_ns + SETTLE_NS)


def _had_to_go(of_leader: Samples, from_ns: int, until_ns: int) -> bool:
    led = _within(of_leader, from_ns, until_ns)
    early = np.unique(led.leo[led.sent_ns <= from_ns + 1_000_000_000])
    return early.size >= 3 and int(led.received_ns[-1]) >= until_ns - 1_000_000_000


@gathered
def i24_caught_up_at_join(evidence: PartitionEvidence) -> Iterator[Check]:
    """I24 (C15, C24, C38), clean topics (KAFKA-7128). Its LEO has also reached the start of the leader epoch in which
    the leader requested the join. Checked on the replica's first sample after the join, in the same controller state: a
    member does not truncate.
    """
    samples = evidence.samples.with_epoch
    for (before, _, _), (after, since_ns, until_ns) in pairwise(evidence.stretches):
        joined = set(after.isr) - set(before.isr)
        if after.leader < 0 or before.leader != after.leader:
            continue
        floor = evidence.starts.get(before.leader_epoch, 0)
        if joined:
            shown = samples.of_epoch(before.leader, before.leader_epoch).answered
            earlier = int(np.searchsorted(shown.received_ns, after.t_ns or 0, side="right"))
            floor = max(floor, int(shown.highest[earlier - 1])) if earlier else floor
        for broker_id in sorted(joined):
            own = samples.of_broker(broker_id)
            row = int(np.searchsorted(own.sent_ns, since_ns))
            if row < len(own) and own.received_ns[row] <= until_ns:
                yield Check(
                    int(own.received_ns[row]),
                    bool(own.leo[row] < floor),
                    {
                        "broker_id": broker_id,
                        "log_end_offset": int(own.leo[row]),
                        "floor": floor,
                        "leader": after.leader,
                        "leader_epoch": after.leader_epoch,
                        "partition_epoch": after.partition_epoch,
                    },
                )


def i24_moments(evidence: PartitionEvidence) -> Iterator[int]:
    """Yield when the controller's states were decided, and when they certainly held."""
    for state, since_ns, _ in evidence.stretches:
        yield from (state.t_ns or 0, since_ns)
