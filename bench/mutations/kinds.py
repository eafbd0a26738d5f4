"""Functions that each damage a recording in one way and return the place.

``found_by`` lists anomalies and invariants, any one of which suffices. ``reason``: the text that the verdict
``unknown`` must contain after evidence was removed.
"""

from __future__ import annotations

import math
import re
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

from bench.mutations.recording import NoPlaceError, Recording, Row, cut_evidence, header, runs_of, with_crc, with_field
from history.kafka_versions import has
from history.readers import CATCH_UP, LIVE_CONSUMER

SECOND_NS = 1_000_000_000


Damage = Callable[[Recording], str]


class Kind(NamedTuple):
    """One way to damage a recording of a scenario."""

    name: str
    words: str
    found_by: tuple[str, ...]
    reason: str | None
    damage: Damage
    scenario: str = "survived_faults"


KINDS: list[Kind] = []
HARMLESS: list[Kind] = []


def kind(*found_by: str, reason: str | None = None, scenario: str = "survived_faults") -> Callable[[Damage], Damage]:
    """Register a function as a kind of damage; the table shows its docstring."""

    def register(damage: Damage) -> Damage:
        words = " ".join((damage.__doc__ or "").split())
        KINDS.append(Kind(damage.__name__, words, found_by, reason, damage, scenario))
        return damage

    return register


def harmless(change: Damage) -> Damage:
    """Register a legal change, after which the verdict must be pass; the table shows its docstring."""
    HARMLESS.append(Kind(change.__name__, " ".join((change.__doc__ or "").split()), (), None, change))
    return change


def _value(row: Row) -> tuple[Any, Any]:
    return row["producer_id"], row["seq"]


def _swap(one: Row, other: Row, *names: str) -> None:
    for name in names:
        one[name], other[name] = other[name], one[name]


