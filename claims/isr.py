"""Claims about the ISR: its members, who leaves it, and the HW afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from claims.answer import Answer, Evidence, refuted, shown, unseen
from claims.moments import Moment, Shrink, at_rest, shrinks_at_rest
from claims.recording import SECOND_NS, Recording
from history.events import Event
from history.words import counted

KAFKAS_LAG_MS = 30_000
SLACK_S = 1.0  # a paused broker's last answer and the log line may be late
RETURN_NS = 30 * SECOND_NS  # for a restarted broker to fetch a few records


def outsiders_do_not_count(recording: Recording) -> Answer:
    """Answer C5."""
    for moment in at_rest(recording):
        behind = [sample for sample in moment.outside if sample.leo < moment.leader.hw]
        if behind:
            return shown(
                f"At rest a replica out of the ISR was at {behind[0].leo}, and the HW beyond it at {moment.leader.hw}.",
                [
                    recording.saw(moment.where, moment.leader, ", leads"),
                    recording.saw(moment.where, behind[0], ", out of the ISR"),
                    recording.decided(moment.state),
                ],
            )
    return unseen("All replicas were in the ISR or at the HW.")


def hw_is_looked_at_again(recording: Recording) -> Answer:
    """Answer C12."""
    shrinks = [shrink for shrink in shrinks_at_rest(recording) if _enough(recording, shrink)]
    if stuck := [shrink for shrink in shrinks if shrink.after.hw < shrink.least]:
        return refuted(
            f"Not when a replica left the ISR: the HW stayed at {stuck[0].after.hw}, and all that were left had "
            f"{stuck[0].least}.",
            _before_and_after(recording, stuck[0]),
        )
    alone = [m for m in at_rest(recording) if _alone(m) and m.leader.hw == m.leader.leo]
    fetched = [
        (where, before, after)
        for where in recording.states
        for before, after in pairwise(recording.lead(where))
        if (before.broker, before.leo) == (after.broker, after.leo)
        and before.hw < after.hw
        and recording.state_at(where, before.sent_ns) is recording.state_at(where, after.received_ns)
    ]
    if not (shrinks and alone and fetched):
        return unseen("Not each of an append alone, a shrink at rest and a fetch alone was recorded.")
    where, before, after = fetched[0]
    return shown(
        f"It moved with {counted(len(shrinks), 'shrink')} of the ISR at rest, with {counted(len(alone), 'append')} of "
        f"a leader alone in it, and {counted(len(fetched), 'time')} with nothing but a follower's fetch.",
        [
            *_before_and_after(recording, shrinks[0]),
            recording.saw(alone[0].where, alone[0].leader, ", appended alone"),
            recording.saw(where, before, ", before a fetch"),
            recording.saw(where, after, ", after it"),
        ],
    )


def _enough(recording: Recording, shrink: Shrink) -> bool:
    return len(shrink.state.isr) >= recording.effective_min_isr.get(shrink.where.topic, 1)


def _alone(moment: Moment) -> bool:
    return moment.appended and moment.state.isr == (moment.state.leader,) and len(moment.state.replicas) > 1


def _before_and_after(recording: Recording, shrink: Shrink) -> list[Evidence]:
    return [
        recording.saw(shrink.where, shrink.before, ", before the shrink"),
        recording.decided(shrink.state),
        recording.saw(shrink.where, shrink.after, ", after it"),
    ]


def joins_when_it_reached_the_hw(recording: Recording) -> Answer:
    """Answer C15."""
    joins = []
    for where, history in recording.states.items():
        for before, after in pairwise(history):
            for joined in set(after.isr) - set(before.isr):
                later = next((s for s in recording.of(where, joined) if s.sent_ns > (after.t_ns or 0)), None)
                lead = [
                    s
                    for s in recording.lead(where)
                    if s.received_ns < (after.t_ns or 0) and s.epoch <= after.leader_epoch
                ]
                if later and lead:
                    joins.append((where, after, lead[-1], later))
    for where, state, leader, later in joins:
        if later.leo < leader.hw:
            return refuted(
                f"A follower at {later.leo} was taken into the ISR with the HW at {leader.hw}.",
                [recording.saw(where, leader), recording.decided(state), recording.saw(where, later)],
            )
    if not joins:
        return unseen("No follower came back into the ISR.")
    where, state, leader, later = joins[0]
    return shown(
        f"All {len(joins)} that joined had reached the HW.",
        [recording.saw(where, leader, ", before"), recording.decided(state), recording.saw(where, later, ", joined")],
    )


def leaves_when_it_does_not_fetch(recording: Recording) -> Answer:
    """Answer C16."""
    lag_ns = int(recording.settings.get("replica.lag.time.max.ms", KAFKAS_LAG_MS)) * 1_000_000
    evicted = []
    for broker, from_ns, until_ns in recording.faults("pause"):
        if until_ns - from_ns < 1.5 * lag_ns:
            continue
        for where in recording.states:
            before, after = recording.state_at(where, from_ns), recording.state_at(where, until_ns)
            if before is None or after is None or broker == before.leader or broker not in before.isr:
                continue
            if broker in after.isr:
                last = [sample for sample in recording.of(where, broker) if sample.received_ns <= from_ns]
                return refuted(
                    f"Broker {broker} fetched nothing for {(until_ns - from_ns) / SECOND_NS:.1f} s and stayed in the "
                    f"ISR of {where}, whose end it had: what counts is to have caught up.",
                    [
                        recording.decided(after),
                        *(recording.saw(where, sample, ", its last answer") for sample in last[-1:]),
                    ],
                )
            evicted.append(after)
    if not evicted:
        return unseen("All followers answered within 1.5 times replica.lag.time.max.ms.")
    return shown("Each follower that was silent for so long left every ISR.", [recording.decided(s) for s in evicted])


def lag_is_10_s(recording: Recording) -> Answer:
    """Answer C17; the leader checks every half lag, so an eviction takes 1 to 1.5 lags."""
    answer = default_is(recording, "replica.lag.time.max.ms", "10000")
    if answer.verdict == "not observable":
        return answer
    lag_s = int(recording.settings.get("replica.lag.time.max.ms", KAFKAS_LAG_MS)) / 1000
    took = [one for one in _evictions(recording) if lag_s - SLACK_S < one[0] < 1.5 * lag_s + SLACK_S]
    if not took:
        return answer
    seconds = [f"{took_s:.1f}" for took_s, _, _ in took]
    sentence = (
        f"{answer.sentence} With {lag_s:g} s here, followers that fell silent were taken out after "
        f"{', '.join(sorted(seconds))} s, at the first look after that time; there is one every half of it."
    )
    _, last, line = took[0]
    return replace(answer, sentence=sentence, evidence=[*answer.evidence, last, recording.said(line)])


def _evictions(recording: Recording) -> Iterator[tuple[float, Evidence, Mapping[str, Any]]]:
    lines = [line for line in recording.lines if line["kind"] == "isr_shrinking"]
    for broker, from_ns, until_ns in recording.faults("pause"):
        for where in recording.states:
            own = [line for line in lines if (line["topic"], line["partition"]) == where]
            out = [line for line in own if from_ns < line["t_ns"] < until_ns and broker not in line["isr"]]
            last = [sample for sample in recording.of(where, broker) if sample.received_ns <= from_ns]
            state = recording.state_at(where, from_ns)
            if out and last and state and broker in state.isr:
                took_s = (out[0]["t_ns"] - last[-1].received_ns) / SECOND_NS
                yield took_s, recording.saw(where, last[-1], ", its last answer"), out[0]


def lag_is_30_s(recording: Recording) -> Answer:
    """Answer C31."""
    return default_is(recording, "replica.lag.time.max.ms", "30000")


def default_is(recording: Recording, setting: str, claimed: str) -> Answer:
    """Answer whether a broker's default of a setting is this value."""
    told = default_of(recording, setting)
    if told is None:
        return unseen("The run has no query of a broker's settings.")
    event, value = told
    answer = shown if value == claimed else refuted
    return answer(
        f"A broker names {value} as its default of {setting}.", [recording.happened(event, f"{setting}: {value}")]
    )


