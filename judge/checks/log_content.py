"""Check what logs must contain: acknowledged and consumed records, ends of transactions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evidence.columns import ACKS_ALL, FAIL, INFO, NULL, OK, Bools, Ints, Log, Markers, joined, known, positions_in
from evidence.facts import ShortIsr, Transaction, outside
from evidence.partition import PartitionEvidence
from evidence.pieces import PlainRange
from judge.checks.findings import Checks
from judge.checks.isr_changes import waiting


def stands(log: Log, offset: Ints, value: Ints) -> Bools:
    """Return whether a log has each record at its offset."""
    if not len(log):
        return np.zeros(offset.size, dtype=np.bool_)
    rising = bool(np.all(log.offset[1:] > log.offset[:-1]))
    if rising:
        at = np.searchsorted(log.offset, offset)
        at[at == len(log)] = 0
        found: Bools = (log.offset[at] == offset) & (log.value[at] == value)
        return found
    held = set(zip(log.offset.tolist(), log.value.tolist(), strict=True))
    asked = zip(offset.tolist(), value.tolist(), strict=True)
    return np.fromiter((each in held for each in asked), dtype=np.bool_, count=offset.size)


def promised(of: PartitionEvidence) -> Ints:
    """Return acks=all sends at an offset that was not deleted."""
    sends = of.sends
    acked = (sends.outcome == OK) & (sends.acks == ACKS_ALL) & (sends.offset != NULL)
    return np.flatnonzero(acked & (sends.offset >= (of.deleted_before or 0)))


def readable(of: PartitionEvidence) -> Ints:
    """Return the reads that the final log must still contain."""
    return np.flatnonzero((of.polls.value >= 0) & (of.polls.offset >= of.log_start))


def committed(of: PartitionEvidence) -> Ints:
    """Return sends of transactions with a confirmed commit."""
    sends = of.sends
    own = (sends.transaction != NULL) & (sends.outcome == OK)
    return np.flatnonzero(own & ((sends.offset == NULL) | (sends.offset >= (of.deleted_before or 0))))


def is_promised(of: PartitionEvidence) -> bool:
    """Return whether a record was acknowledged with acks=all and not deleted."""
    return promised(of).size > 0 or any(_promised(each, of) for each in of.plain)


def is_readable(of: PartitionEvidence) -> bool:
    """Return whether the final log must still contain a record that was read."""
    return readable(of).size > 0 or any(_readable(each, of) for each in of.plain)


def _promised(plain: PlainRange, of: PartitionEvidence) -> int:
    return plain.acks_all if plain.first >= (of.deleted_before or 0) else 0


def _readable(plain: PlainRange, of: PartitionEvidence) -> int:
    return plain.reads if plain.first >= of.log_start else 0


def i15_durability(of: PartitionEvidence) -> Checks:
    """I15 (C1, C27). At its offset. Sound with any min.insync.replicas while disks survive: the acknowledgement waited
    for its ISR, and clean elections and joins require the committed prefix. Offsets that retention may have deleted are
    not checked.
    """
    sends, owed = of.sends, promised(of)
    checked, missing, lacking = 0, [], []
    for broker, from_offset in sorted(of.members.items()):
        asked = owed[sends.offset[owed] >= from_offset]
        checked += asked.size + sum(_promised(each, of) for each in of.plain if each.first >= from_offset)
        gone = asked[~stands(of.logs[broker], sends.offset[asked], sends.value[asked])]
        missing.append(gone)
        lacking.append(np.full(gone.size, broker))
    rows = joined(missing)
    brokers = joined(lacking)

    def evidence(place: int) -> Mapping[str, Any]:
        row = int(rows[place])
        offset = {"broker_id": int(brokers[place]), "offset": int(sends.offset[row])}
        return offset | of.names.fields(int(sends.value[row]))

    return Checks(checked, sends.done_ns[rows], evidence)


def i16_no_phantom_read(of: PartitionEvidence) -> Checks:
    """I16 (C2, C13, C46), clean topics. At its offset. Sound: it was below a high watermark, so committed. KAFKA-14704
    (2.8.0 to 3.3.2, and 3.4.0) violates it: a follower served records that it then truncated.
    """
    polls = of.polls
    if of.final is None or of.final not in of.complete:
        return Checks(0, np.empty(0, dtype=np.int64), lambda _: {})
    read = readable(of)
    log = of.logs[of.final]
    wrong = read[~stands(log, polls.offset[read], polls.value[read])]

    def evidence(place: int) -> Mapping[str, Any]:
        row = int(wrong[place])
        there = log.value[log.offset == polls.offset[row]]
        return {
            "consumer_id": of.names.listed[polls.consumer[row]],
            "offset": int(polls.offset[row]),
            "read": of.names.fields(int(polls.value[row])),
            "stands": of.names.fields(int(there[0])) if there.size else None,
            "t_ns": int(polls.received_ns[row]),
        }

    checked = int(read.size) + sum(_readable(each, of) for each in of.plain)
    return Checks(checked, polls.received_ns[wrong], evidence)


def _settled(of: PartitionEvidence) -> Iterator[ShortIsr]:
    """Yield the parts of stretches with a short ISR in which the leader waited for no answer to a proposed ISR."""
    waits = waiting(of)
    for short in of.short:
        for known_ns, until_ns in outside(waits.get(short.leader, ()), short.known_ns, short.until_ns):
            yield short._replace(known_ns=known_ns, until_ns=until_ns)


def i28_enough_replicas(of: PartitionEvidence) -> Checks:
    """I28 (C1, C27). From two seconds after the leader's own metadata showed that ISR. An acknowledged send violates it
    if its batch has that stretch's epoch in the leader's log; otherwise a former leader took it. Not checked while
    leader or controller was out of reach, or a proposed ISR was unanswered: the leader then uses the previous one
    (KIP-497).
    """
    sends = of.sends
    checked, violations, during = 0, [], []
    for short in _settled(of):
        asked = (sends.acks == ACKS_ALL) & (sends.sent_ns >= short.known_ns) & (sends.sent_ns <= short.until_ns)
        acked = asked & (sends.outcome == OK) & (sends.done_ns <= short.until_ns) & (sends.done_ns != NULL)
        taken = np.flatnonzero(acked)
        log = of.logs.get(short.leader)
        if log is None:
            taken = taken[:0]
        else:
            own = log.take(log.leader_epoch == short.leader_epoch)
            taken = taken[stands(own, sends.offset[taken], sends.value[taken])]
        checked += int(asked.sum() - acked.sum()) + taken.size
        violations.append(taken)
        during += [short] * taken.size
    rows = joined(violations)

    def evidence(place: int) -> Mapping[str, Any]:
        row, short = int(rows[place]), during[place]
        return {
            "broker_id": short.leader,
            "leader_epoch": short.leader_epoch,
            "isr": list(short.isr),
            "offset": known(sends.offset[row]),
            **of.names.fields(int(sends.value[row])),
            "sent_ns": known(sends.sent_ns[row]),
            "done_ns": known(sends.done_ns[row]),
        }

    return Checks(checked, sends.done_ns[rows], evidence)


@dataclass
class OpenEnds:
    """How transactions of unknown outcome ended, to compare across partitions."""

    ended: dict[Transaction, Counter[str]] = field(default_factory=dict)
    first: dict[tuple[Transaction, str], tuple[int, Mapping[str, Any]]] = field(default_factory=dict)

    def add(self, of: PartitionEvidence, row: int, ended: str, marker: Mapping[str, Any]) -> None:
        producer, _ = of.names.name(int(of.sends.value[row]))
        transaction, t_ns = (str(producer), int(of.sends.transaction[row])), int(of.sends.done_ns[row])
        self.ended.setdefault(transaction, Counter())[ended] += 1
        if (transaction, ended) not in self.first or t_ns < self.first[transaction, ended][0]:
            self.first[transaction, ended] = t_ns, {**of.where._asdict(), **marker, "ends": ended}

    def merge(self, others: Iterable[OpenEnds]) -> OpenEnds:
        for other in others:
            for transaction, ended in other.ended.items():
                self.ended.setdefault(transaction, Counter()).update(ended)
            for key, end in other.first.items():
                self.first[key] = min(self.first.get(key, end), end, key=lambda each: each[0])
        return self


def i27_markers(of: PartitionEvidence) -> Checks:
    """I27 (C2), transactional producers, clean topics. The next marker of a record's producer id is a commit or an
    abort, as its transaction ended; if that is unknown, the same for all its records. Sound: transactions follow one
    another, and the decision is durable before the first marker. Records without a later marker are not checked. A late
    request of an old transaction would violate it (KAFKA-17754).
    """
    sends = of.sends
    checked, wrong, where = 0, [], []
    for broker, (sent, offset, ends) in _ended(of).items():
        decided = sends.outcome[sent] != INFO
        checked += int(decided.sum())
        bad = np.flatnonzero(decided & (ends != (sends.outcome[sent] == OK)))
        wrong.append(sent[bad])
        where += [(broker, int(offset[at]), bool(ends[at])) for at in bad.tolist()]
    rows = joined(wrong)

    def evidence(place: int) -> Mapping[str, Any]:
        broker, offset, committed = where[place]
        row = int(rows[place])
        owed = "commit" if sends.outcome[row] == OK else "abort"
        return _of_marker(of, row, broker, offset) | {"ends": _word(committed), "owed": owed}

    return Checks(checked, sends.done_ns[rows], evidence)


def open_ends(of: PartitionEvidence) -> OpenEnds:
    """Return how transactions of unknown outcome ended (I27)."""
    found = OpenEnds()
    for broker, (sent, offset, ends) in _ended(of).items():
        unknown = np.flatnonzero(of.sends.outcome[sent] == INFO)
        rows = zip(sent[unknown].tolist(), offset[unknown].tolist(), ends[unknown].tolist(), strict=True)
        for row, at, ended in rows:
            found.add(of, row, _word(ended), _of_marker(of, row, broker, at))
    return found


def _ended(of: PartitionEvidence) -> dict[int, tuple[Ints, Ints, Bools]]:
    """Return each log's transactional sends with a later marker, offsets, and whether it commits."""
    sends = of.sends
    member = np.flatnonzero(sends.transaction != NULL)
    member = member[np.argsort(sends.value[member], kind="stable")]
    found = {}
    for broker, log in sorted(of.logs.items()):
        held, ends = _ends(log, of.markers[broker])
        place = positions_in(sends.value[member], log.value[held])
        found[broker] = member[place[place >= 0]], log.offset[held[place >= 0]], ends[place >= 0]
    return found


def _word(committed: bool) -> str:
    return "commit" if committed else "abort"


def _of_marker(of: PartitionEvidence, row: int, broker: int, offset: int) -> dict[str, Any]:
    outcome = {OK: "ok", FAIL: "fail", INFO: "info"}[int(of.sends.outcome[row])]
    marker = {"broker_id": broker, "held_offset": offset, "transaction": int(of.sends.transaction[row])}
    return marker | of.names.fields(int(of.sends.value[row])) | {"outcome": outcome}


def _ends(log: Log, markers: Markers) -> tuple[Ints, Bools]:
    rows, committed = [], []
    for producer in np.unique(markers.kafka_producer_id).tolist():
        own = markers.kafka_producer_id == producer
        at = np.flatnonzero(log.transactional & (log.kafka_producer_id == producer))
        following = np.searchsorted(markers.offset[own], log.offset[at], side="right")
        ended = following < int(own.sum())
        rows.append(at[ended])
        committed.append(markers.committed[own][following[ended]])
    held = joined(rows)
    return held, joined(committed).astype(np.bool_)
