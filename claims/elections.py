"""Claims about elections: the next leader, and the replicas' logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from claims.answer import Case, Evidence, decided, logged, saw
from claims.recording import SECOND_NS, Recording, cases, checks
from claims.rest import first, led, lines, rows_of, state_at
from evidence.facts import FOREVER_NS, Row
from evidence.partition import PartitionEvidence
from kafka_files.states import State

Change = tuple[PartitionEvidence, State, State]  # before and after another leader, possibly after none


def leader_changes(recording: Recording) -> Iterator[Change]:
    """Yield every leader change."""
    for of in recording.all:
        states = [state for state in of.dated if state.leader >= 0]
        yield from ((of, before, after) for before, after in pairwise(states) if before.leader != after.leader)


def _failed(recording: Recording) -> list[Change]:
    """Return the changes after which the former leader is out of the ISR."""
    return [change for change in leader_changes(recording) if change[1].leader not in change[2].isr]


def _started(of: PartitionEvidence, kind: str, epoch: int, broker: int | None = None) -> Row | None:
    return next((line for line in lines(of, kind, broker) if line["leader_epoch"] == epoch), None)


def new_leader_has_what_was_visible(recording: Recording) -> Iterator[Case]:
    """Answer C6."""
    changes = list(leader_changes(recording))
    yield from (Case(False, decided(old, new)) for _, old, new in changes if new.leader not in old.isr)
    yield from checks("I8", recording) if changes else ()


class Start(NamedTuple):
    """A follower's start: the lines with its HW and LEO, its truncation, and its leader's start."""

    of: PartitionEvidence
    known: Row
    started: Row
    cut: Row | None
    leads: Row | None

    @property
    def evidence(self) -> list[Evidence]:
        distinct = {id(line): line for line in (self.leads, self.known, self.started, self.cut) if line}
        own, since_ns = rows_of(self.of, self.started["broker_id"]), (self.cut or self.started)["t_ns"]
        row = first(own, self.of.samples.answered.sent_ns[own] > since_ns)
        return [*logged(*distinct.values()), *([] if row is None else [saw(self.of, row, ", afterwards")])]


def _start(of: PartitionEvidence, known: Row, started: Row, until_ns: int) -> Start:
    cuts = (line for line in lines(of, "truncating", started["broker_id"]) if known["t_ns"] <= line["t_ns"] < until_ns)
    cut = next((line for line in cuts if line["log_end_offset"] < started["log_end_offset"]), None)
    return Start(of, known, started, cut, _started(of, "leader_started", started["leader_epoch"]))


def _survivors(recording: Recording) -> Iterator[Start]:
    """Yield followers that outlived their leader."""
    for of, before, after in _failed(recording):
        for broker in set(after.replicas) - {after.leader, before.leader}:
            own = _started(of, "follower_started", after.leader_epoch, broker)
            boots = [line["t_ns"] for line in lines(of, "log_loaded", broker)]
            # One that restarted is another claim.
            if own and not any((before.t_ns or 0) < t_ns <= own["t_ns"] for t_ns in boots):
                starts = lines(of, "follower_started", broker)
                later = (line["t_ns"] for line in starts if line["leader_epoch"] > after.leader_epoch)
                yield _start(of, own, own, min(later, default=FOREVER_NS))


def _boots(recording: Recording) -> Iterator[Start]:
    """Yield restarted followers whose log is not empty."""
    for of in recording.all:
        for loaded in lines(of, "log_loaded"):
            broker = loaded["broker_id"]
            starts = [*lines(of, "follower_started", broker), *lines(of, "leader_started", broker)]
            starts = [line for line in starts if line["t_ns"] >= loaded["t_ns"]]
            started = min(starts, key=lambda line: int(line["t_ns"]), default=None)
            if started and started["kind"] == "follower_started" and started["log_end_offset"]:
                yield _start(of, loaded, started, FOREVER_NS)


def _cut_to_hw(starts: Iterable[Start]) -> Iterator[Case]:
    """Yield whether replicas cut all records above their HW, if their leader's log has more."""
    above = [start for start in starts if start.started["log_end_offset"] > start.known["high_watermark"]]
    for start in sorted(above, key=lambda start: start.cut is None):  # a cut is the stronger evidence
        hw = start.known["high_watermark"]
        if start.cut is None or start.cut["log_end_offset"] > hw:
            yield Case(False, start.evidence)
        elif start.leads and start.leads["log_end_offset"] > hw:
            yield Case(True, start.evidence)


