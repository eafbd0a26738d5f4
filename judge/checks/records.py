"""Cases in which records contradict the guarantees; functions are named after anomalies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from evidence.columns import (
    ACKS,
    ACKS_ALL,
    FAIL,
    FINAL,
    NULL,
    OUTCOMES,
    Bools,
    Ints,
    Names,
    groups,
    joined,
    known,
    positions_in,
    producer_of,
)
from evidence.partition import PartitionEvidence
from judge.checks.account import FATES, LOST, UNDECIDED, Account
from judge.checks.findings import Cases

_DAMAGED = ("bad crc", "malformed")


def record(names: Names, value: int) -> str:
    """Return a record's name in sentences."""
    producer, seq = names.name(int(value))
    return f"Record {producer}/{seq}"


def _acknowledgement(of: PartitionEvidence, send: int) -> dict[str, Any]:
    return {"acks": ACKS[of.sends.acks[send]], "at_ns": known(of.sends.done_ns[send])}


def unread_acknowledged(of: PartitionEvidence, account: Account) -> Iterator[Cases]:
    """Acknowledged, and not returned by the final drain: ``lost_write``, ``truncated_ack``, ``unknown_offset_ack``,
    ``invisible_ack``, ``undrained`` or ``unseen`` ([meanings](verdicts.md#loss)).
    """
    for fate in range(LOST, len(FATES)):
        rows = np.flatnonzero(account.fate == fate)

        def example(place: int, rows: Ints = rows) -> Mapping[str, Any]:
            send = int(rows[place])
            evidence = {
                "acked_ns": known(of.sends.done_ns[send]),
                "acked_offset": known(of.sends.offset[send]),
                "held_offset": known(account.held_at[send]),
                "outcome": OUTCOMES[of.sends.outcome[send]],
            }
            row = {"offset": known(of.sends.offset[send]), "explanation": "", "evidence": evidence}
            return row | _acknowledgement(of, send)

        yield Cases("unseen" if fate == UNDECIDED else FATES[fate], of.sends.value[rows], example)


_EPOCH_RAISED = (
    "its idempotent producer gave records up and went on in a higher producer epoch (KIP-360), in which no broker "
    "knows what it stored in the lower one"
)
_NO_EPOCHS = "the segments, which show the producer epochs of the copies, were not recorded"


def duplicate(of: PartitionEvidence, account: Account, gave_up: Collection[str] = ()) -> Cases:
    """A record that the final drain returned at more than one offset. Permitted to an idempotent producer that gave up
    records, if each copy has another epoch of the same producer id: after giving up, the producer raises the epoch,
    and brokers take records that it sends again for new ones (KIP-360, librdkafka 4953).
    """
    rows = np.flatnonzero(account.copies > 1)

    def example(place: int) -> Mapping[str, Any]:
        send = int(rows[place])
        offsets = account.offsets(send)
        name = record(of.names, of.sends.value[send])
        listed = ", ".join(str(offset) for offset in offsets)
        writers = _writers(of, offsets)
        epochs = [epoch for _, epoch in writers]
        by = f", written in the producer epochs {', '.join(map(str, epochs))}" if len(set(epochs)) > 1 else ""
        evidence = {"offsets": offsets, "outcome": OUTCOMES[of.sends.outcome[send]]}
        row = {
            "offset": offsets[1],
            "explanation": f"{name} was sent once and is at offsets {listed}{by}.",
            "evidence": evidence | ({"producer_epochs": epochs} if epochs else {}),
        }
        return row | _acknowledgement(of, send)

    def gave_it_up(place: int) -> bool:
        return of.names.name(int(of.sends.value[rows[place]]))[0] in gave_up

    def why(place: int) -> str | None:
        offsets = account.offsets(int(rows[place]))
        writers = _writers(of, offsets) if gave_it_up(place) else []
        renewed = len({producer for producer, _ in writers}) == 1 and len(set(writers)) == len(offsets)
        return _EPOCH_RAISED if renewed else None

    def doubt(place: int) -> str | None:
        return _NO_EPOCHS if gave_it_up(place) else None

    found = Cases("duplicate", of.sends.value[rows], example)
    if not gave_up:
        return found
    lacking = of.run.profile.lacking("segments") and not of.run.foreign
    return found._replace(why=why, doubt=doubt if lacking else None)


