"""Judge an imported history, which has only its clients' records.

A record is lost if a reader read past it, on both sides, and no reader returned it; else it is unseen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from evidence.columns import (
    ACKS_ALL,
    FAIL,
    FINAL,
    LIVE,
    NULL,
    OK,
    Bools,
    Codes,
    Ints,
    Polls,
    Sends,
    groups,
    largest,
    positions_in,
    producer_of,
)
from evidence.facts import Transaction
from evidence.partition import PartitionEvidence
from judge.checks.account import GONE, LOST, NOTHING, UNDECIDED, Account
from judge.checks.atomicity import Part
from judge.checks.findings import Cases

_MOVED = "a subscribed consumer may be given its partitions anew at any time"


def as_drain(polls: Polls) -> Polls:
    """Return the reads, completed ones as the final pass if there is none."""
    if (polls.pass_ == FINAL).any():
        return polls
    return replace(polls, pass_=np.where(polls.pass_ == LIVE, FINAL, polls.pass_).astype(np.int8))


def passed_since(polls: Polls, from_start: Codes) -> Ints:
    """Return from which offset each read's reader had read everything.

    First reads and reads after a failed one cover only their own offset.
    """
    order = np.lexsort((polls.position, polls.consumer))
    consumer, offset = polls.consumer[order], polls.offset[order]
    follows = np.zeros(order.size, dtype=np.bool_)
    follows[1:] = (consumer[1:] == consumer[:-1]) & (polls.pass_[order][:-1] == FINAL)
    begins = np.ones(order.size, dtype=np.bool_)
    begins[1:] = consumer[1:] != consumer[:-1]
    since = np.where(follows, np.roll(offset, 1), offset)
    since[begins & np.isin(consumer, from_start)] = 0
    found = np.empty_like(since)
    found[order] = since
    return found


def misplaced(account: Account, sends: Sends) -> Bools:
    """Return acknowledged sends with a wrong offset: read elsewhere only, or beyond the log."""
    wrong: Bools = account.read & (sends.outcome == OK) & (sends.offset != NULL) & (account.found_at != sends.offset)
    several = np.flatnonzero(wrong & (account.copies > 1))
    wrong[several] = [int(sends.offset[row]) not in account.offsets(row) for row in several.tolist()]
    return wrong | _beyond(account, sends)


def _beyond(account: Account, sends: Sends) -> Bools:
    """Return unread acks=all sends acknowledged beyond the log's end.

    Later records of the producer were read lower, by more than the history has sends.
    """
    acked = (sends.outcome == OK) & (sends.acks == ACKS_ALL) & (sends.offset != NULL)
    right = acked & account.read & (account.found_at == sends.offset)
    known = np.unique(np.append(sends.offset[right], NULL))
    far = sends.offset - known[np.searchsorted(known, sends.offset) - 1] > len(sends)
    overtaken = np.zeros(len(sends), dtype=np.bool_)
    for _, rows in groups(producer_of(sends.value)):
        trusted = rows[right[rows]]
        if trusted.size:
            last = trusted[np.argmax(sends.value[trusted])]
            overtaken[rows] = (sends.value[rows] < sends.value[last]) & (sends.offset[rows] > sends.offset[last])
    beyond: Bools = acked & ~account.read & far & overtaken
    return beyond


def after_cleanup(account: Account, of: PartitionEvidence) -> Account:
    """Withdraw conclusions about records that cleanup may have removed.

    Retention may remove any unread record. Compaction keeps each key's last record, and tombstones for
    delete.retention.ms; a tombstone may not vanish before its key's older values.
    """
    if of.kept and not of.expires:
        return account
    sends, imported = of.sends, of.imported_names
    open_case = np.isin(account.fate, (*GONE, UNDECIDED))
    key, tombstone = np.full(len(sends), -1), np.zeros(len(sends), dtype=np.bool_)
    if imported is not None and len(imported):
        at = positions_in(imported.value, sends.value)
        key = np.where(at >= 0, imported.record_key[at], -1)
        tombstone = (at >= 0) & (imported.name == "null")[at]
    written = account.committed & (sends.offset != NULL)
    # By key; the last place: no key.
    newest = largest(key[written], sends.offset[written], int(key.max(initial=-1)) + 2)
    superseded = (key >= 0) & (sends.offset != NULL) & (sends.offset < newest[key])
    may_supersede = (sends.outcome != FAIL) & ~written
    doubtful = np.isin(key, key[may_supersede]) if (key[may_supersede] >= 0).all() else np.ones(len(sends), np.bool_)
    doubtful |= (key < 0) | bool((key[sends.outcome != FAIL] < 0).any())
    fate = account.fate.copy()
    if of.kept:
        fate[open_case] = UNDECIDED
    else:
        fate[open_case & (doubtful | of.expires)] = UNDECIDED
        fate[open_case & (superseded | (tombstone & (key >= 0)))] = NOTHING
        last = open_case & tombstone & (key >= 0) & (sends.offset != NULL) & ~superseded
        of_values = np.where(tombstone & ~last, -1, key)  # an older tombstone also deletes the key
        early, unclear = _outlived(of, account, of_values, last)
        fate[unclear | (early & (doubtful | (account.fate != LOST)))] = UNDECIDED
        fate[early & ~doubtful & (account.fate == LOST)] = LOST
    return replace(account, fate=fate)


def _outlived(of: PartitionEvidence, account: Account, key: Ints, last: Bools) -> tuple[Bools, Bools]:
    """Return which tombstones were removed before an older value, and for which this is unknown.

    A reader proves it if it returned such a value and passed the tombstone within delete.retention.ms.
    """
    sends, polls = of.sends, as_drain(of.polls)
    deleted_by = _deleted_by(account, polls, key, np.flatnonzero(last), sends.offset)
    early, unclear = np.zeros(len(sends), dtype=np.bool_), np.zeros(len(sends), dtype=np.bool_)
    for _, rows_of in groups(polls.consumer):
        own = rows_of[np.argsort(polls.position[rows_of], kind="stable")]
        reached = np.maximum.accumulate(polls.offset[own])
        older = np.flatnonzero(deleted_by[own] >= 0)
        rows = deleted_by[own[older]]
        then = np.searchsorted(reached, sends.offset[rows], side="right")
        passed = (then < own.size) & (polls.offset[own[older]] == reached[older])
        took_ns = polls.received_ns[own[np.minimum(then, own.size - 1)]] - polls.received_ns[own[older]]
        in_time = passed & (took_ns < of.tombstones_stay_ns)
        early[rows[in_time]] = True
        unclear[rows[~in_time & (passed | (account.fate[rows] != LOST))]] = True
    held = np.isin(sends.offset, polls.offset)  # by another record: the acknowledgement may be wrong
    return early & ~held, (unclear & ~early) | (early & held)


def _deleted_by(account: Account, polls: Polls, key: Ints, tombstones: Ints, offset: Ints) -> Ints:
    """Return the tombstone (row of the sends) that deletes each final read's value, or -1."""
    furthest = largest(key, account.seen_at, int(key.max(initial=-1)) + 2)  # as above
    rows = tombstones[offset[tombstones] > furthest[key[tombstones]]]
    of_key: Ints = np.full(furthest.size, -1)
    of_key[key[rows]] = rows
    values = np.flatnonzero(account.committed & (of_key[key] >= 0))
    send: Ints = np.full(account.groups.values.size + 1, -1)
    send[account.groups.of_send[values]] = values
    read = send[positions_in(account.groups.values, polls.value)]  # the place for no group is -1, too
    return np.where((read >= 0) & (polls.pass_ == FINAL), of_key[key[read]], -1)


