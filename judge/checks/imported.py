"""What is different about an imported history: no drain, no probe and no segments, only what its clients told.

Every completed read counts as a drain does in a run of our own, and what lies above the last of them is unseen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from evidence.columns import FAIL, FINAL, LIVE, NULL, OK, Ints, Polls, Sends, places
from evidence.gather import Transaction
from evidence.partition import PartitionEvidence
from judge.checks.account import Account
from judge.checks.atomicity import Part
from judge.checks.findings import Cases

_MOVED = "a subscribed consumer may be given its partitions anew at any time"


def as_drain(polls: Polls) -> Polls:
    """Completed reads of a partition that nobody drained count as its final pass."""
    if (polls.pass_ == FINAL).any():
        return polls
    return replace(polls, pass_=np.where(polls.pass_ == LIVE, FINAL, polls.pass_).astype(np.int8))


def with_acknowledged_place(found: Account, sends: Sends) -> Account:
    """Widens where a record stands: also where its acknowledgement says.

    A run of our own has the log itself to look at; here a record that was acknowledged at one offset and read at
    another is the only sign of its second copy.
    """
    copies, several = found.copies.copy(), dict(found.all_found)
    known = np.flatnonzero(found.read & found.committed & (sends.offset != NULL))
    for row in known[found.found_at[known] != sends.offset[known]].tolist():
        stands = sorted({*found.offsets(row), int(sends.offset[row])})
        copies[row] = len(stands)
        several[int(found.groups.of_send[row])] = stands
    return replace(found, copies=copies, all_found=several)


def standing(of: PartitionEvidence) -> tuple[Ints, Ints]:
    """The records that are known to be in the log, by offset and value: read by anybody and not reported as failed, or
    acknowledged at an offset.
    """
    failed = np.unique(of.sends.value[of.sends.outcome == FAIL])
    read = (of.polls.value >= 0) & (places(failed, of.polls.value) < 0)
    acked = (of.sends.outcome == OK) & (of.sends.offset >= 0)
    both = np.stack(
        [
            np.concatenate([of.polls.offset[read], of.sends.offset[acked]]),
            np.concatenate([of.polls.value[read], of.sends.value[acked]]),
        ]
    )
    offset, value = np.unique(both, axis=1)
    return offset, value


def told_with_names(cases: Cases, of: PartitionEvidence, subscribed: frozenset[str]) -> Cases:
    """Adds key and value, as the history had them, to explanation and evidence; tells what became of unread records.

    A step back or ahead is permitted to consumers that subscribe: a rebalance may put them anywhere.
    """

    def example(place: int) -> Mapping[str, Any]:
        row = dict(cases.example(place))
        value = int(cases.values[place])
        sentence = row["explanation"] or _unread(cases.anomaly, of.names.name(value), row)
        there = [value]
        if cases.anomaly == "inconsistent_offset":
            there = [of.names.value(v["producer_id"], v["seq"]) for v in row["evidence"]["values"]]
        named = _named(of, value, there)
        return row | {"explanation": sentence + named["explanation"], "evidence": named["evidence"] | row["evidence"]}

    def why(place: int) -> str | None:
        return _MOVED if cases.example(place)["evidence"].get("consumer_id") in subscribed else None

    moves = cases.anomaly in {"poll_skip", "nonmonotonic_poll"} and subscribed
    return Cases(cases.anomaly, cases.values, example, why if moves else cases.why)


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


def _unread(anomaly: str, name: tuple[str | None, int | None], row: Mapping[str, Any]) -> str:
    """The sentence about a record that was acknowledged, or must have been written, and that no read returned."""
    info = row["evidence"].get("outcome") == "info"
    written = " has no known end and must have been written" if info else " was acknowledged"
    at = "" if row["offset"] is None else f" at offset {row['offset']}"
    lost = anomaly == "lost_write"
    then = "; reads went past it, and none returned it." if lost else "; no read that completed went as far."
    return f"Record {name[0]}/{name[1]}{written}{at}{then}"
