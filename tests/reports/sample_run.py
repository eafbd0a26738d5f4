"""A judged run folder as the other parts of the project write it, without Kafka.

The run has forty seconds and three replicas of orders-0. The follower on broker 3 lags from 5 s to 15 s and leaves the
ISR; broker 1 (the leader) is killed at 22 s and comes back at 30 s. ``acks1`` is the same run with acks=1, a lagging
follower that becomes leader, and about 900 acknowledged records that are lost.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from history.events import Event
from history.folder import RunFolder
from history.manifest import Manifest, NodeInfo, ProducerInfo, TopicInfo
from history.tables import JUDGED, OFFSETS

S = 1_000_000_000
START = 5_000 * S
RATE = 1_000
END_S, KILL_S, ELECTED_S, BACK_S, REJOIN_S = 40.0, 22.0, 22.9, 30.0, 33.0
LOST_FROM, LOST = 21_100, 900  # acks1: what broker 1 alone held when it was killed
PARTITION = {"topic": "orders", "partition": 0}
Row = dict[str, Any]


def at(seconds: float) -> int:
    """Return a time in seconds from the start of the first phase in nanoseconds."""
    return START + round(seconds * S)


def _leader_leo(t: float) -> int:
    """Records due without a leader are sent within half a second after the election; 74 records never arrive."""
    if t < KILL_S:
        return round(RATE * t)
    waiting = min(t, ELECTED_S) - KILL_S
    sent_late = waiting * min(1.0, max(0.0, (t - ELECTED_S) / 0.5))
    return round(RATE * (t - waiting + sent_late)) - (74 if t > 23 else 0)


def _replica(broker: int, t: float, acks1: bool) -> tuple[int, int, int] | None:
    """Return (leader epoch, HW, LEO) of a replica, or None where it could not answer."""
    if broker == 1 and KILL_S <= t < BACK_S:
        return None
    epoch = 4 if t < ELECTED_S else 5
    end = _leader_leo(t)
    jitter = round(4 * math.sin(9 * t + broker))
    behind = 0 if broker == 1 else 8 + jitter
    if broker == 3 and 5 <= t < 17:  # 2 s behind, catching up between 15 s and 17 s
        behind = round(2000 * min(1, (t - 5) / 2, (17 - t) / 2)) + 8
    if broker == 1 and t < REJOIN_S and t >= BACK_S:
        behind = round(7000 * (REJOIN_S - t) / (REJOIN_S - BACK_S))
    if acks1 and broker != 1 and 18 <= t < KILL_S:
        behind = round(LOST * min(1, t - 18))
    out_of_isr = 9.5 <= t < 17
    slowest = 8 if out_of_isr or not 5 <= t < 17 else round(2000 * min(1, (t - 5) / 2)) + 8
    if acks1 and 18 <= t < KILL_S:
        slowest = round(LOST * min(1, t - 18))
    if acks1 and t >= ELECTED_S:
        end -= LOST
    leo = max(0, end - behind)
    return epoch, max(0, min(leo, end - slowest - (0 if broker == 1 else 3))), leo


def _timeline_replicas(acks1: bool, samples_per_s: int) -> Iterable[Row]:
    for broker in (1, 2, 3):
        for tick in range(int(END_S) * samples_per_s + 1):
            t = tick / samples_per_s
            seen = _replica(broker, t, acks1) or (None, None, None)
            values = dict(zip(("leader_epoch", "high_watermark", "log_end_offset"), seen, strict=True))
            yield {**PARTITION, "broker_id": broker, "t_ns": at(t), **values}


def _timeline_isr() -> Iterable[Row]:
    views = [
        (-0.5, 1, 4, [1, 2, 3]),
        (9.5, 1, 4, [1, 2]),
        (17.0, 1, 4, [1, 2, 3]),
        (ELECTED_S, 2, 5, [2, 3]),
        (REJOIN_S, 2, 5, [1, 2, 3]),
    ]
    for t, leader, epoch, isr in views:
        common = {**PARTITION, "t_ns": at(t), "leader": leader, "leader_epoch": epoch, "isr": isr}
        yield {**common, "observer": "controller"}
        yield {**common, "t_ns": at(t + 0.2), "observer": "2"}


def _timeline_sends(acks1: bool) -> Iterable[Row]:
    for second in range(int(END_S)):
        down = second == int(KILL_S)
        slow = not acks1 and 5 <= second < 10
        p50 = 2010.0 if slow else 430.0 if down else 4.0 + second % 3
        counts = {"acked": 926 if down else RATE, "failed": 12 if down else 0, "indeterminate": 48 if down else 0}
        yield {"t_ns": at(second), **counts, "p50_ms": p50, "p99_ms": p50 * (1.2 if slow else 2.6)}


def _offsets(acks1: bool) -> Iterable[Row]:
    captures = [("before", -1.0), ("steady", 5.0), ("follower lags", 20.0), ("leader dies", 36.0), ("after", 40.0)]
    for capture, t in captures:
        for broker in (1, 2, 3):
            epoch, hw, leo = _replica(broker, max(t, 0.0), acks1) or (4, 0, 0)
            if capture == "after":
                hw = leo = _leader_leo(t) - (LOST if acks1 else 0)
                leo += 17 if broker == 3 and acks1 else 0
            checkpoint = {"checkpoint_high_watermark": hw - 40 if capture == "after" else None}
            yield {
                **dict.fromkeys(OFFSETS.names),
                **PARTITION,
                **checkpoint,
                "capture": capture,
                "broker_id": broker,
                "incarnation": 2 if broker == 1 and t > BACK_S else 1,
                "leader_epoch": None if capture == "before" else epoch,
                "sent_ns": at(t),
                "received_ns": at(t) + 900_000,
                "log_start_offset": 0,
                "high_watermark": 0 if capture == "before" else hw,
                "log_end_offset": 0 if capture == "before" else leo,
                "single_reply": capture != "before",
            }


def _delivery(acks1: bool) -> Row:
    lost = LOST if acks1 else 0
    unseen = 17 if acks1 else 0
    counts = dict.fromkeys([field.name for field in JUDGED["delivery"] if pa.types.is_int64(field.type)], 0)
    counts |= {"sent": 40_000, "acked": 39_926, "indeterminate": 48, "failed": 12, "read": 39_926 - lost - unseen}
    counts |= {"lost": lost, "unseen": unseen, "undrained": unseen}
    return {
        **PARTITION,
        **counts,
        "loss_rate_low": lost / 39_926,
        "loss_rate_high": (lost + unseen) / 39_926,
        "duplicate_rate": 0.0,
    }


def _anomalies(acks1: bool) -> Iterable[Row]:
    if not acks1:
        return
    for index in range(LOST):
        offset = LOST_FROM + index
        yield {
            "anomaly": "lost_write",
            "severity": "S1",
            **PARTITION,
            "offset": offset,
            "producer_id": "producer-1",
            "seq": offset,
            "allowed": True,
            "allowed_why": "acks=1: a record that only the old leader held goes with it",
            "explanation": f"producer-1 #{offset} was acknowledged at offset {offset} by broker 1 in epoch 4, above "
            f"every high watermark seen then ({LOST_FROM}); broker 2 began epoch 5 at {LOST_FROM}, and broker 1 cut "
            "its log there when it came back.",
            "evidence": json.dumps({"acked_epoch": 4, "epoch_5_start": LOST_FROM, "high_watermark": LOST_FROM}),
        }
    yield {
        "anomaly": "inconsistent_offset",
        "severity": "S1",
        **PARTITION,
        "offset": LOST_FROM + 3,
        "producer_id": "producer-1",
        "seq": 23_003,
        "allowed": False,
        "allowed_why": None,
        "explanation": f"Offset {LOST_FROM + 3} was acknowledged for producer-1 #21103 and later read as "
        "producer-1 #23003 <script>alert(1)</script>.",
        "evidence": json.dumps({"acknowledged": 21_103, "read": 23_003}),
    }


def _anomaly_counts(acks1: bool) -> Iterable[Row]:
    kinds = Counter((row["anomaly"], row["severity"], row["allowed"], row["allowed_why"]) for row in _anomalies(acks1))
    for kind, cases in kinds.items():
        yield {**dict(zip(("anomaly", "severity", "allowed", "allowed_why"), kind, strict=True)), "cases": cases}


def _invariants(acks1: bool) -> Iterable[Row]:
    durable = (0, 0, "unknown", "no send asked for acks=all") if acks1 else (39_926, 0, "pass", None)
    agreed = (1, "fail", "broker 3 ended at 39043, its leader at 39026") if acks1 else (0, "pass", None)
    told = [
        ("I1", "0 ≤ log start ≤ high watermark in every reply", 3_201, 0, "pass", None),
        ("I2", "High watermark ≤ log end offset on one replica", 3_201, 0, "pass", None),
        ("I3", "A leader's offsets never fall within an epoch", 1_204, 0, "pass", None),
        ("I7", "Every ISR member holds all below the leader's high watermark", 764, 0, "pass", None),
        ("I8", "A new epoch starts at or above every high watermark seen before", 2, 0, "pass", None),
        ("I12", "Committed records are the same bytes on every replica", 3, 0, "pass", None),
        ("I15", "A record acknowledged by acks=all is on every in-sync replica", *durable),
        ("I10", "After quiescence every replica agrees within 600 ms", 1, *agreed),
    ]
    for name, title, checked, violations, verdict, reason in told:
        timed = {"invariant": name, "title": title, "severity": "S2" if name == "I10" else "S1"}
        counted = {"checked": checked, "violations": violations, "verdict": verdict, "reason": reason}
        yield {
            **timed,
            **counted,
            "known_bug": "HW-WAITS" if name == "I10" and violations else "",
            "evidence": json.dumps({"broker": 3, "log_end_offset": 39_043}) if violations else None,
        }


def _recovery() -> Iterable[Row]:
    others = {"write_unavailable": "sends", "hw_stall": "replicas", "catch_up": "metadata", "rebalanced": "metadata"}
    told = [
        ("follower lags", "slow follower of orders-0", "isr_shrink", 9.0, 512.4, False, ""),
        ("follower lags", "slow follower of orders-0", "isr_full", 15.0, 2004.0, False, ""),
        ("leader dies", "kill leader of orders-0", "detect", KILL_S, 880.1, False, "session expiry"),
        ("leader dies", "kill leader of orders-0", "elect", KILL_S, 912.0, False, ""),
        ("leader dies", "kill leader of orders-0", "write_unavailable", KILL_S, 1004.5, False, "open loop"),
        ("leader dies", "kill leader of orders-0", "hw_stall", KILL_S, 4000.0, True, "the phase ended first"),
        ("leader dies", "kill leader of orders-0", "catch_up", BACK_S, None, False, "the history is missing"),
        ("leader dies", "kill leader of orders-0", "rebalanced", BACK_S, 2000.0, False, "at most"),
    ]
    for phase, fault, metric, t, value, censored, note in told:
        times = {"phase": phase, "fault": fault, **PARTITION, "metric": metric, "from_ns": at(t)}
        source = others.get(metric, "controller")
        yield {**times, "value_ms": value, "censored": censored, "source": source, "samples": 1, "note": note}


def _latency(acks1: bool) -> Iterable[Row]:
    for phase, seconds, acked, p50, p99 in (
        ("steady", 5.0, 5_000, 4.1, 11.0),
        ("follower lags", 15.0, 15_000, 5.0 if acks1 else 1850.0, 14.0 if acks1 else 2390.0),
        ("leader dies", 20.0, 19_940, 5.2, 930.0),
    ):
        load = {"phase": phase, "seconds": seconds, "due": round(1_000 * seconds), "acked": acked, "arrived": acked}
        load |= {"owed": acked, "kept": acked}
        times = {"p50_ms": p50, "p99_ms": p99, "p999_ms": p99 * 1.3, "max_ms": p99 * 1.5}
        received = {f"end_to_end_{name}": value + 2.0 for name, value in times.items()}
        yield {**load, **times, "received": acked, **received}


Drawn = tuple[float, str, str, str, str, Row]  # s, kind, phase, step, target, detail


def _events(more_phases: int = 0) -> Iterable[Drawn]:
    before = [{"broker": n, "log_end_offset": 0} for n in (1, 2, 3)]
    return [
        (-9.0, "run_started", "", "", "", {}),
        (-1.0, "capture", "", "", "before", {"replicas": before}),
        (0.0, "phase_started", "steady", "", "", {}),
        (5.0, "phase_ended", "steady", "", "", {}),
        *_lagging("follower lags"),
        *_dying("leader dies"),
        *(
            (36 + 2 * step + late, kind, f"load step {step + 4}", "", "", {})
            for step in range(more_phases)
            for late, kind in ((0, "phase_started"), (2, "phase_ended"))
        ),
        (37.0, "quiesced", "", "quiesce", "", {}),
        (40.0, "capture", "", "", "after", {}),
        (44.0, "collected", "", "", "", {}),
    ]


def _lagging(phase: str) -> Iterable[Drawn]:
    slow = {"asked": "slow node follower of orders-0, until out of isr: follower of orders-0, limit 20.0"}
    cleared = {"recovery_verified": True, "rules": "no rule left"}
    met = {"condition": "isr full: orders", "waited_ms": 1790, "limit_s": 30.0}
    return [
        (5.0, "phase_started", phase, "", "", {}),
        (5.0, "inject", phase, "lag", "broker-3", {"asked": "lag node follower of orders-0, records 2000"}),
        (6.9, "injected", phase, "lag", "broker-3", {"effect_verified": True, "lag": 2011, "in_isr": True}),
        (8.0, "heal", phase, "lag", "broker-3", {}),
        (8.1, "healed", phase, "lag", "broker-3", cleared),
        (8.0, "inject", phase, "slow", "broker-3", slow),
        (9.5, "injected", phase, "slow", "broker-3", {"effect_verified": True, "isr": [1, 2]}),
        (15.0, "heal", phase, "slow", "broker-3", {}),
        (15.2, "healed", phase, "slow", "broker-3", cleared),
        (17.0, "condition_met", phase, "wait", "", met),
        (20.0, "phase_ended", phase, "", "", {}),
    ]


def _dying(phase: str) -> Iterable[Drawn]:
    cleared = {"recovery_verified": True, "probe": "answers", "registered": True}
    changed = {"condition": "leader changed: orders", "waited_ms": 880}
    behind = {"condition": "caught up: orders", "last_seen": "broker 3: 17 behind"}
    return [
        (20.0, "phase_started", phase, "", "", {}),
        (KILL_S, "inject", phase, "kill", "broker-1", {"asked": "kill node leader of orders-0"}),
        (KILL_S + 0.1, "injected", phase, "kill", "broker-1", {"effect_verified": True, "probe": "connection refused"}),
        (ELECTED_S, "condition_met", phase, "wait", "", changed),
        (BACK_S, "heal", phase, "kill", "broker-1", {}),
        (BACK_S + 0.4, "healed", phase, "kill", "broker-1", cleared),
        (35.0, "wait_timed_out", phase, "wait", "", behind),
        (36.0, "phase_ended", phase, "", "", {}),
    ]


def _manifest(run_id: str, acks1: bool) -> Manifest:
    config = {"unclean.leader.election.enable": "false", "replica.lag.time.max.ms": "3000"}
    why = (
        "What acks=1 can lose." if acks1 else "An acknowledged record survives a lagging follower and a killed leader."
    )
    producer = {"producer_id": "producer-1", "topic": "orders", "acks": "1" if acks1 else "all", "retries": 2**31 - 1}
    return Manifest(
        run_id=run_id,
        scenario_name="acks1_lag_then_leader_kill" if acks1 else "follower_lag_then_leader_kill",
        scenario={"why": why},
        scenario_digest="0" * 64,
        control="lost_write" if acks1 else None,
        faults=["lag", "slow", "kill"],
        traits={},
        kafka_version="4.3.0",
        kafka_jars_digest="1" * 64,
        mode="kraft",
        runtime="docker",
        seed=7,
        started_at="2026-03-01T02:00:00+00:00",
        started_ns=at(-9),
        boot_id="b",
        probe_hz=20.0,
        nodes=[
            NodeInfo(name=f"broker-{n}", role="broker", address=f"10.0.0.{n}", node_id=n, config=config)
            for n in (1, 2, 3)
        ],
        topics={"orders": TopicInfo(assignment={0: [1, 2, 3]}, config={"min.insync.replicas": "2"})},
        producers=[
            ProducerInfo(**producer, idempotence=not acks1, engine="kafka-python", rate_per_s=1000, record_bytes=100)
        ],
        host={"cpu": "8 × x86_64", "kernel": "6.1.0"},
    )


def _verdict(acks1: bool) -> Row:
    delivery = {name: value for name, value in _delivery(acks1).items() if isinstance(value, int)}
    if acks1:
        sentence = (
            "900 acknowledged records of orders-0 are lost, as acks=1 permits; "
            "one broker disagrees with its leader at the end."
        )
        reasons = [
            "I10: broker 3 ended at 39043, its leader at 39026",
            "inconsistent_offset: 1 case that this configuration does not permit",
        ]
        allowed = {"lost_write": "acks=1: a record that only the old leader held goes with it"}
        return {
            "verdict": "fail",
            "sentence": sentence,
            "reasons": reasons,
            "anomalies": {"lost_write": LOST, "inconsistent_offset": 1},
            "allowed": allowed,
            "invariants": {},
            "delivery": delivery,
        }
    sentence = (
        "Every acknowledged record survived a lagging follower and a killed leader: "
        "0 of 39,926 are lost, none is duplicated."
    )
    return {
        "verdict": "pass",
        "sentence": sentence,
        "reasons": [],
        "anomalies": {},
        "allowed": {},
        "invariants": {},
        "delivery": delivery,
    }


def write_table(place: Path, rows: Iterable[Row], schema: pa.Schema) -> None:
    """Write one Parquet file in the folder of a table."""
    place.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), place / "part-00000.parquet")


def write_sample_run(
    path: Path, *, acks1: bool = False, samples_per_s: int = 10, partitions: int = 1, phases: int = 3
) -> Path:
    """Write the run folder of one of the two runs at ``path``.

    Every further partition is drawn like partition 0; the counts are those of partition 0.
    """
    folder = RunFolder(path)
    for place in (path / "brokers" / "broker-1", folder.verdict / "data_docs"):
        place.mkdir(parents=True)
    (path / "brokers" / "broker-1" / "server.log").write_text("started\n")
    (folder.verdict / "data_docs" / "index.html").write_text("<!doctype html><title>Data Docs</title>")
    _manifest(folder.run_id, acks1).write(folder.manifest)
    events = [Event(at(t), "2026-03-01T02:00:00", *rest) for t, *rest in _events(phases - 3)]
    folder.events.write_text("".join(json.dumps(vars(event)) + "\n" for event in events))
    folder.verdict_file.write_text(json.dumps(_verdict(acks1)))
    folder.clients.mkdir()
    offered = {"client_id": "producer-1", "rows": 40_000, "overflowed": 14, "busy_ns": 5 * S, "offering_ns": 40 * S}
    (folder.clients / "producer.json").write_text(json.dumps(offered))
    (folder.clients / "prober.json").write_text(json.dumps({"rows": 1200}))
    write_table(folder.table("offsets"), _offsets(acks1), OFFSETS)
    judged: dict[str, Iterable[Row]] = {
        "delivery": [_delivery(acks1)],
        "anomalies": _anomalies(acks1),
        "anomaly_counts": _anomaly_counts(acks1),
        "invariants": _invariants(acks1),
        "recovery": _recovery(),
        "latency": _latency(acks1),
        "timeline_replicas": _timeline_replicas(acks1, samples_per_s),
        "timeline_isr": _timeline_isr(),
        "timeline_sends": _timeline_sends(acks1),
    }
    for name, rows in judged.items():
        copies = partitions if name in {"timeline_replicas", "timeline_isr"} else 1
        told = [row if copy == 0 else {**row, "partition": copy} for row in rows for copy in range(copies)]
        write_table(folder.judged(name), told, JUDGED[name])
    return path