def _two(run: Recording, rows: list[Row]) -> tuple[Row, Row]:
    at = run.choose(range(len(rows) // 10, len(rows) // 2))
    return rows[at], rows[at + run.choose(range(20, len(rows) // 4))]


def _middle(rows: list[Any]) -> list[Any]:
    return rows[len(rows) // 10 : -(len(rows) // 10)]


# --- what clients sent and read --------------------------------------------------------------------


@kind("lost_write")
def acknowledged_record_lost(run: Recording) -> str:
    """No reader returns an acknowledged record in the middle of the log."""
    victim = run.choose(_middle(run.acked()))
    run.put("polls", [row for row in run.rows("polls") if _value(row) != _value(victim)])
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
    run.drained_to(cut, cut)
    return f"from offset {cut}"


@kind("undrained", reason="drain")
def drain_stopped_early(run: Recording) -> str:
    """The final drain stopped before the high watermark."""
    cut, end = run.acked()[-run.choose(range(50, 500))]["offset"], len(run.reads("final"))
    run.put("polls", [row for row in run.rows("polls") if row["offset"] < cut])
    run.drained_to(cut, end)
    return f"at offset {cut}"


@kind("duplicate")
def record_doubled(run: Recording) -> str:
    """The final drain returned a record a second time, at the log's end."""
    final = run.reads("final")
    victim, last = run.choose(final), final[-1]
    again = {**victim, "offset": last["offset"] + 1, "position": last["position"] + 1}
    run.put("polls", [*run.rows("polls"), again])
    run.drained_to(again["offset"] + 1, again["offset"] + 1)
    return f"offset {victim['offset']} again at {again['offset']}"


def _copies(run: Recording) -> list[Row]:
    to = run.manifest.scenario["copier"]["to"]
    return [row for row in run.reads("final") if row["topic"] == to]


@kind("lost_output", scenario="exactly_once")
def copy_lost(run: Recording) -> str:
    """No reader returns the copy of a committed input record."""
    victim = run.choose(_middle(_copies(run)))
    run.put("polls", [row for row in run.rows("polls") if _value(row) != _value(victim)])
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
    run.drained_to(phantom["offset"] + 1, phantom["offset"] + 1)
    return f"number {phantom['seq']}"


@kind(reason="The ledger of producer holds")
def ledger_row_missing(run: Recording) -> str:
    """The ledger lacks a send whose record was read, without a report of missing data."""
    victim = run.choose(_middle(run.acked()))
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


@kind("inconsistent_offset")
def records_swapped(run: Recording) -> str:
    """The final drain found two records at each other's offsets."""
    one, other = _two(run, run.reads("final"))
    _swap(one, other, "producer_id", "seq")
    run.put("polls", run.rows("polls"))
    return f"offsets {one['offset']} and {other['offset']}"


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
    one, other = _two(run, run.reads("live"))
    _swap(one, other, "position", "received_ns")
    run.put("polls", run.rows("polls"))
    return f"offsets {one['offset']} and {other['offset']}"


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
    run.edit_summary(before["consumer_id"], lambda summary: summary.update(rows=summary["rows"] + count))
    return before, twice[0], count


@kind("nonmonotonic_poll")
def records_read_again(run: Recording) -> str:
    """The live consumer received some records a second time without a seek."""
    before, first, count = _read_again(run)
    return f"{count} records, from offset {first['offset']} after {before['offset']}"


@harmless
def reader_sought_back(run: Recording) -> str:
    """The live consumer sought back and read some records again; its seek is recorded."""
    before, first, count = _read_again(run)
    reader = {name: before[name] for name in ("consumer_id", "pass", "topic", "partition", "leader_epoch")}
    seek = {"position": first["position"], "from_offset": before["offset"] + 1, "to_offset": first["offset"]}
    why = {"why": "the position is out of range", "sought_ns": before["received_ns"]}
    run.put("seeks", [*run.rows("seeks"), reader | seek | why])
    run.edit_summary(before["consumer_id"], lambda summary: summary.update(seeks=summary["seeks"] + 1))
    return f"{count} records, from offset {first['offset']} after {before['offset']}"


@kind("nonrepeatable_read")
def read_again_differs(run: Recording) -> str:
    """At two offsets, the live consumer read other values than the final drain."""
    one, other = _two(run, run.reads("live"))
    _swap(one, other, "producer_id", "seq")
    run.put("polls", run.rows("polls"))
    return f"offsets {one['offset']} and {other['offset']}"


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
    victim = run.choose(_middle(run.acked()))
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


# --- probe samples of the replicas -----------------------------------------------------------------


def _place(sample: Row) -> str:
    return f"broker {sample['broker_id']} in epoch {sample['leader_epoch']}"


def _of_life(run: Recording, sample: Row) -> list[Row]:
    life = ("partition", "broker_id", "incarnation", "leader_epoch")
    return [row for row in run.samples() if all(row[name] == sample[name] for name in life)]


def _earlier(run: Recording, sample: Row) -> list[Row]:
    return [row for row in _of_life(run, sample) if row["received_ns"] <= sample["sent_ns"]]


@kind("I1")
def log_start_above_high_watermark(run: Recording) -> str:
    """One sample shows a log that starts above its high watermark."""
    sample = run.choose(run.samples())
    sample["log_start_offset"] = sample["high_watermark"] + 1
    run.put("replicas", run.rows("replicas"))
    return _place(sample)


@kind("I2")
def high_watermark_above_log_end(run: Recording) -> str:
    """One sample shows a high watermark above the log end."""
    sample = run.choose([row for row in run.samples() if row["single_reply"]])
    sample["high_watermark"] = sample["log_end_offset"] + 1
    run.put("replicas", run.rows("replicas"))
    return _place(sample)


@kind("I3")
def leader_high_watermark_fell(run: Recording) -> str:
    """A leader's high watermark fell within its epoch."""
    sample = run.first(run.of_leader(), lambda row: len(_earlier(run, row)) > 5)
    sample["high_watermark"] = max(row["high_watermark"] for row in _earlier(run, sample)) - run.choose([1, 7, 100])
    run.put("replicas", run.rows("replicas"))
    return _place(sample)


@kind("I4")
def follower_high_watermark_fell_twice(run: Recording) -> str:
    """A follower's high watermark fell twice within one epoch."""
    leading = [id(row) for row in run.of_leader()]
    followers = [row for row in run.samples() if id(row) not in leading and row["high_watermark"] > 100]
    lives = runs_of(
        sorted(followers, key=lambda row: (row["broker_id"], row["incarnation"] or 0, row["leader_epoch"])),
        lambda row: (row["broker_id"], row["incarnation"], row["leader_epoch"]),
    )
    life = run.choose([life for life in lives if len(life) > 20])
    at = run.choose(range(5, len(life) - 10))
    for sample, before in ((life[at], life[at - 1]), (life[at + 5], life[at + 4])):
        sample["high_watermark"] = before["high_watermark"] - 3
    run.put("replicas", run.rows("replicas"))
    return _place(life[at])


@kind("I6")
def log_end_fell_below_high_watermark(run: Recording) -> str:
    """A replica's log ended below a high watermark that it had shown."""
    sample = run.first(run.samples(), lambda row: len(_earlier(run, row)) > 5)
    sample["log_end_offset"] = max(row["high_watermark"] for row in _earlier(run, sample)) - 1
    sample["high_watermark"] = min(sample["high_watermark"], sample["log_end_offset"])
    run.put("replicas", run.rows("replicas"))
    return _place(sample)


@kind("I7")
def in_sync_replica_incomplete(run: Recording) -> str:
    """An ISR member lacked records that its leader had shown as committed."""

    def shown(sample: Row) -> int:
        before = (r["high_watermark"] for r in run.of_leader() if r["received_ns"] < sample["sent_ns"] - SECOND_NS)
        return max(before, default=0)

    followers = [row for row in run.samples() if not run.leads(row)]
    sample = run.first(followers, lambda row: len(run.isr_at(row["sent_ns"])) == len(run.brokers) and shown(row) > 100)
    sample["log_end_offset"] = shown(sample) - 1
    sample["high_watermark"] = min(sample["high_watermark"], sample["log_end_offset"])
    run.put("replicas", run.rows("replicas"))
    return _place(sample)


@kind("I8")
def epoch_begun_below_high_watermark(run: Recording) -> str:
    """In the epoch files, an epoch begins below a high watermark of the epoch before."""
    entries = re.findall(r"^(\d+) (\d+)$", run.epoch_files()[0].read_text(), re.MULTILINE)
    epoch, start = run.choose([(e, s) for e, s in entries if int(s) > 1000])
    earlier = int(start) - run.choose([50, 200])
    for file in run.epoch_files():
        run.edit(file, lambda text: text.replace(f"\n{epoch} {start}\n", f"\n{epoch} {earlier}\n"))
    return f"epoch {epoch} at {earlier} instead of {start}"


@kind("I9")
def follower_ahead_of_its_leader(run: Recording) -> str:
    """A follower's high watermark was above its leader's next one."""
    leading = [id(row) for row in run.of_leader()]
    last = max(row["sent_ns"] for row in run.samples()) - 5 * SECOND_NS
    sample = run.choose(
        [row for row in run.samples() if id(row) not in leading and row["high_watermark"] and row["sent_ns"] < last]
    )
    sample["high_watermark"] += 5000
    sample["log_end_offset"] = sample["high_watermark"] + 1
    run.put("replicas", run.rows("replicas"))
    return _place(sample)


@kind("I10")
def high_watermark_stuck(run: Recording) -> str:
    """On an idle partition with all replicas in sync, the high watermark stayed below the log end."""
    if run.manifest.mode == "zookeeper":  # an eviction may take longer than any idle period
        raise NoPlaceError
    full = [row for row in run.samples() if len(run.isr_at(row["sent_ns"])) == len(run.brokers)]
    quiet = [
        rows
        for rows in runs_of(full, lambda row: row["leader_epoch"])
        if rows[-1]["sent_ns"] - rows[0]["sent_ns"] > 7 * SECOND_NS
        and max(b["sent_ns"] - a["sent_ns"] for a, b in pairwise(rows)) < SECOND_NS
    ]
    chosen = run.choose(quiet)
    end = min(row["log_end_offset"] for row in chosen)
    for row in chosen:
        row |= {"log_end_offset": end, "high_watermark": end - 2}
    run.put("replicas", run.rows("replicas"))
    return f"epoch {chosen[0]['leader_epoch']}, log end {end}"


@kind("I11")
def high_watermark_moved_below_min_isr(run: Recording) -> str:
    """The high watermark moved while the ISR was smaller than min.insync.replicas."""
    alone = [row for row in run.of_leader() if len(run.isr_at(row["sent_ns"])) == 1]
    if not has("strict_min_isr", run.manifest.kafka_version) or len(alone) < 20:
        raise NoPlaceError
    for row in alone[-run.choose(range(5, 15)) :]:
        row["high_watermark"] += 2
        row["log_end_offset"] = max(row["log_end_offset"], row["high_watermark"])
    run.put("replicas", run.rows("replicas"))
    return _place(alone[-1])


@kind("I22")
def high_watermark_never_reached_epoch(run: Recording) -> str:
    """A new leader's high watermark stayed below the start of its epoch."""
    if run.manifest.mode == "zookeeper":  # an eviction may take longer than any state of this recording
        raise NoPlaceError
    epoch = max(epoch for _, epoch in run.leaders)
    texts = (file.read_text() for file in run.epoch_files())
    starts = [int(start) for text in texts for start in re.findall(rf"^{epoch} (\d+)$", text, re.MULTILINE)]
    if not starts:
        raise NoPlaceError
    for row in run.samples():
        if row["leader_epoch"] == epoch:
            row["high_watermark"] = min(starts) - 1
    run.put("replicas", run.rows("replicas"))
    return f"epoch {epoch}"


@kind("I23")
def follower_kept_in_isr(run: Recording) -> str:
    """A follower that stopped stayed in the ISR for longer than allowed."""
    if run.manifest.mode == "zookeeper":  # the limit is longer than the preceding phase
        raise NoPlaceError
    begun = next(event for event in run.events if event.kind == "inject" and event.step == "pause")
    moved = [
        replace(event, t_ns=event.t_ns - 7 * SECOND_NS)
        if event.kind in {"inject", "injected"} and (event.phase, event.step) == (begun.phase, begun.step)
        else event
        for event in run.events
    ]
    run.put_events(moved)
    return f"{begun.target}, paused 7 s earlier"


@kind("I24")
def joined_without_catching_up(run: Recording) -> str:
    """A replica joined the ISR with a log end below the leader's high watermark."""
    views = sorted((row for row in run.rows("isr") if row["isr"]), key=lambda row: int(row["received_ns"]))
    joins = [
        (after["received_ns"], (set(after["isr"]) - set(before["isr"])).pop())
        for before, after in pairwise(views)
        if len(set(after["isr"]) - set(before["isr"])) == 1
        and before["leader"] == after["leader"]
        and run.isr_at(after["received_ns"] + SECOND_NS) == sorted(after["isr"])  # I24 needs a sample in that state
    ]
    at_ns, broker_id = run.choose(joins)
    shown = max(row["high_watermark"] for row in run.of_leader() if row["received_ns"] < at_ns - 2 * SECOND_NS)
    for row in run.samples():
        if row["broker_id"] == broker_id and abs(row["sent_ns"] - at_ns) < 2 * SECOND_NS:
            row["log_end_offset"] = min(row["log_end_offset"], shown - 10)
            row["high_watermark"] = min(row["high_watermark"], row["log_end_offset"])
    run.put("replicas", run.rows("replicas"))
    return f"broker {broker_id}"


@kind("I28")
def acknowledged_below_min_isr(run: Recording) -> str:
    """A send was acknowledged while the ISR was smaller than min.insync.replicas."""
    alone = [row for row in run.of_leader() if len(run.isr_at(row["sent_ns"])) == 1]
    lasting = [rows for rows in runs_of(alone, lambda row: row["leader_epoch"]) if len(rows) > 20]
    sample = run.choose(
        [row for rows in lasting for row in rows if row["sent_ns"] > rows[0]["sent_ns"] + 5 * SECOND_NS]
    )
    heads = [header(batch) for batch in run.batches(sample["broker_id"])]
    own = [head for head in heads if head["leader_epoch"] == sample["leader_epoch"]]
    victim = run.first(
        run.acked(), lambda row: any(head["base_offset"] <= row["offset"] <= head["last_offset"] for head in own)
    )
    victim |= {"sent_ns": sample["sent_ns"], "done_ns": sample["received_ns"]}
    run.put("sends", run.rows("sends"))
    return f"offset {victim['offset']}, {_place(sample)}"


# --- transactions ----------------------------------------------------------------------------------


def _committed(run: Recording) -> list[Row]:
    number = run.choose(_middle(sorted({row["transaction"] for row in run.acked() if row["transaction"] is not None})))
    return [row for row in run.acked() if row["transaction"] == number]


@kind("torn_transaction", scenario="transactions")
def transaction_read_in_part(run: Recording) -> str:
    """No reader returned one record of a committed transaction; the others were read."""
    victim = run.choose(_committed(run))
    run.put("polls", [row for row in run.rows("polls") if _value(row) != _value(victim)])
    return f"transaction {victim['transaction']}"


@kind("aborted_read", scenario="transactions")
def aborted_transaction_read(run: Recording) -> str:
    """Readers received a transaction that its producer reports as aborted."""
    chosen = _committed(run)
    for row in chosen:
        row |= {"outcome": "fail", "error": "aborted"}
    run.put("sends", run.rows("sends"))
    return f"transaction {chosen[0]['transaction']}"


@kind("I27", scenario="transactions")
def aborted_transaction_committed_in_logs(run: Recording) -> str:
    """The logs end an aborted transaction, which was never read, with a commit."""
    chosen = _committed(run)
    values = {_value(row) for row in chosen}
    for row in chosen:
        row |= {"outcome": "fail", "error": "aborted"}
    run.put("sends", run.rows("sends"))
    run.put("polls", [row for row in run.rows("polls") if _value(row) not in values])
    return f"transaction {chosen[0]['transaction']}"


@kind("I26", scenario="transactions")
def stable_offset_above_high_watermark(run: Recording) -> str:
    """A leader's last stable offset was above the next high watermark that it showed."""
    sample = run.first(
        run.of_leader(), lambda row: any(row["received_ns"] <= later["sent_ns"] for later in _of_life(run, row))
    )
    sample["last_stable_offset"] = sample["high_watermark"] + 5000
    run.put("replicas", run.rows("replicas"))
    return _place(sample)


# --- the replicas' files ---------------------------------------------------------------------------


def _in_one_batch(run: Recording, change: Callable[[bytearray], bytearray]) -> str:
    broker_id = run.choose(list(run.brokers))
    found = run.batches(broker_id)
    at = run.choose(range(len(found)))
    found[at] = change(found[at])
    run.put_batches(broker_id, found)
    return f"broker {broker_id} at offset {header(found[at])['base_offset']}"


def _moved(batch: bytearray, name: str, by: int) -> bytearray:
    return with_field(batch, name, header(batch)[name] + by)


@kind("corrupt_record")
def bit_flipped(run: Recording) -> str:
    """One bit of one replica's log is flipped."""

    def flipped(batch: bytearray) -> bytearray:
        batch[run.choose(range(70, len(batch)))] ^= 1 << run.choose(range(8))
        return batch

    return _in_one_batch(run, flipped)


@kind("I12")
def committed_batch_differs(run: Recording) -> str:
    """A committed batch of one replica has another timestamp, with a valid checksum."""
    return _in_one_batch(run, lambda batch: _moved(batch, "base_timestamp", 1))


@kind("I13")
def records_of_one_replica_differ(run: Recording) -> str:
    """A batch of one replica has other records of the same epoch, with a valid checksum."""

    def other(batch: bytearray) -> bytearray:
        batch[-12] ^= 1
        return with_crc(batch)

    return _in_one_batch(run, other)


@kind("I14")
def batch_of_another_epoch(run: Recording) -> str:
    """A batch of one replica has another leader epoch than its epoch file states."""
    return _in_one_batch(run, lambda batch: _moved(batch, "leader_epoch", 1))


@kind("I14")
def epoch_file_out_of_order(run: Recording) -> str:
    """Two entries of one replica's epoch file are in the wrong order."""
    file = run.choose(run.epoch_files())
    lines = file.read_text().splitlines()
    at = run.choose(range(2, len(lines) - 1))
    lines[at], lines[at + 1] = lines[at + 1], lines[at]
    run.edit(file, lambda _: "\n".join(lines) + "\n")
    return file.parts[-4]


@kind("I15")
def in_sync_log_lacks_a_batch(run: Recording) -> str:
    """One replica of the final ISR lacks a batch of acknowledged records."""
    broker_id = run.choose(list(run.brokers))
    found = run.batches(broker_id)
    gone = found.pop(run.choose(range(1, len(found) - 1)))
    run.put_batches(broker_id, found)
    return f"broker {broker_id} at offset {header(gone)['base_offset']}"


@kind("I16")
def read_record_in_no_log(run: Recording) -> str:
    """Records that consumers received are in no replica's log."""
    at = run.choose(_middle([header(batch)["base_offset"] for batch in run.batches(1)]))
    for broker_id in run.brokers:
        run.put_batches(broker_id, [b for b in run.batches(broker_id) if header(b)["base_offset"] != at])
    return f"offset {at}"


@kind("I17")
def sequence_repeated(run: Recording) -> str:
    """An idempotent producer's sequence numbers repeat, in all logs alike."""
    at = run.choose(_middle([header(batch)["base_offset"] for batch in run.batches(1)]))
    for broker_id in run.brokers:
        found = run.batches(broker_id)
        changed = [_moved(b, "base_sequence", -1) if header(b)["base_offset"] == at else b for b in found]
        run.put_batches(broker_id, changed)
    return f"offset {at}"


# --- what the controller and the brokers logged ----------------------------------------------------

_STARTED = re.compile(
    r"^.*\[Broker id=(\d+)\] Leader orders-0 .*?starts at leader epoch (\d+) from offset (\d+).*\n", re.M
)


@kind("I19")
def two_leaders_in_one_epoch(run: Recording) -> str:
    """A second broker's log reports that it began to lead in another leader's epoch."""
    logs = run.server_logs()
    found = [match for file in logs.values() for match in _STARTED.finditer(file.read_text())]
    match = run.choose(found)
    other = run.choose([broker_id for broker_id in logs if str(broker_id) != match[1]])
    line = match[0].replace(f"[Broker id={match[1]}]", f"[Broker id={other}]")
    run.edit(logs[other], lambda text: text + line)
    return f"brokers {match[1]} and {other} in epoch {match[2]}"


@kind("I19")
def view_of_another_leader(run: Recording) -> str:
    """One broker's metadata names another leader in one epoch."""
    view = run.choose([row for row in run.rows("isr") if (row["leader"] or -1) > 0])
    view["leader"] = run.choose([broker_id for broker_id in run.brokers if broker_id != view["leader"]])
    run.put("isr", run.rows("isr"))
    return f"epoch {view['leader_epoch']}"


@kind("I20")
def wrong_leader_elected(run: Recording) -> str:
    """The controller elected an ISR member that is not the first of the assignment."""
    run.edit_history(lambda isr, leader: (isr, next(broker_id for broker_id in isr if broker_id != leader)))
    return "one election"


@kind("I21")
def isr_outside_assignment(run: Recording) -> str:
    """The controller wrote an ISR with a broker that holds no replica."""
    run.edit_history(lambda isr, leader: ([9 if broker_id != leader else leader for broker_id in isr], leader))
    return "one election"


@kind("I25")
def boot_above_log_end(run: Recording) -> str:
    """A replica started with a high watermark above its log end."""
    boot = re.compile(r"(Log loaded for partition orders-0 with initial high watermark )(\d+)")
    logs = {broker_id: file for broker_id, file in run.server_logs().items() if boot.search(file.read_text())}
    broker_id = run.choose(list(logs))
    run.edit(logs[broker_id], lambda text: boot.sub(r"\g<1>9\2", text))
    return f"broker {broker_id}"


@kind("source_disagreement")
def leader_began_elsewhere(run: Recording) -> str:
    """In a broker's log, its epoch begins at another offset than in the epoch files."""
    logs = run.server_logs()
    broker_id = run.choose([broker_id for broker_id, file in logs.items() if _STARTED.search(file.read_text())])
    run.edit(logs[broker_id], lambda text: re.sub(r"(Leader orders-0 .*? from offset )(\d+)", r"\g<1>1\2", text))
    return f"broker {broker_id}"


@kind("I38", scenario="group_members")
def isr_change_without_an_end(run: Recording) -> str:
    """The last leader proposed a smaller ISR, but its metadata stayed unchanged for another two minutes."""
    led = [
        row for row in run.rows("isr") if row["partition"] == run.partition and row["observer"] == str(row["leader"])
    ]
    last = max(led, key=lambda row: int(row["received_ns"]), default=None)
    if last is None or len(last["isr"]) < 2:
        raise NoPlaceError
    leader, isr = last["leader"], sorted(last["isr"])
    gone = run.choose([member for member in isr if member != leader])
    log = run.server_logs()[leader]
    stamp = re.findall(r"^\d{4}-\S+ \[.*?\] ", log.read_text(), re.MULTILINE)[-1]
    before, after = (",".join(map(str, members)) for members in (isr, [each for each in isr if each != gone]))
    line = (
        f"{stamp}INFO kafka.cluster.Partition - [Partition {run.topic}-{run.partition} broker={leader}] Shrinking ISR "
        f"from {before} to {after}. Leader: (highWatermark: 1, endOffset: 2). Out of sync replicas: (brokerId: {gone}, "
        "endOffset: 1).\n"
    )
    run.edit(log, lambda text: text + line)
    later = {name: last[name] + 120 * SECOND_NS for name in ("sent_ns", "received_ns")}
    run.put("isr", [*run.rows("isr"), last | later])
    return f"broker {leader} without {gone}"


# --- missing evidence ------------------------------------------------------------------------------


@kind(reason="probe")
def no_probe(run: Recording) -> str:
    """The probe's samples are missing."""
    run.put("replicas", [])
    return "all of them"


@kind(reason="probe")
def replica_never_probed(run: Recording) -> str:
    """The probe has no sample of one replica."""
    broker_id = run.choose(list(run.brokers))
    run.put("replicas", [row for row in run.rows("replicas") if row["broker_id"] != broker_id])
    return f"broker {broker_id}"


@kind(reason="server log")
def no_broker_log(run: Recording) -> str:
    """One broker's log was not collected."""
    broker_id = run.choose(list(run.brokers))
    run.server_logs()[broker_id].unlink()
    return f"broker {broker_id}"


@kind(reason="segment")
def no_segments(run: Recording) -> str:
    """No replica's segments were exported."""
    for broker_id in run.brokers:
        run.segment(broker_id).unlink()
    return "all of them"


@kind(reason="segment")
def segments_of_one_replica_missing(run: Recording) -> str:
    """One replica's segments were not exported."""
    broker_id = run.choose(list(run.brokers))
    run.segment(broker_id).unlink()
    return f"broker {broker_id}"


@kind(reason="log of orders-0")
def segment_torn(run: Recording) -> str:
    """One replica's segment was exported in part."""
    broker_id = run.choose(list(run.brokers))
    whole = run.segment(broker_id).read_bytes()
    run.replace(run.segment(broker_id), whole[: len(whole) * run.choose(range(2, 9)) // 10 + 7])
    return f"broker {broker_id}"


@kind(reason="drain")
def no_final_drain(run: Recording) -> str:
    """There is no final drain of the log."""
    run.put("polls", [row for row in run.rows("polls") if row["pass"] != "final"])
    (run.folder.clients / "drain.json").unlink()
    return "all of it"


@kind(reason="controller|ZooKeeper")
def no_history(run: Recording) -> str:
    """The controller's history was not collected."""
    names = ("__cluster_metadata-0", "version-2")
    for folder in [path for name in names for path in run.folder.brokers.rglob(name)]:
        shutil.rmtree(folder)
    return "all copies"


@kind(reason="capture")
def capture_missing(run: Recording) -> str:
    """One of the captures of all offsets is missing: before the first phase, or at the end."""
    chosen = run.choose(["before", "after"])
    run.put("offsets", [row for row in run.rows("offsets") if row["capture"] != chosen])
    return chosen


@kind(reason="ledger")
def ledger_cut_short(run: Recording) -> str:
    """The last sends are missing in the ledger, the logs and the readers' records."""
    cut = run.acked()[-run.choose(range(10, 100))]
    run.put("sends", [row for row in run.rows("sends") if row["seq"] < cut["seq"]])
    run.put("polls", [row for row in run.rows("polls") if row["offset"] < cut["offset"]])
    run.drained_to(cut["offset"], cut["offset"])
    return f"from number {cut['seq']}"


@kind(reason="read")
def table_damaged(run: Recording) -> str:
    """A recorded table's file is cut in two."""
    file = run.choose(sorted(run.folder.table("sends").glob("*.parquet")))
    run.replace(file, file.read_bytes()[: file.stat().st_size // 2])
    return file.name


@kind(reason="effect")
def fault_took_no_effect(run: Recording) -> str:
    """One fault has no proof that it took effect."""
    event = run.choose([event for event in run.events if event.kind == "injected"])
    changed = replace(event, detail={**event.detail, "effect_verified": False})
    run.put_events([changed if each is event else each for each in run.events])
    return f"{event.step} of {event.target}"


@kind(reason="heal")
def fault_never_healed(run: Recording) -> str:
    """One fault has no proof that it healed."""
    event = [event for event in run.events if event.kind == "healed"][-1]
    run.put_events([each for each in run.events if each is not event])
    return f"{event.step} of {event.target}"


@kind(reason="phase")
def phase_missing(run: Recording) -> str:
    """One phase of the scenario did not finish."""
    event = run.choose([event for event in run.events if event.kind == "phase_ended"])
    run.put_events([each for each in run.events if each is not event])
    return event.phase


@kind(reason="harness")
def harness_failed(run: Recording) -> str:
    """The harness recorded an internal error."""
    event = run.choose(run.events)
    run.put_events([*run.events, replace(event, kind="error", detail={"why": "the daemon went away"})])
    return event.kind


# --- where readers were at the end -----------------------------------------------------------------


def _stood_still(run: Recording) -> None:
    """Move the readers' last check by two minutes, with reports up to then."""
    looked = next((event for event in run.events if event.step == CATCH_UP), None)
    if looked is None:
        raise NoPlaceError
    at_ns = looked.t_ns + 120 * SECOND_NS
    detail = {**looked.detail, "told": dict.fromkeys(looked.detail["told"], at_ns)}
    run.put_events([replace(each, t_ns=at_ns, detail=detail) if each is looked else each for each in run.events])


def _had(run: Recording) -> list[Row]:
    return [
        row for row in run.rows("positions") if row["partition"] == run.partition and row["reader"] != LIVE_CONSUMER
    ]


@kind("I37", scenario="group_members")
def member_that_stands_still(run: Recording) -> str:
    """A group member stopped below the end of its partition."""
    row = run.choose(_had(run))
    row["position"] = run.choose([None, *range(row["position"])])
    run.put("positions", run.rows("positions"))
    _stood_still(run)
    return f"{row['reader']} at offset {row['position']}"


@kind("I37", scenario="group_members")
def live_consumer_that_stands_still(run: Recording) -> str:
    """The live consumer stopped below the end of a partition."""
    row = run.choose([row for row in run.rows("positions") if row["reader"] == LIVE_CONSUMER])
    row["position"] = run.choose(range(row["position"]))
    run.put("positions", run.rows("positions"))
    _stood_still(run)
    return f"{row['topic']}-{row['partition']} at offset {row['position']}"


@kind("I37", scenario="group_members")
def partition_that_no_member_has(run: Recording) -> str:
    """No group member had a partition, although all were alive."""
    had = _had(run)
    run.put("positions", [row for row in run.rows("positions") if row not in had])
    _stood_still(run)
    return f"partition {run.partition}"


@kind(reason="reader", scenario="group_members")
def member_that_was_not_waited_for(run: Recording) -> str:
    """A member was below the end of its partition just after it had moved."""
    row = run.choose(_had(run))
    row["position"] = run.choose(range(row["position"]))
    run.put("positions", run.rows("positions"))
    return f"{row['reader']} at offset {row['position']}"


# --- what a consumer group read and committed ------------------------------------------------------


@kind("group_skip", scenario="group_members")
def committed_record_read_by_no_member(run: Recording) -> str:
    """The members' reads lack a record below the committed offset."""
    reads = [row for row in run.rows("group_reads") if row["partition"] == run.partition]
    counted = Counter(offset for row in reads for offset in (row["first_offset"], row["last_offset"]))

    def alone(row: Row) -> bool:
        at = row["last_offset"]
        inside = any(other is not row and other["first_offset"] <= at <= other["last_offset"] for other in reads)
        return row["first_offset"] < at and counted[at] == 1 and not inside

    victim = run.first(_middle(reads), alone)
    victim["last_offset"] -= 1
    run.put("group_reads", run.rows("group_reads"))
    return f"offset {victim['last_offset'] + 1}"


def _handed_over(run: Recording) -> list[tuple[Row, Row]]:
    of_partition = (row for row in run.rows("rebalances") if row["partition"] == run.partition)
    in_order = sorted(of_partition, key=lambda row: int(row["changed_ns"]))
    return [
        (before, after)
        for before, after in pairwise(in_order)
        if (before["change"], after["change"]) == ("revoked", "assigned") and before["member"] != after["member"]
    ]


def _first_read(run: Recording) -> Row:
    _, given = run.choose(_handed_over(run))
    reads = [
        row
        for row in run.rows("group_reads")
        if (row["partition"], row["member"]) == (run.partition, given["member"])
        and row["received_ns"] > given["changed_ns"]
        and row["last_offset"] > row["first_offset"] + 3
    ]
    return min(reads, key=lambda row: int(row["received_ns"]))


@kind("I29", scenario="group_members")
def owner_starts_too_late(run: Recording) -> str:
    """A new owner began to read behind the offset that the group had committed."""
    first = _first_read(run)
    first["first_offset"] += run.choose(range(1, 4))
    run.put("group_reads", run.rows("group_reads"))
    return f"{first['member']} at offset {first['first_offset']}"


@kind("I30", scenario="group_members")
def owner_starts_too_early(run: Recording) -> str:
    """A new owner read records again that were already committed."""
    first = _first_read(run)
    first["first_offset"] = max(0, first["first_offset"] - run.choose(range(1, 9)))
    run.put("group_reads", run.rows("group_reads"))
    return f"{first['member']} at offset {first['first_offset']}"


@kind("I31", scenario="group_members")
def commit_falls(run: Recording) -> str:
    """An accepted commit has a lower offset than those before it."""
    taken = [
        row
        for row in run.rows("commits")
        if row["partition"] == run.partition and row["answered_ns"] is not None and row["error"] is None
    ]
    victim = run.choose(_middle(sorted(taken, key=lambda row: int(row["asked_ns"]))))
    victim["offset"] = run.choose(range(100))
    run.put("commits", run.rows("commits"))
    return f"{victim['member']} to offset {victim['offset']}"


@kind("I32", scenario="group_members")
def former_owner_commits(run: Recording) -> str:
    """A member's commit was accepted after another member received its partition."""
    gave_up, given = run.choose(_handed_over(run))
    gave_up["changed_ns"] = given["changed_ns"] + 3_000_000
    own = [
        row
        for row in run.rows("commits")
        if (row["partition"], row["member"]) == (run.partition, gave_up["member"]) and row["error"] is None
    ]
    before = [row for row in own if row["answered_ns"] is not None and row["answered_ns"] < given["changed_ns"]]
    last = max(before, key=lambda row: int(row["asked_ns"]), default=None)
    if last is None:
        raise NoPlaceError
    last |= {"asked_ns": given["changed_ns"] + 1_000_000, "answered_ns": given["changed_ns"] + 2_000_000}
    for table in ("rebalances", "commits"):
        run.put(table, run.rows(table))
    return f"{gave_up['member']} at offset {last['offset']}"


# --- what a share group was given and acknowledged --------------------------------------------------


def _calm(run: Recording, *, left_s: float) -> Row:
    """Return a first delivery of at least four records, ``left_s`` to ``left_s + 2`` seconds before the first fault."""
    first_fault = min(event.t_ns for event in run.events if event.kind == "inject")
    to_ns = first_fault - int(left_s * 1e9)
    return run.choose(
        [
            row
            for row in run.rows("share_reads")
            if (row["partition"], row["delivery_count"]) == (run.partition, 1)
            and to_ns - 2_000_000_000 <= row["received_ns"] <= to_ns
            and row["last_offset"] > row["first_offset"] + 2
        ]
    )


def _without(rows: list[Row], partition: int, offset: int) -> list[Row]:
    found = []
    for row in rows:
        if row["partition"] != partition or not row["first_offset"] <= offset <= row["last_offset"]:
            found.append(row)
            continue
        parts = [row | {"last_offset": offset - 1}, row | {"first_offset": offset + 1}]
        found += [part for part in parts if part["first_offset"] <= part["last_offset"]]
    return found


def _given_again(run: Recording, row: Row, after_s: float, count: int, polled_s: float | None = None) -> str:
    """The other member's fetch begins ``polled_s`` after the first delivery."""
    living = {each["member"] for each in run.rows("share_reads") if each["received_ns"] <= row["received_ns"]}
    others = sorted(living - {row["member"]})
    offset, received_ns = row["first_offset"] + 1, row["received_ns"] + int(after_s * 1e9)
    again = row | {"member": run.choose(others), "first_offset": offset, "last_offset": offset, "delivery_count": count}
    again |= {"received_ns": received_ns, "since_ns": row["received_ns"] + int((polled_s or after_s - 0.1) * 1e9)}
    run.put("share_reads", [*run.rows("share_reads"), again])
    return f"offset {offset} to {again['member']}"


@kind("stuck_record", scenario="share_group")
def shared_record_given_to_nobody(run: Recording) -> str:
    """A record is missing in the deliveries and acknowledgements of a share group."""
    offset = _calm(run, left_s=1)["first_offset"] + 1
    for table in ("share_reads", "share_acks"):
        run.put(table, _without(run.rows(table), run.partition, offset))
    return f"offset {offset}"


@kind("archived_record", scenario="share_group")
def shared_record_given_up(run: Recording) -> str:
    """A record's first delivery has the limit as its delivery count, and no member accepts it."""
    row = _calm(run, left_s=6)
    offset, limit = row["first_offset"] + 1, (run.manifest.group or {})["delivery_limit"]
    last = row | {"first_offset": offset, "last_offset": offset, "delivery_count": limit}
    run.put("share_reads", [*_without(run.rows("share_reads"), run.partition, offset), last])
    run.put("share_acks", _without(run.rows("share_acks"), run.partition, offset))
    return f"offset {offset}"


@kind("I33", scenario="share_group")
def accepted_record_given_again(run: Recording) -> str:
    """A record is delivered to another member long after it was accepted."""
    return _given_again(run, _calm(run, left_s=5), 4.0, 2)


@kind("I34", scenario="share_group")
def shared_record_with_two_holders(run: Recording) -> str:
    """A record is delivered to another member while the first one holds it."""
    return _given_again(run, _calm(run, left_s=3), 0.5, 2)


@kind("I35", scenario="share_group")
def shared_record_beyond_its_limit(run: Recording) -> str:
    """A record is delivered more often than the limit allows."""
    row = _calm(run, left_s=1)
    row["delivery_count"] = (run.manifest.group or {})["delivery_limit"] + run.choose(range(1, 4))
    run.put("share_reads", run.rows("share_reads"))
    return f"offsets {row['first_offset']} to {row['last_offset']}"


@kind("I36", scenario="share_group")
def delivery_that_was_not_counted(run: Recording) -> str:
    """A record has the same delivery count at another member, who may have fetched it before."""
    return _given_again(run, _calm(run, left_s=3), 2.7, 1, polled_s=0.01)
