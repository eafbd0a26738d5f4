"""What is different about an imported history: no drain, no probe and no segments, only what its clients told.

Every completed read counts as a drain does in a run of our own, and what lies above the last of them is unseen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from spark.checks.account import Account, places
from spark.checks.findings import Cases
from spark.evidence.columns import FAIL, FINAL, LIVE, NULL, OK, Ints, Polls, Sends, ToldNames
from spark.evidence.partition import PartitionEvidence

_MOVED = "a subscribed consumer may be given its partitions anew at any time"


def as_drain(polls: Polls) -> Polls:
    """Completed reads of a partition that nobody drained count as its final pass."""
    if (polls.pass_ == FINAL).any():
        return polls
    return replace(polls, pass_=np.where(polls.pass_ == LIVE, FINAL, polls.pass_).astype(np.int8))


def with_operations(sends: Sends, told: ToldNames) -> Sends:
    """An atomic operation that sent several records is a transaction."""
    at = places(told.value, sends.value)
    operation = np.where(at >= 0, told.operation[at], NULL) if len(told) else np.full(len(sends), NULL)
    return replace(sends, transaction=np.where(sends.transaction == NULL, operation, sends.transaction))


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
    told = of.told_names
    assert told is not None

    def named(value: int) -> dict[str, Any]:
        at = int(places(told.value, np.array([value]))[0])
        return {} if at < 0 else {"key": told.key[at], "value": told.name[at]}  # JSON, as the history had them

    def example(place: int) -> Mapping[str, Any]:
        row = dict(cases.example(place))
        own = named(int(cases.values[place]))
        sentence = row["explanation"] or _unread(cases.anomaly, of.names.name(int(cases.values[place])), row)
        if own:
            values = own["value"]
            if cases.anomaly == "inconsistent_offset":
                there = (of.names.code(v["producer_id"]) << 47 | v["seq"] for v in row["evidence"]["values"])
                values = " and ".join(sorted({str(named(value).get("value")) for value in there}))
            sentence += f" Key {own['key']}, value {values}."
        as_told = {word: json.loads(text) for word, text in own.items()}
        return row | {"explanation": sentence, "evidence": as_told | row["evidence"]}

    def why(place: int) -> str | None:
        return _MOVED if cases.example(place)["evidence"].get("consumer_id") in subscribed else None

    moves = cases.anomaly in {"poll_skip", "nonmonotonic_poll"} and subscribed
    return Cases(cases.anomaly, cases.values, example, why if moves else cases.why)


def _unread(anomaly: str, name: tuple[str | None, int | None], row: Mapping[str, Any]) -> str:
    """The sentence about a record that was acknowledged, or must have been written, and that no read returned."""
    info = row["evidence"].get("outcome") == "info"
    written = " has no known end and must have been written" if info else " was acknowledged"
    at = "" if row["offset"] is None else f" at offset {row['offset']}"
    lost = anomaly == "lost_write"
    then = "; reads went past it, and none returned it." if lost else "; no read that completed went as far."
    return f"Record {name[0]}/{name[1]}{written}{at}{then}"