def default_of(recording: Recording, setting: str) -> tuple[Event, str] | None:
    """Return a broker's report of a setting's default, and the value."""
    for event in recording.described():
        said = event.detail["settings"]["broker"].get(setting, {})
        if "default" in said:
            return event, said["default"]
    return None


def hw_is_taken_over_who_is_left(recording: Recording) -> Answer:
    """Answer C18."""
    shrinks = list(shrinks_at_rest(recording))
    enough = [shrink for shrink in shrinks if _enough(recording, shrink)]
    if not enough:
        return unseen("No ISR shrank at rest to one of at least min.insync.replicas.")
    if stuck := [shrink for shrink in enough if shrink.after.hw < shrink.least]:
        since_s = (stuck[0].after.received_ns - (stuck[0].state.t_ns or 0)) / SECOND_NS
        return refuted(
            f"{since_s:.1f} s after the shrink the HW was still {stuck[0].after.hw}, and all remaining members had "
            f"{stuck[0].least}.",
            _before_and_after(recording, stuck[0]),
        )
    stuck = [shrink for shrink in shrinks if shrink not in enough and shrink.after.hw < shrink.least]
    more = " With fewer than min.insync.replicas left it did not advance." if stuck else ""
    return shown(
        f"{counted(len(enough), 'time')} at rest the HW moved to the least LEO that was left.{more}",
        [row for shrink in [*enough[:1], *stuck[:1]] for row in _before_and_after(recording, shrink)],
    )


