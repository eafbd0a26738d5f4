"""Damage to the probe's samples of the replicas."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

from history.kafka_versions import has
from tests.mutations.kind import SECOND_NS, kind, of_life, place_of
from tests.mutations.recording import NoPlaceError, Recording, Row, edit, header, runs_of


def _followers(run: Recording) -> list[Row]:
    leading = {id(row) for row in run.of_leader()}
    return [row for row in run.samples() if id(row) not in leading]


def _earlier(run: Recording, sample: Row) -> list[Row]:
    return [row for row in of_life(run, sample) if row["received_ns"] <= sample["sent_ns"]]


@kind("I1")
def log_start_above_high_watermark(run: Recording) -> str:
    """One sample shows a log that starts above its high watermark."""
    sample = run.choose(run.samples())
    sample["log_start_offset"] = sample["high_watermark"] + 1
    run.put("replicas", run.rows("replicas"))
    return place_of(sample)


@kind("I2")
def high_watermark_above_log_end(run: Recording) -> str:
    """One sample shows a high watermark above the log end."""
    sample = run.choose([row for row in run.samples() if row["single_reply"]])
    sample["high_watermark"] = sample["log_end_offset"] + 1
    run.put("replicas", run.rows("replicas"))
    return place_of(sample)


@kind("I3")
def leader_high_watermark_fell(run: Recording) -> str:
    """A leader's high watermark fell within its epoch."""
    sample = run.first(run.of_leader(), lambda row: len(_earlier(run, row)) > 5)
    sample["high_watermark"] = max(row["high_watermark"] for row in _earlier(run, sample)) - run.choose([1, 7, 100])
    run.put("replicas", run.rows("replicas"))
    return place_of(sample)


@kind("I4")
def follower_high_watermark_fell_twice(run: Recording) -> str:
    """A follower's high watermark fell twice within one epoch."""
    followers = [row for row in _followers(run) if row["high_watermark"] > 100]
    lives = runs_of(
        sorted(followers, key=lambda row: (row["broker_id"], row["incarnation"] or 0, row["leader_epoch"])),
        lambda row: (row["broker_id"], row["incarnation"], row["leader_epoch"]),
    )
    life = run.choose([life for life in lives if len(life) > 20])
    at = run.choose(range(5, len(life) - 10))
    for sample, before in ((life[at], life[at - 1]), (life[at + 5], life[at + 4])):
        sample["high_watermark"] = before["high_watermark"] - 3
    run.put("replicas", run.rows("replicas"))
    return place_of(life[at])


@kind("I6")
def log_end_fell_below_high_watermark(run: Recording) -> str:
    """A replica's log ended below a high watermark that it had shown."""
    sample = run.first(run.samples(), lambda row: len(_earlier(run, row)) > 5)
    sample["log_end_offset"] = max(row["high_watermark"] for row in _earlier(run, sample)) - 1
    sample["high_watermark"] = min(sample["high_watermark"], sample["log_end_offset"])
    run.put("replicas", run.rows("replicas"))
    return place_of(sample)


@kind("I7")
def in_sync_replica_incomplete(run: Recording) -> str:
    """An ISR member lacked records that its leader had shown as committed."""

    def shown(sample: Row) -> int:
        before = (r["high_watermark"] for r in run.of_leader() if r["received_ns"] < sample["sent_ns"] - SECOND_NS)
        return max(before, default=0)

    sample = run.first(
        _followers(run), lambda row: len(run.isr_at(row["sent_ns"])) == len(run.brokers) and shown(row) > 100
    )
    sample["log_end_offset"] = shown(sample) - 1
    sample["high_watermark"] = min(sample["high_watermark"], sample["log_end_offset"])
    run.put("replicas", run.rows("replicas"))
    return place_of(sample)


@kind("I8")
def epoch_begun_below_high_watermark(run: Recording) -> str:
    """In the epoch files, an epoch begins below a high watermark of the epoch before."""
    entries = re.findall(r"^(\d+) (\d+)$", run.epoch_files()[0].read_text(), re.MULTILINE)
    epoch, start = run.choose([(e, s) for e, s in entries if int(s) > 1000])
    earlier = int(start) - run.choose([50, 200])
    for file in run.epoch_files():
        edit(file, lambda text: text.replace(f"\n{epoch} {start}\n", f"\n{epoch} {earlier}\n"))
    return f"epoch {epoch} at {earlier} instead of {start}"


@kind("I9")
def follower_ahead_of_its_leader(run: Recording) -> str:
    """A follower's high watermark was above its leader's next one."""
    last = max(row["sent_ns"] for row in run.samples()) - 5 * SECOND_NS
    sample = run.choose([row for row in _followers(run) if row["high_watermark"] and row["sent_ns"] < last])
    sample["high_watermark"] += 5000
    sample["log_end_offset"] = sample["high_watermark"] + 1
    run.put("replicas", run.rows("replicas"))
    return place_of(sample)


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
    return place_of(alone[-1])


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
    return f"offset {victim['offset']}, {place_of(sample)}"
