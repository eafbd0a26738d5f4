"""Claims about the ISR: its members, who leaves it, and the HW afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product

from claims.answer import Case, decided, saw
from claims.cluster import default_is
from claims.recording import SECOND_NS, Recording, checks
from claims.rest import at_rest, last, rows_of, shrinks_at_rest, state_at
from kafka_files.states import State

LAG = "replica.lag.time.max.ms"
RETURN_NS = 30 * SECOND_NS  # for a restarted broker to fetch a few records


def outsiders_do_not_count(recording: Recording) -> Iterator[Case]:
    """Answer C5."""
    for rest in at_rest(recording):
        outside = (rest.known[b] for b in rest.state.replicas if b in rest.known and b not in rest.state.isr)
        if any(rest.seen.leo[row] < rest.hw for row in outside):
            yield Case(True, rest.evidence)


def hw_is_looked_at_again(recording: Recording) -> Iterator[Case]:
    """Answer C12."""
    shrinks = list(shrinks_at_rest(recording))
    yield from (Case(False, shrink.evidence) for shrink in shrinks if not shrink.moved)
    alone = [rest for rest in at_rest(recording) if rest.alone and rest.hw == rest.leo]
    around = pairwise(at_rest(recording, 0))
    fetched = [(old, new) for old, new in around if old.state is new.state and old.leo == new.leo and old.hw < new.hw]
    if shrinks and alone and fetched:
        by_fetch = [*shrinks[0].evidence, *(saw(rest.of, rest.row, ", by a fetch alone") for rest in fetched[0])]
        yield Case(True, [saw(alone[0].of, alone[0].row, ", appended alone"), *by_fetch])


def leaves_when_it_does_not_fetch(recording: Recording) -> Iterator[Case]:
    """Answer C16."""
    lag_ms = int(recording.run.manifest.brokers[0].config.get(LAG, "30000"))
    silent = (fault for fault in recording.faults("pause") if fault.until_ns - fault.from_ns >= 1.5e6 * lag_ms)
    for fault, of in product(silent, recording.all):
        before, after = state_at(of, fault.from_ns), state_at(of, fault.until_ns)
        if before and after and fault.broker_id in before.isr and fault.broker_id != before.leader:
            own = rows_of(of, fault.broker_id)
            row = last(own, of.samples.answered.received_ns[own] <= fault.from_ns)
            answered = [] if row is None else [saw(of, row, ", its last answer")]
            yield Case(fault.broker_id not in after.isr, [*decided(before, after), *answered])


def lag_is_10_s(recording: Recording) -> Iterator[Case]:
    """Answer C17."""
    evicted = [row for case in checks("I23", recording) for row in case.evidence]
    for case in default_is(LAG, "10000", recording):
        yield case._replace(evidence=[*case.evidence, *evicted])


def hw_is_taken_over_who_is_left(recording: Recording) -> Iterator[Case]:
    """Answer C18."""
    return (Case(shrink.moved, shrink.evidence) for shrink in shrinks_at_rest(recording))


def _states(recording: Recording) -> list[State]:
    return [state for of in recording.all for state in of.dated]


def leader_is_in_the_isr(recording: Recording) -> Iterator[Case]:
    """Answer C20."""
    return (Case(s.leader in s.isr, decided(s)) for s in _states(recording) if s.leader >= 0)


def joins_after_a_first_sync(recording: Recording) -> Iterator[Case]:
    """Answer C24."""
    created = (state for state in _states(recording) if state.partition_epoch == 0)
    return (Case(set(state.isr) != set(state.replicas), decided(state)) for state in created)


def assigned_are_in_or_out_of_sync(recording: Recording) -> Iterator[Case]:
    """Answer C30."""
    return (Case(set(s.isr) < set(s.replicas), decided(s)) for s in _states(recording) if set(s.isr) != set(s.replicas))


def stopped_replica_leaves_and_returns(recording: Recording) -> Iterator[Case]:
    """Answer C38."""
    for fault in recording.faults("stop"):
        for of in recording.all:
            before = [state for state in of.dated if (state.t_ns or 0) <= fault.until_ns]
            after = [state for state in of.dated if (state.t_ns or 0) > fault.until_ns]
            if not any(fault.broker_id in state.isr for state in before):
                continue
            left = fault.broker_id not in before[-1].isr
            back = next((state for state in after if fault.broker_id in state.isr), None)
            waited_ns = recording.run.events[-1].t_ns - fault.until_ns if left else fault.until_ns - fault.from_ns
            if left and back:
                yield Case(True, decided(before[-1], back))
            elif waited_ns > (RETURN_NS if left else SECOND_NS):
                yield Case(False, decided(before[-1]))


def alone_hw_is_leo(recording: Recording) -> Iterator[Case]:
    """Answer C48."""
    for rest in (rest for rest in at_rest(recording) if rest.alone):
        if rest.hw < rest.leo or rest.of.effective_min_isr > 1:
            yield Case(rest.hw == rest.leo, rest.evidence)
