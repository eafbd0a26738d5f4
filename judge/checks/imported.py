"""Judge an imported history: it has no drain, no probe and no segments, only what its clients recorded.

A record is lost if one reader read past it, on both sides, and no reader returned it. Where no reader is known to have
passed it, it is unseen: a reader may begin at the log's end or behind a gap that a commit of its group left.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from evidence.columns import FAIL, FINAL, LIVE, NULL, OK, Bools, Codes, Ints, Polls, Sends, places
from evidence.gather import Transaction
from evidence.partition import PartitionEvidence
from judge.checks.account import GONE, NOTHING, UNDECIDED, Account
from judge.checks.atomicity import Part
from judge.checks.findings import Cases

_MOVED = "a subscribed consumer may be given its partitions anew at any time"


def as_drain(polls: Polls) -> Polls:
    """Completed reads of a partition that nobody drained count as its final pass."""
    if (polls.pass_ == FINAL).any():
        return polls
    return replace(polls, pass_=np.where(polls.pass_ == LIVE, FINAL, polls.pass_).astype(np.int8))


def passed_since(polls: Polls, from_start: Codes) -> Ints:
    """Return for each read the offset from which its reader had passed everything: the one that it read before.

    A reader's first read, and one behind a read whose operation did not end well, covers only its own offset. Readers
    of ``from_start`` are known to have begun at the log's first record.
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


def misplaced(found: Account, sends: Sends) -> Bools:
    """Return the acknowledged sends that readers returned, and never at the offset of the acknowledgement."""
    wrong: Bools = found.read & (sends.outcome == OK) & (sends.offset != NULL) & (found.found_at != sends.offset)
    several = np.flatnonzero(wrong & (found.copies > 1))
    wrong[several] = [int(sends.offset[row]) not in found.offsets(row) for row in several.tolist()]
    return wrong


def after_cleanup(found: Account, of: PartitionEvidence) -> Account:
    """Take back what is said of records that their topic's cleanup may have removed.

    Retention removes records in the order of the log, and a history does not show when: what became of an unread record
    is undecided. Compaction keeps the last record of each key, and of tombstones none for good
    (delete.retention.ms): an earlier record and a tombstone may be gone. Where a send without a known place or key may
    have superseded a record, that is undecided.
    """
    if of.kept and not of.expires:
        return found
    sends, told = of.sends, of.told_names
    open_case = np.isin(found.fate, (*GONE, UNDECIDED))
    key, tombstone = np.full(len(sends), -1), np.zeros(len(sends), dtype=np.bool_)
    if told is not None and len(told):
        at = places(told.value, sends.value)
        key = np.where(at >= 0, told.record_key[at], -1)
        tombstone = (at >= 0) & (told.name == "null")[at]
    written = found.committed & (sends.offset != NULL)
    newest: Ints = np.full(int(key.max(initial=-1)) + 2, NULL)  # by key; the last place is that of no key
    np.maximum.at(newest, key[written], sends.offset[written])
    superseded = (key >= 0) & (sends.offset != NULL) & (sends.offset < newest[key])
    may_supersede = (sends.outcome != FAIL) & ~written
    doubtful = np.isin(key, key[may_supersede]) if (key[may_supersede] >= 0).all() else np.ones(len(sends), np.bool_)
    doubtful |= (key < 0) | bool((key[sends.outcome != FAIL] < 0).any())
    fate = found.fate.copy()
    if of.kept:
        fate[open_case] = UNDECIDED
    else:
        fate[open_case & (doubtful | of.expires)] = UNDECIDED
        fate[open_case & (superseded | (tombstone & (key >= 0)))] = NOTHING
    return replace(found, fate=fate)


def standing(of: PartitionEvidence, wrong: Bools) -> tuple[Ints, Ints]:
    """Return the records that are known to be in the log, by offset and value: those that a reader returned and that
    were not reported as failed, and those that were acknowledged at an offset that is not known to be wrong.
    """
    failed = np.unique(of.sends.value[of.sends.outcome == FAIL])
    read = (of.polls.value >= 0) & (places(failed, of.polls.value) < 0)
    acked = (of.sends.outcome == OK) & (of.sends.offset >= 0) & ~wrong
    both = np.stack(
        [
            np.concatenate([of.polls.offset[read], of.sends.offset[acked]]),
            np.concatenate([of.polls.value[read], of.sends.value[acked]]),
        ]
    )
    offset, value = np.unique(both, axis=1)
    return offset, value


def told_with_names(cases: Cases, of: PartitionEvidence, subscribed: frozenset[str]) -> Cases:
    """Add key and value, as the history had them, to explanation and evidence; tell what became of unread records.

    A step back or ahead is permitted to consumers that subscribe: a rebalance may put them anywhere.
    """

    def example(place: int) -> Mapping[str, Any]:
        row = dict(cases.example(place))
        value = int(cases.values[place])
        removed = of.expires or not of.kept
        sentence = row["explanation"] or _unread(cases.anomaly, of.names.name(value), row, removed=removed)
        there = [value]
        if cases.anomaly == "inconsistent_offset":
            there = [of.names.value(v["producer_id"], v["seq"]) for v in row["evidence"]["values"]]
        named = _named(of, value, there)
        return row | {"explanation": sentence + named["explanation"], "evidence": named["evidence"] | row["evidence"]}

    def moved(place: int) -> str | None:
        return _MOVED if cases.example(place)["evidence"].get("consumer_id") in subscribed else None

    moves = cases.anomaly in {"poll_skip", "nonmonotonic_poll"} and subscribed
    return Cases(cases.anomaly, cases.values, example, moved if moves else cases.why)


def parts_with_names(parts: Mapping[Transaction, Part], of: PartitionEvidence) -> dict[Transaction, Part]:
    """The same of a torn transaction's first record that is gone."""

    def named(part: Part) -> Part:
        if part.first is None:
            return part
        value = of.names.value(part.first["producer_id"], part.first["seq"])
        return part._replace(first={**part.first, **_named(of, value, [value])})

    return {transaction: named(part) for transaction, part in parts.items()}


def _named(of: PartitionEvidence, value: int, there: Sequence[int]) -> dict[str, Any]:
    """What the history called a record, as a sentence and as evidence; ``there`` are all values to be named."""
    told = of.told_names
    assert told is not None
    at = places(told.value, np.array([value, *there], dtype=np.int64)).tolist()
    if at[0] < 0:
        return {"explanation": "", "evidence": {}}
    key, name = told.key[at[0]], told.name[at[0]]  # JSON
    values = " and ".join(sorted({told.name[each] for each in at[1:] if each >= 0}))
    as_told = {"key": json.loads(key), "value": json.loads(name)}
    return {"explanation": f" Key {key}, value {values}.", "evidence": as_told}


def _unread(anomaly: str, name: tuple[str | None, int | None], row: Mapping[str, Any], *, removed: bool) -> str:
    """The sentence about a record that was acknowledged, or must have been written, and that no read returned."""
    info = row["evidence"].get("outcome") == "info"
    written = " has no known end and must have been written" if info else " was acknowledged"
    at = "" if row["offset"] is None else f" at offset {row['offset']}"
    lost = anomaly == "lost_write"
    then = "; reads went past it, and none returned it." if lost else "; no reader is known to have passed it."
    if removed and not lost:
        then = "; no reader returned it, and the topic's retention or compaction may have removed it."
    return f"Record {name[0]}/{name[1]}{written}{at}{then}"
