"""Verdicts on damaged disks, moved replicas and changed settings, on whole runs with docker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from clusters.run import experiment
from clusters.run.recorder import record
from history.events import read_events
from spark.submit import judge

pytestmark = [pytest.mark.cluster, pytest.mark.docker, pytest.mark.slow]

FRAME = """
name: judged
why: Faults whose consequences the judge has to know.
cluster: {{brokers: {brokers}, session_timeout: 6s, disks: {disks}, config: {{replica.lag.time.max.ms: 3000}}}}
topics:
  orders: {{replicas: [A, B, C], config: {{min.insync.replicas: {min_isr}}}}}
{more}
load: {{topic: orders, rate: 300/s, engine: confluent-kafka}}
phases:
{phases}
"""
TOPOLOGY = """
  - moved: [{reassign: {topic: orders, to: [D, E, F]}}, {hold: 2s}]
  - to and fro: [{churn_leadership: {partition: orders-0, between: [A, B], times: 4}}]
  - fewer in sync:
      - configure: {topic: orders, set: {min.insync.replicas: 1}}
      - kill: followers of orders-0
      - wait: {for: {out_of_isr: followers of orders-0}, limit: 20s}
      - hold: 3s
  - deleted: [{delete_records: {partition: orders-0, before: 1000}}]
  - deleted further: [{delete_records: {partition: orders-0, before: high_watermark}}, {hold: 1s}]
  - full:
      - fill_disk: F
      - wait: {for: {out_of_isr: F of side-0}, limit: 20s}
      - heal: all
      - wait: {for: {isr_full: side}, limit: 60s}
  - cut off:
      - disconnect: {node: follower of orders-0, from: [brokers, controllers]}
      - wait: {for: {out_of_isr: follower of orders-0}, limit: 20s}
      - hold: 3s
      - reconnect: {node: follower of orders-0, from: [brokers, controllers]}
      - wait: {for: {isr_full: orders}, limit: 60s}
"""
DISKS = """
  - wiped: [{kill: C}, {hold: 1s}, {wipe: C}, {start: C}, {wait: {for: {isr_full: orders}, limit: 60s}}]
  - torn:
      - kill: A
      - truncate: {node: A, partition: orders-0, records: 300}
      - delete_checkpoint: {node: A, what: high watermark checkpoint}
      - start: A
      - wait: {for: {isr_full: orders}, limit: 60s}
  - read-only: [{read_only_disk: leader of orders-0}, {wait: {for: {leader_changed: orders}, limit: 20s}}]
  - starved: [{limit_cpu: {node: B, cpus: 0.2}}, {hold: 2s}]
"""
CUT_LEADERS = "".join(
    f"""
  - cut off {turn}:
      - disconnect: {{node: leader of orders-0, from: [followers of orders-0, controller]}}
      - wait: {{for: {{leader_changed: orders}}, limit: 30s}}
      - hold: 5s
      - heal: all
      - wait: {{for: {{isr_full: orders}}, limit: 60s}}
      - hold: 3s
"""
    for turn in (1, 2, 3)
)
LAST_COPY = """
  - alone:
      - kill: B
      - kill: C
      - wait: {for: {out_of_isr: followers of orders-0}, limit: 20s}
      - hold: 2s
      - kill: A
      - wipe: A
      - start: A
      - hold: 2s
"""
BIT_ROT = """
  - rot: [{hold: 3s}, {flip_bit: {node: C, partition: orders-0, offset: 50}}, {hold: 1s}]
"""


def judged(
    folder: Path,
    phases: str,
    *,
    kafka: str = "3.9.1",
    brokers: int = 3,
    disks: str = "{}",
    min_isr: int = 2,
    more: str = "",
) -> Any:
    """Return the verdict of a recorded run, whose faults all took effect and healed."""
    told = folder / "judged.yaml"
    told.write_text(FRAME.format(phases=phases, brokers=brokers, disks=disks, min_isr=min_isr, more=more))
    run = experiment.prepare(str(told), kafka=kafka, runtime="docker", runs=folder, lease="process")
    record(run)
    proofs = [e for e in read_events(run / "events.jsonl") if e.kind in ("injected", "healed")]
    assert [e for e in proofs if not e.detail.get("effect_verified", e.detail.get("recovery_verified"))] == []
    judge([run])
    return json.loads((run / "verdict" / "verdict.json").read_text())


def test_what_operators_do_breaks_no_promise(tmp_path: Path) -> None:
    """An operator's moves, elections, smaller ISRs, deleted records and a full disk violate no guarantee.

    Neither does a follower that was isolated for 3 s after it left the ISR and showed the old one.
    """
    found = judged(tmp_path, TOPOLOGY, brokers=6, disks="{F: 100MB}", more="  side: {replicas: [F, D]}")

    assert (found["verdict"], found["anomalies"]) == ("pass", {}), found["reasons"]
    (folder,) = tmp_path.glob("*/verdict/recovery")
    times = {
        row["metric"]: row
        for row in pq.read_table(folder).to_pylist()
        if (row["phase"], row["topic"], row["partition"]) == ("cut off", "orders", 0) and row["fault"]
    }
    assert {row["source"] for row in times.values()} == {"controller"}
    assert times["isr_full"]["value_ms"] > times["isr_shrink"]["value_ms"] + 3000
    assert 0 < times["catch_up"]["value_ms"] < times["isr_full"]["value_ms"] - 3000


def test_a_damaged_disk_is_no_excuse_beside_a_live_replica(tmp_path: Path) -> None:
    """Damaged disks lose no acknowledged record while a replica is alive: one wiped, one cut, one read-only."""
    found = judged(tmp_path, DISKS)

    assert (found["verdict"], found["anomalies"]) == ("pass", {}), found["reasons"]


@pytest.mark.parametrize("kafka", ["2.8.2", "3.9.1", "4.3.1"])
def test_a_leader_that_was_cut_off_moves_no_reader(tmp_path: Path, kafka: str) -> None:
    """An isolated leader that its clients still reach does not move a reader back, until it learns the newer epoch."""
    found = judged(tmp_path, CUT_LEADERS, kafka=kafka)

    assert found["anomalies"] == {}, found["reasons"]
    broken = [each["known_bug"] for each in found["invariants"].values() if each["verdict"] == "fail"]
    assert set(broken) <= {"KAFKA-14704"}  # which 2.8.2 has
    assert found["verdict"] == ("fail" if broken else "pass"), found["reasons"]
    assert [row for seeks in tmp_path.glob("*/seeks") for row in pq.read_table(seeks).to_pylist()] == []


def test_the_last_copy_may_be_lost_with_its_disk(tmp_path: Path) -> None:
    """Records whose only copy was on a wiped disk are lost, counted and permitted."""
    found = judged(tmp_path, LAST_COPY, min_isr=1)

    assert found["verdict"] == "pass", found["reasons"]
    assert found["delivery"]["lost"] + found["delivery"]["truncated_ack"] > 0


def test_a_flipped_bit_is_found(tmp_path: Path) -> None:
    """A flipped bit is found as a difference between replicas below their HW, although no reader saw it."""
    found = judged(tmp_path, BIT_ROT)

    assert found["verdict"] == "fail"
    assert {name for name, each in found["invariants"].items() if each["verdict"] == "fail"} == {"I12", "I13"}
    assert found["anomalies"] == {"corrupt_record": 1}