def _writers(of: PartitionEvidence, offsets: Sequence[int]) -> list[tuple[int, int]]:
    """Return (Kafka producer id, epoch) at each offset, none if the final log lacks one."""
    if of.final is None or of.final not in of.batches:
        return []
    batches = of.batches[of.final].batches
    rows = np.minimum(np.searchsorted(batches.last_offset, offsets), len(batches) - 1)
    if not len(batches) or not np.all(batches.idempotent[rows] & (batches.base_offset[rows] <= offsets)):
        return []
    return list(zip(batches.kafka_producer_id[rows].tolist(), batches.producer_epoch[rows].tolist(), strict=True))


class _Read(NamedTuple):
    reader: str
    offset: Ints
    value: Ints
    damaged: Bools


def _reads(of: PartitionEvidence) -> Iterator[_Read]:
    for (code,), rows in groups(of.polls.consumer):
        name = f"consumer {of.names.listed[code]}"
        yield _Read(name, of.polls.offset[rows], of.polls.value[rows], of.polls.damaged[rows])
    for broker, log in sorted(of.logs.items()):
        yield _Read(f"log of {of.run.nodes.get(broker, broker)}", log.offset, log.value, log.damaged)


def _in_no_ledger(of: PartitionEvidence, account: Account, *, unclean: bool) -> Iterator[tuple[_Read, Ints]]:
    wanted = np.array([(name in of.run.unclean_producers) is unclean for name in of.names.listed], dtype=np.bool_)
    for read in _reads(of):
        rows = np.flatnonzero(~read.damaged & (read.value >= 0) & (positions_in(account.groups.values, read.value) < 0))
        yield read, rows[wanted[producer_of(read.value[rows])]]


def unrecorded(of: PartitionEvidence, account: Account) -> Counter[str]:
    """Return unclean producer → read records that its ledger lacks."""
    if not of.run.unclean_producers:
        return Counter()
    seen = [read.value[rows] for read, rows in _in_no_ledger(of, account, unclean=True)]
    values = np.unique(joined(seen))
    codes, records = np.unique(producer_of(values), return_counts=True)
    return Counter({of.names.listed[code]: count for code, count in zip(codes.tolist(), records.tolist(), strict=True)})


def phantom_record(of: PartitionEvidence, account: Account) -> Cases:
    """An intact record that no client is known to have sent to this partition. Not counted for a producer that died or
    whose ledger is truncated: the ledger has a send only once its outcome is known.
    """
    at: dict[int, tuple[int, set[str]]] = {}
    for read, rows in _in_no_ledger(of, account, unclean=False):
        for value, offset in zip(read.value[rows].tolist(), read.offset[rows].tolist(), strict=True):
            first, readers = at.get(value, (offset, set()))
            readers.add(read.reader)
            at[value] = min(first, offset), readers
    values = sorted(at, key=lambda value: at[value][0])

    def example(place: int) -> Mapping[str, Any]:
        offset, readers = at[values[place]]
        name = record(of.names, values[place])
        return {
            "offset": offset,
            "explanation": f"{name} stands at offset {offset} and was never sent there.",
            "evidence": {"readers": sorted(readers)},
        }

    return Cases("phantom_record", np.array(values, dtype=np.int64), example)


def corrupt_record(of: PartitionEvidence) -> Cases:
    """A record whose checksum does not match its bytes, or a batch whose CRC-32C does not."""
    at: dict[int | None, tuple[int, set[str]]] = {}

    def add(offset: int | None, value: int, reader: str) -> None:
        largest, readers = at.get(offset, (-1, set()))
        readers.add(reader)
        at[offset] = max(largest, value), readers

    for read in _reads(of):
        rows = np.flatnonzero(read.damaged)
        for offset, value in zip(read.offset[rows].tolist(), read.value[rows].tolist(), strict=True):
            add(offset, value, read.reader)
    for place in of.unreadable:
        if place.problem in _DAMAGED:
            add(place.offset, -1, f"segment of {place.node} ({place.problem})")
    offsets = sorted(at, key=lambda offset: -1 if offset is None else offset)

    def example(place: int) -> Mapping[str, Any]:
        offset, readers = offsets[place], sorted(at[offsets[place]][1])
        where = "an offset that cannot be read" if offset is None else f"offset {offset}"
        return {
            "offset": offset,
            "explanation": f"The bytes at {where} do not fit their checksum, as read by {', '.join(readers)}.",
            "evidence": {"readers": readers},
        }

    return Cases("corrupt_record", np.array([at[offset][0] for offset in offsets], dtype=np.int64), example)


