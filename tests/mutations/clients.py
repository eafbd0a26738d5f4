"""Damage to what clients sent and read."""

from __future__ import annotations

import math
from itertools import pairwise

from tests.mutations.kind import SECOND_NS, kind, middle, value_of
from tests.mutations.recording import NoPlaceError, Recording, Row, cut_evidence, drained_to, edit_summary, header


def _swap(one: Row, other: Row, *names: str) -> None:
    for name in names:
        one[name], other[name] = other[name], one[name]


def _two(run: Recording, rows: list[Row]) -> tuple[Row, Row]:
    at = run.choose(range(len(rows) // 10, len(rows) // 2))
    return rows[at], rows[at + run.choose(range(20, len(rows) // 4))]


@kind("lost_write")
def acknowledged_record_lost(run: Recording) -> str:
    """No reader returns an acknowledged record in the middle of the log."""
    victim = run.choose(middle(run.acked()))
    run.put("polls", [row for row in run.rows("polls") if value_of(row) != value_of(victim)])
    return f"offset {victim['offset']}"


@kind("truncated_ack")
def acknowledged_tail_cut(run: Recording) -> str:
    """The last acknowledged records are in no replica's log and were never read."""
    cut = header(run.batches(1)[-run.choose(range(1, 4))])["base_offset"]
    for broker_id in run.brokers:
        run.put_batches(broker_id, [b for b in run.batches(broker_id) if header(b)["base_offset"] < cut])
    cut_evidence(run, cut)
    return f"from offset {cut}"


@kind("invisible_ack")
def acknowledged_tail_invisible(run: Recording) -> str:
    """The last acknowledged records are above the high watermark at which the final drain ended."""
    cut = run.acked()[-run.choose(range(1, 9))]["offset"]
    run.put("polls", [row for row in run.rows("polls") if row["offset"] < cut])
    drained_to(run, cut, cut)
    return f"from offset {cut}"


@kind("undrained", reason="drain")
def drain_stopped_early(run: Recording) -> str:
    """The final drain stopped before the high watermark."""
    cut, end = run.acked()[-run.choose(range(50, 500))]["offset"], len(run.reads("final"))
    run.put("polls", [row for row in run.rows("polls") if row["offset"] < cut])
    drained_to(run, cut, end)
    return f"at offset {cut}"


@kind("duplicate")
def record_doubled(run: Recording) -> str:
    """The final drain returned a record a second time, at the log's end."""
    final = run.reads("final")
    victim, last = run.choose(final), final[-1]
    again = {**victim, "offset": last["offset"] + 1, "position": last["position"] + 1}
    run.put("polls", [*run.rows("polls"), again])
    drained_to(run, again["offset"] + 1, again["offset"] + 1)
    return f"offset {victim['offset']} again at {again['offset']}"


def _copies(run: Recording) -> list[Row]:
    to = run.manifest.scenario["copier"]["to"]
    return [row for row in run.reads("final") if row["topic"] == to]


@kind("lost_output", scenario="exactly_once")
def copy_lost(run: Recording) -> str:
    """No reader returns the copy of a committed input record."""
    victim = run.choose(middle(_copies(run)))
    run.put("polls", [row for row in run.rows("polls") if value_of(row) != value_of(victim)])
    return f"input {victim['seq']} of {victim['producer_id']}"


@kind("duplicate_output", scenario="exactly_once")
def copied_twice(run: Recording) -> str:
    """Two output records are copies of the same input record."""
    one, other = _two(run, [row for row in _copies(run) if row["partition"] == 0])
    other["seq"] = one["seq"]
    run.put("polls", run.rows("polls"))
    return f"input {one['seq']} again at offset {other['offset']}"


@kind("phantom_record")
def record_never_sent(run: Recording) -> str:
    """The final drain returned a valid record that is in no ledger, at the log's end."""
    last = run.reads("final")[-1]
    phantom = {**last, "seq": 10**6 + run.choose(range(1000))}
    phantom |= {"offset": last["offset"] + 1, "position": last["position"] + 1}
    run.put("polls", [*run.rows("polls"), phantom])
    drained_to(run, phantom["offset"] + 1, phantom["offset"] + 1)
    return f"number {phantom['seq']}"


@kind(reason="The ledger of producer holds")
def ledger_row_missing(run: Recording) -> str:
    """The ledger lacks a send whose record was read, without a report of missing data."""
    victim = run.choose(middle(run.acked()))
    run.put("sends", [row for row in run.rows("sends") if row is not victim])
    return f"number {victim['seq']}"


@kind("corrupt_record")
def payload_damaged(run: Recording) -> str:
    """A record's payload did not match its checksum when it was read."""
    victim = run.choose(run.reads("final"))
    victim["checksum_ok"] = False
    run.put("polls", run.rows("polls"))
    return f"offset {victim['offset']}"


@kind("aborted_read")
def failed_send_read(run: Recording) -> str:
    """A send that was reported as not written was read."""
    victim = run.choose(run.acked())
    victim |= {"outcome": "fail", "error": "MessageSizeTooLargeError", "offset": None}
    run.put("sends", run.rows("sends"))
    return f"number {victim['seq']}"


def _swapped(run: Recording, reader: str, *columns: str) -> str:
    """Exchange columns of two reads of one pass; return their offsets in words."""
    one, other = _two(run, run.reads(reader))
    _swap(one, other, *columns)
    run.put("polls", run.rows("polls"))
    return f"offsets {one['offset']} and {other['offset']}"


@kind("inconsistent_offset")
def records_swapped(run: Recording) -> str:
    """The final drain found two records at each other's offsets."""
    return _swapped(run, "final", "producer_id", "seq")


@kind("poll_skip")
def consumer_skipped(run: Recording) -> str:
    """The live consumer skipped some records."""
    live = run.reads("live")
    at = run.choose(range(len(live) // 10, len(live) // 2))
    skipped = {row["position"] for row in live[at : at + run.choose(range(1, 20))]}
    run.put("polls", [row for row in run.rows("polls") if row["pass"] != "live" or row["position"] not in skipped])
    return f"{len(skipped)} records from offset {live[at]['offset']}"


@kind("nonmonotonic_poll")
def consumer_went_back(run: Recording) -> str:
    """The live consumer received two records in the wrong order."""
    return _swapped(run, "live", "position", "received_ns")


def _read_again(run: Recording) -> tuple[Row, Row, int]:
    """Return the last record before the repeated ones, the first of them, and their number."""
    live = run.reads("live")
    at = run.choose(range(len(live) // 10, len(live) // 2))
    before, again = live[at - 1], live[at - run.choose(range(1, len(live) // 10)) : at]
    count = len(again)
    twice = [row | {"position": row["position"] + count, "received_ns": before["received_ns"]} for row in again]
    for row in live[at:]:
        row["position"] += count
    run.put("polls", [*run.rows("polls"), *twice])
    edit_summary(run, before["consumer_id"], lambda summary: summary.update(rows=summary["rows"] + count))
    return before, twice[0], count


@kind("nonmonotonic_poll")
def records_read_again(run: Recording) -> str:
    """The live consumer received some records a second time without a seek."""
    before, first, count = _read_again(run)
    return f"{count} records, from offset {first['offset']} after {before['offset']}"


@kind()
def reader_sought_back(run: Recording) -> str:
    """The live consumer sought back and read some records again; its seek is recorded."""
    before, first, count = _read_again(run)
    reader = {name: before[name] for name in ("consumer_id", "pass", "topic", "partition", "leader_epoch")}
    seek = {"position": first["position"], "from_offset": before["offset"] + 1, "to_offset": first["offset"]}
    why = {"why": "the position is out of range", "sought_ns": before["received_ns"]}
    run.put("seeks", [*run.rows("seeks"), reader | seek | why])
    edit_summary(run, before["consumer_id"], lambda summary: summary.update(seeks=summary["seeks"] + 1))
    return f"{count} records, from offset {first['offset']} after {before['offset']}"


@kind("nonrepeatable_read")
def read_again_differs(run: Recording) -> str:
    """At two offsets, the live consumer read other values than the final drain."""
    return _swapped(run, "live", "producer_id", "seq")


@kind("precommitted_read")
def read_above_high_watermark(run: Recording) -> str:
    """The live consumer received a record before its leader's high watermark was above it."""
    begun: dict[int, int] = {}
    for view in run.rows("isr"):
        epoch = view["leader_epoch"]
        begun[epoch] = min(view["received_ns"], begun.get(epoch, view["received_ns"]))

    def is_settled(row: Row) -> bool:
        """No other leader can have answered: the epoch is 6 s old and lasts 3 s more."""
        next_ns = min((ns for epoch, ns in begun.items() if epoch > row["leader_epoch"]), default=math.inf)
        return bool(begun[row["leader_epoch"]] + 6 * SECOND_NS < row["sent_ns"] < next_ns - 3 * SECOND_NS)

    sample = run.choose([row for row in run.of_leader() if is_settled(row)])
    above = (row for row in run.reads("live") if row["offset"] >= sample["high_watermark"])
    later = next((row for row in above if row["leader_epoch"] == sample["leader_epoch"]), None)
    if later is None:
        raise NoPlaceError
    later["received_ns"] = sample["sent_ns"] - SECOND_NS // 1000
    run.put("polls", run.rows("polls"))
    return f"offset {later['offset']}"


@kind("realtime_order_violation")
def sent_after_a_later_one(run: Recording) -> str:
    """A record was sent after a record at a higher offset was acknowledged."""
    one, other = _two(run, run.acked())
    one |= {"sent_ns": other["done_ns"] + 1, "done_ns": other["done_ns"] + SECOND_NS // 1000}
    run.put("sends", run.rows("sends"))
    return f"offset {one['offset']} after {other['offset']}"


@kind("nonmonotonic_send")
def acknowledged_out_of_order(run: Recording) -> str:
    """Two records were acknowledged at each other's offsets."""
    one, other = _two(run, run.acked())
    _swap(one, other, "offset")
    run.put("sends", run.rows("sends"))
    return f"offsets {one['offset']} and {other['offset']}"


@kind("bad_ack_offset")
def acknowledged_without_place(run: Recording) -> str:
    """A record was acknowledged at offset -1."""
    victim = run.choose(middle(run.acked()))
    victim["offset"] = -1
    run.put("sends", run.rows("sends"))
    return f"number {victim['seq']}"


@kind("leader_epoch_regression")
def older_epoch_read(run: Recording) -> str:
    """A consumer received a batch of an older leader epoch after one of a newer epoch."""
    live = run.reads("live")
    same = [b for a, b in pairwise(live) if a["leader_epoch"] == b["leader_epoch"] > 0]
    victim = run.choose(same)
    victim["leader_epoch"] -= 1
    run.put("polls", run.rows("polls"))
    return f"offset {victim['offset']}"
