"""Tests of commands.live_table."""

from __future__ import annotations

import json
from io import StringIO

from rich.console import Console

from clusters.attached.state import Health, PartitionNow, ReplicaNow
from commands.live_table import json_line, lines, summary, table
from history.partition import TopicPartition

LEADER = ReplicaNow(1, 120, 100, 0, 0.0, in_isr=True, error=None)
BEHIND = ReplicaNow(2, 90, 90, 30, 12.4, in_isr=False, error=None)
SILENT = ReplicaNow(3, None, None, None, 4.0, in_isr=True, error="unreachable")


def partition(number: int, health: Health, *replicas: ReplicaNow, leader: int = 1) -> PartitionNow:
    """Return a partition of orders at epoch 7."""
    where = TopicPartition("orders", number)
    isr = [replica.broker_id for replica in replicas if replica.in_isr]
    return PartitionNow(where, health, leader, 7, isr, 100, 120, 2.0, 1, replicas)


def drawn(*partitions: PartitionNow, rows: int = 10) -> str:
    """Return the table as text."""
    console = Console(file=StringIO(), width=160, record=True)
    console.print(table(partitions, "a watch", rows))
    return console.export_text()


def test_the_worst_partitions_come_first() -> None:
    """Healthy ones are left out if there is no space, and counted all the same."""
    text = drawn(
        partition(0, Health.HEALTHY, LEADER),
        partition(1, Health.OUT_OF_ISR, LEADER, BEHIND),
        partition(2, Health.NO_LEADER, LEADER, leader=-1),
        rows=2,
    )
    assert text.startswith("3 partitions: 1 no leader, 1 replica out of ISR, 1 healthy")
    assert "orders-0" not in text
    assert text.index("orders-2") < text.index("orders-1")


def test_a_row_names_the_replica_that_is_behind_and_since_when() -> None:
    """Followers are shown; a leader only if it is silent."""
    assert lines([partition(1, Health.OUT_OF_ISR, LEADER, BEHIND, SILENT)]) == [
        "orders-1: replica out of ISR, leader 1 epoch 7, ISR [1, 3], high watermark 100, log end 120, "
        "behind: 2 (out): 30 for 12 s, 3: unreachable for 4 s"
    ]
    assert lines([partition(1, Health.LEADER_SILENT, SILENT, leader=3)])[0].endswith("behind: 3: unreachable for 4 s")


def test_a_replica_that_was_never_sampled_is_unknown() -> None:
    """One that has reached the leader's log end is not."""
    never, caught_up = ReplicaNow(2, None, None, None, 0.4, in_isr=False, error=None), LEADER._replace(broker_id=3)
    assert lines([partition(1, Health.OUT_OF_ISR, LEADER, never, caught_up)])[0].endswith("behind: 2 (out): ?, 3: 0")


def test_programs_get_every_partition() -> None:
    """Unknown offsets and leaders are null."""
    (found,) = json.loads(json_line([partition(1, Health.NO_LEADER, SILENT, leader=-1)]))["partitions"]
    assert (found["topic"], found["partition"], found["state"], found["leader"]) == ("orders", 1, "no_leader", None)
    assert found["replicas"] == [
        {
            "broker_id": 3,
            "log_end_offset": None,
            "high_watermark": None,
            "lag": None,
            "behind_s": 4.0,
            "in_isr": True,
            "error": "unreachable",
        }
    ]


def test_each_state_is_counted() -> None:
    """States without a partition are left out."""
    two = [partition(0, Health.HEALTHY, LEADER), partition(1, Health.HEALTHY, LEADER)]
    assert summary(two) == "2 partitions: 2 healthy"