def aborted_read(of: PartitionEvidence, account: Account) -> Cases:
    """A send that was reported as definitely not written, and that a consumer read. Of a transaction: read by a
    ``read_committed`` consumer although its abort was confirmed, or no client requested a commit.
    """
    rows = np.flatnonzero((of.sends.outcome == FAIL) & account.seen)

    def example(place: int) -> Mapping[str, Any]:
        send = int(rows[place])
        offsets, error = account.offsets(send), of.sends.error[send]
        name, acked = record(of.names, of.sends.value[send]), known(of.sends.offset[send])
        why = of.names.listed[error] if error >= 0 else None
        row = {
            "offset": next(iter(offsets), None) if acked is None else acked,
            "explanation": f"{name} failed for good ({why or 'no error named'}) and was read.",
            "evidence": {"error": why, "offsets": offsets or None},
        }
        return row | _acknowledgement(of, send)

    return Cases("aborted_read", of.sends.value[rows], example)


class Clash(NamedTuple):
    """An offset with several values."""

    offset: int
    values: list[int]
    stands: int | None


def clashes(drained_offset: Ints, drained: Ints, offset: Ints, value: Ints, names: Names) -> list[Clash]:
    """Return offsets with several values."""
    order = np.lexsort((drained, drained_offset)) if np.any(np.diff(drained_offset) < 0) else slice(None)
    stand_offset, stand = drained_offset[order], drained[order]
    again = np.zeros(stand.size, dtype=np.bool_)
    again[1:] = (stand_offset[1:] == stand_offset[:-1]) & (stand[1:] != stand[:-1])
    at = np.searchsorted(stand_offset, offset, side="right") - 1
    agrees = np.zeros(offset.size, dtype=np.bool_)
    if stand.size:
        agrees = (at >= 0) & (stand_offset[at] == offset) & (stand[at] == value)
    claimed_at: dict[int, set[int]] = {}
    for here, claimed in zip(offset[~agrees].tolist(), value[~agrees].tolist(), strict=True):
        claimed_at.setdefault(here, set()).add(claimed)
    for here in stand_offset[again].tolist():
        claimed_at.setdefault(here, set())
    found = []
    for here, claimed in sorted(claimed_at.items()):
        begin, end = np.searchsorted(stand_offset, here), np.searchsorted(stand_offset, here, side="right")
        standing = sorted(set(stand[begin:end].tolist()), key=names.name)
        values = sorted(claimed.union(standing), key=names.name)
        if len(values) > 1:
            found.append(Clash(here, values, standing[-1] if standing else None))
    return found


def inconsistent_offset(of: PartitionEvidence, account: Account, wrong: Bools | None = None) -> Cases:
    """One offset held two values, according to reads and acknowledgements (without ``bad_ack_offset``). The row names a
    value that the final drain did not find there; if it found none, one that no replica's log has; of several, the one
    with the weakest acks.
    """
    ours, final = of.polls.value >= 0, of.polls.pass_ == FINAL
    placed = account.committed & (of.sends.offset != NULL)
    if wrong is not None:
        placed &= ~wrong
    drained = ours & final
    live = ours & ~final
    here = clashes(
        of.polls.offset[drained],
        of.polls.value[drained],
        np.concatenate([of.sends.offset[placed], of.polls.offset[live]]),
        np.concatenate([of.sends.value[placed], of.polls.value[live]]),
        of.names,
    )
    sent = np.flatnonzero(np.isin(of.sends.value, [value for clash in here for value in clash.values]))
    promised = dict(zip(of.sends.value[sent].tolist(), of.sends.acks[sent].tolist(), strict=True))
    held = set(of.sends.value[sent[account.held_at[sent] == of.sends.offset[sent]]].tolist())

    def gone(clash: Clash) -> int:
        others = [value for value in clash.values if value != clash.stands]
        return min(others, key=lambda value: (clash.stands is None and value in held, promised.get(value, ACKS_ALL)))

    victims = np.array([gone(clash) for clash in here], dtype=np.int64)
    return Cases("inconsistent_offset", victims, lambda place: _clash(here[place], of.names))


def _clash(clash: Clash, names: Names) -> dict[str, Any]:
    given = [f"{producer}/{seq}" for producer, seq in (names.name(v) for v in clash.values if v != clash.stands)]
    now = " and was not read at the end"
    if clash.stands is not None:
        producer, seq = names.name(clash.stands)
        now = f" and holds record {producer}/{seq} now"
    return {
        "offset": clash.offset,
        "explanation": f"Offset {clash.offset} was that of record {' and '.join(given)}{now}.",
        "evidence": {"values": [names.fields(value) for value in clash.values]},
    }