def standing(of: PartitionEvidence, wrong: Bools) -> tuple[Ints, Ints]:
    """Return offsets and values of records known to be in the log."""
    failed = np.unique(of.sends.value[of.sends.outcome == FAIL])
    read = (of.polls.value >= 0) & (positions_in(failed, of.polls.value) < 0)
    acked = (of.sends.outcome == OK) & (of.sends.offset >= 0) & ~wrong
    both = np.stack(
        [
            np.concatenate([of.polls.offset[read], of.sends.offset[acked]]),
            np.concatenate([of.polls.value[read], of.sends.value[acked]]),
        ]
    )
    offset, value = np.unique(both, axis=1)
    return offset, value


def cases_with_names(cases: Cases, of: PartitionEvidence) -> Cases:
    """Add the history's key and value to a case, and explain unread records."""

    def example(place: int) -> Mapping[str, Any]:
        row = dict(cases.example(place))
        value = int(cases.values[place])
        removed = of.expires or not of.kept
        sentence = row["explanation"] or _unread(cases.anomaly, of.names.name(value), row, removed=removed)
        if cases.anomaly == "lost_write" and not of.kept and _is_tombstone(of, value):
            sentence = f"{sentence[:-1]}, but an older value of its key, which compaction removes before a tombstone."
        there = [value]
        if cases.anomaly == "inconsistent_offset":
            there = [of.names.value(v["producer_id"], v["seq"]) for v in row["evidence"]["values"]]
        named = _named(of, value, there)
        return row | {"explanation": sentence + named["explanation"], "evidence": named["evidence"] | row["evidence"]}

    def moved(place: int) -> str | None:
        return _MOVED if cases.example(place)["evidence"].get("consumer_id") in of.run.subscribed else None

    moves = cases.anomaly in {"poll_skip", "nonmonotonic_poll"} and of.run.subscribed
    return Cases(cases.anomaly, cases.values, example, moved if moves else cases.why)


def parts_with_names(parts: Mapping[Transaction, Part], of: PartitionEvidence) -> dict[Transaction, Part]:
    """Add the history's key and value to torn transactions."""

    def named(part: Part) -> Part:
        if part.first is None:
            return part
        value = of.names.value(part.first["producer_id"], part.first["seq"])
        return part._replace(first={**part.first, **_named(of, value, [value])})

    return {transaction: named(part) for transaction, part in parts.items()}


def _named(of: PartitionEvidence, value: int, there: Sequence[int]) -> dict[str, Any]:
    imported = of.imported_names
    assert imported is not None
    at = positions_in(imported.value, np.array([value, *there], dtype=np.int64)).tolist()
    if at[0] < 0:
        return {"explanation": "", "evidence": {}}
    key, name = imported.key[at[0]], imported.name[at[0]]
    values = " and ".join(sorted({imported.name[each] for each in at[1:] if each >= 0}))
    original = {"key": json.loads(key), "value": json.loads(name)}
    return {"explanation": f" Key {key}, value {values}.", "evidence": original}


def _is_tombstone(of: PartitionEvidence, value: int) -> bool:
    imported = of.imported_names
    at = -1 if imported is None else int(positions_in(imported.value, np.array([value]))[0])
    return imported is not None and at >= 0 and imported.name[at] == "null"


def _unread(anomaly: str, name: tuple[str | None, int | None], row: Mapping[str, Any], *, removed: bool) -> str:
    info = row["evidence"].get("outcome") == "info"
    written = " has no known end and must have been written" if info else " was acknowledged"
    at = "" if row["offset"] is None else f" at offset {row['offset']}"
    lost = anomaly == "lost_write"
    then = "; reads went past it, and none returned it." if lost else "; whether a reader passed it is unknown."
    if removed and not lost:
        then = "; no reader returned it, and the topic's retention or compaction may have removed it."
    return f"Record {name[0]}/{name[1]}{written}{at}{then}"