def leader_is_in_the_isr(recording: Recording) -> Answer:
    """Answer C20."""
    led = [state for history in recording.states.values() for state in history if state.leader >= 0]
    if outside := next((state for state in led if state.leader not in state.isr), None):
        return refuted("A leader was not in the ISR.", [recording.decided(outside)])
    if not led:
        return unseen("The controller's history is missing.")
    return shown(f"In all {len(led)} states with a leader.", [recording.decided(state) for state in led[-3:]])


def joins_after_a_first_sync(recording: Recording) -> Answer:
    """Answer C24."""
    first = [history[0] for history in recording.states.values() if history and history[0].partition_epoch == 0]
    if not first:
        return unseen("No partition's first state was recorded.")
    full = [state for state in first if set(state.isr) == set(state.replicas)]
    if full:
        return refuted(
            f"{len(full)} of {len(first)} partitions had all their replicas in the ISR from their creation on.",
            [recording.decided(s) for s in full],
        )
    return shown("New partitions began with fewer than all replicas in the ISR.", [recording.decided(s) for s in first])


def assigned_are_in_or_out_of_sync(recording: Recording) -> Answer:
    """Answer C30."""
    states = [state for history in recording.states.values() for state in history]
    if stray := next((s for s in states if not set(s.isr) <= set(s.replicas)), None):
        return refuted("The ISR held a replica that was not assigned.", [recording.decided(stray)])
    out = [s for s in states if set(s.isr) < set(s.replicas)]
    if not out:
        return unseen("All replicas were in sync.")
    return shown(
        f"In all {len(states)} states; in {len(out)} of them the rest of the assigned replicas was out of sync, which "
        "is stored nowhere.",
        [recording.decided(s) for s in out],
    )


def stopped_replica_leaves_and_returns(recording: Recording) -> Answer:
    """Answer C38."""
    if other := next(_stayed_or_lost(recording), None):
        return refuted(*other)
    for broker, from_ns, _ in recording.faults("stop"):
        for history in recording.states.values():
            left = [state for state in history if broker not in state.isr]
            back = [state for state in history if left and state.position > left[0].position and broker in state.isr]
            if not (left and back) or (left[0].t_ns or 0) > from_ns + SECOND_NS:  # it leaves before its process ends
                continue
            order = "at its end" if back[0].isr[-1] == broker else f"which is {list(back[0].isr)} then"
            return shown(
                f"Broker {broker} left the ISR with its stop and came back into it, {order}; the order means nothing.",
                [
                    recording.decided(history[history.index(left[0]) - 1]),
                    recording.decided(left[0]),
                    recording.decided(back[0]),
                ],
            )
    return unseen("There were no broker restarts.")


def _stayed_or_lost(recording: Recording) -> Iterator[tuple[str, list[Evidence]]]:
    for broker, from_ns, until_ns in recording.faults("stop"):
        for where, history in recording.states.items():
            before = [state for state in history if (state.t_ns or 0) <= until_ns]
            after = [state for state in history if (state.t_ns or 0) > until_ns]
            if not any(broker in state.isr for state in before):
                continue
            if broker in before[-1].isr and until_ns - from_ns > SECOND_NS:
                why = f"Broker {broker} was stopped and stayed in the ISR of {where}."
                yield why, [recording.decided(before[-1])]
            waited = recording.events[-1].t_ns - until_ns > RETURN_NS
            if waited and not any(broker in state.isr for state in (before[-1], *after)):
                why = f"Broker {broker} was started again and not taken into the ISR of {where}."
                yield why, [recording.decided(history[-1])]


def alone_hw_is_leo(recording: Recording) -> Answer:
    """Answer C48."""
    alone = [moment for moment in at_rest(recording) if _alone(moment)]
    short = [m for m in alone if recording.effective_min_isr.get(m.where.topic, 1) > 1]
    behind = next((m for m in alone if m.leader.hw < m.leader.leo), None)
    if behind:
        return refuted(
            f"Alone in the ISR a leader had LEO {behind.leader.leo} and HW {behind.leader.hw}, with "
            f"min.insync.replicas={recording.effective_min_isr.get(behind.where.topic, 1)}.",
            [recording.saw(behind.where, behind.leader, ", leads"), recording.decided(behind.state)],
        )
    if not short:
        return unseen("No leader appended alone in the ISR of a topic with min.insync.replicas above 1.")
    return shown(
        f"{counted(len(alone), 'time')}, also below min.insync.replicas.",
        [e for m in short[:2] for e in (recording.saw(m.where, m.leader, ", leads"), recording.decided(m.state))],
    )