def followers_first_cut_to_their_hw(recording: Recording) -> Iterator[Case]:
    """Answer C26."""
    return _cut_to_hw(_survivors(recording))


def returning_replica_cuts_to_hw_on_disk(recording: Recording) -> Iterator[Case]:
    """Answer C39."""
    return _cut_to_hw(_boots(recording))


def cutting_above_hw_is_safe(recording: Recording) -> Iterator[Case]:
    """Answer C40."""
    for start in (*_survivors(recording), *_boots(recording)):
        seen, own = start.of.samples.answered, rows_of(start.of, start.known["broker_id"])
        earlier = int(np.searchsorted(seen.received_ns, start.known["t_ns"]))
        own = own[own < earlier]
        if own.size:
            # It has no records of an epoch that it did not follow.
            followed = np.flatnonzero(seen.epoch[:earlier] <= seen.epoch[own[-1]])
            row = int(followed[np.argmax(seen.hw[followed])])
            committed = min(int(seen.hw[row]), start.started["log_end_offset"])
            yield Case(committed <= start.known["high_watermark"], [saw(start.of, row), *start.evidence])


def replicas_nominate_themselves(recording: Recording) -> Iterator[Case]:
    """Answer C34."""
    for of, before, after in _failed(recording):
        elected = _started(of, "leader_started", after.leader_epoch)
        for member in set(after.isr) & set(before.isr) - {after.leader} if elected else ():
            # The first line's LEO precedes the first fetch.
            other = _started(of, "follower_started", after.leader_epoch, member)
            if elected is None or other is None or other["log_end_offset"] == elected["log_end_offset"]:
                continue
            less = other["log_end_offset"] < elected["log_end_offset"]
            if not less or after.replicas.index(member) < after.replicas.index(after.leader):
                yield Case(less, [*logged(elected, other), *decided(before, after)])


def elections_only_when_leaders_fail(recording: Recording) -> Iterator[Case]:
    """Answer C36."""
    for of, before, after in leader_changes(recording):
        seen, old, at_ns = of.samples.answered, rows_of(of, before.leader), after.t_ns or 0
        earlier = first(old, (at_ns - SECOND_NS < seen.received_ns[old]) & (seen.received_ns[old] <= at_ns))
        later = first(old, (at_ns < seen.sent_ns[old]) & (seen.sent_ns[old] < at_ns + SECOND_NS))
        answered = [saw(of, row) for row in (earlier, later) if row is not None]
        yield Case(len(answered) < 2 or before.leader not in after.isr, [*answered, *decided(before, after)])


def preferred_election_restores_the_first(recording: Recording) -> Iterator[Case]:
    """Answer C37."""
    elected = [event for event in recording.run.events if event.kind == "elected" and not event.detail["refused"]]
    for event in (event for event in elected if event.detail.get("who") == "preferred"):
        for of in recording.all:
            before = state_at(of, event.t_ns - 2 * SECOND_NS)
            after = state_at(of, event.t_ns + SECOND_NS)
            if before and after and before.leader != before.replicas[0]:
                yield Case(after.leader == after.replicas[0], decided(before, after))


def nothing_read_vanishes(recording: Recording) -> Iterator[Case]:
    """Answer C46."""
    yield from cases(["nonrepeatable_read"], recording)
    changes = list(leader_changes(recording))
    evidence = [row for change in changes for row in (*decided(*change[1:]), *_dip(change))]
    for case in checks("I16", recording):
        if changes or not case.holds:
            yield case._replace(evidence=[*case.evidence, *evidence])


def _dip(change: Change) -> list[Evidence]:
    """Return a new leader's smaller HW (KIP-207)."""
    of, _, after = change
    seen, rows = of.samples.answered, led(of)
    old, new = rows[seen.epoch[rows] < after.leader_epoch], rows[seen.epoch[rows] == after.leader_epoch]
    fell = old.size and new.size and seen.hw[new[0]] < seen.hw[old[-1]]
    return [saw(of, int(old[-1])), saw(of, int(new[0]), ", the next leader")] if fell else []
