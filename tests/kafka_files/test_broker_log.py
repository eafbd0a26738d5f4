"""Lines of real brokers, as 2.8.2, 3.9.1 and 4.3.0 spell them."""

import pytest

from kafka_files.broker_log import parse, read_broker_logs
from kafka_files.clock import Clock
from tests.evidence.folders import manifest

STAMP = "2026-11-21T06:47:26.537+0000 [kafka-scheduler-4] INFO kafka.cluster.Partition - "
WALL_NS = 1_795_243_646_537_000_000
LINES = {
    # 2.8.2
    "[Partition orders-0 broker=1] Shrinking ISR from 1,2,3 to 1,2. Leader: (highWatermark: 26651, endOffset: 30088). "
    "Out of sync replicas: (brokerId: 3, endOffset: 26651).": {
        "kind": "isr_shrinking", "isr": [1, 2], "high_watermark": 26651, "log_end_offset": 30088,
        "out_of_sync": [(3, 26651)],
    },
    "[Partition orders-0 broker=1] ISR updated to 1,2 and version updated to [1]": {
        "kind": "isr_updated", "isr": [1, 2], "partition_epoch": 1, "under_min_isr": False,
    },
    "[Broker id=2] Leader orders-0 starts at leader epoch 2 from offset 30088 with high watermark 26651 ISR [2,3] "
    "addingReplicas [] removingReplicas []. Previous leader epoch was 0.": {
        "kind": "leader_started", "leader_epoch": 2, "log_end_offset": 30088, "high_watermark": 26651, "isr": [2, 3],
    },
    "[Broker id=1] Follower orders-0 starts at leader epoch 2 from offset 30088 with high watermark 30088. Previous "
    "leader epoch was -1.": {
        "kind": "follower_started", "leader_epoch": 2, "log_end_offset": 30088, "high_watermark": 30088,
    },
    # 3.9.1
    "[Partition orders-0 broker=2] ISR updated to 2,3,1  and version updated to 4": {
        "kind": "isr_updated", "isr": [1, 2, 3], "partition_epoch": 4, "under_min_isr": False,
    },
    "[Partition orders-0 broker=1] ISR updated to 0 (under-min-isr) and version updated to 1": {
        "kind": "isr_updated", "isr": [0], "partition_epoch": 1, "under_min_isr": True,
    },
    "[UnifiedLog partition=orders-0, dir=/data] Truncating to offset 5607": {
        "kind": "truncating", "log_end_offset": 5607,
    },
    "[UnifiedLog partition=orders-0, dir=/data] Non-monotonic update of high watermark from (offset=11109, "
    "segment=[-1:-1]) to (offset=5607, segment=[0:689756])": {
        "kind": "hw_lowered", "previous_high_watermark": 11109, "high_watermark": 5607,
    },
    "[Partition orders-0 broker=1] Shrinking ISR from 1,2,3 to 1. Leader: (highWatermark: 9, endOffset: 12). Out of "
    "sync replicas: (brokerId: 2, endOffset: 9, lastCaughtUpTimeMs: 1795) (brokerId: 3, endOffset: 10, "
    "lastCaughtUpTimeMs: 1794).": {
        "kind": "isr_shrinking", "isr": [1], "high_watermark": 9, "log_end_offset": 12,
        "out_of_sync": [(2, 9), (3, 10)],
    },
    "[Controller id=2] Failed to update ISR to LeaderAndIsr(leader=2, leaderEpoch=22, isrWithBrokerEpoch=List("
    "BrokerState(brokerId=2, brokerEpoch=-1), BrokerState(brokerId=1, brokerEpoch=-1)), leaderRecoveryState=RECOVERED, "
    "partitionEpoch=53) for partition orders-0, bad ZK version.": {
        "kind": "isr_refused", "leader_epoch": 22, "isr": [1, 2], "partition_epoch": 53,
    },
    "[Partition orders-0 broker=1] Recorded replica 2 log end offset (LEO) position 7 and log start offset 0.": {
        "kind": "leo_recorded", "follower": 2, "log_end_offset": 7,
    },
    # 4.3.0
    "[Broker id=2] Leader orders-0 with topic id Some(6bMx5csYTSWBG_50BMl_wQ) starts at leader epoch 1 from offset "
    "41501 with partition epoch 3, high watermark 41491, ISR [2,3], adding replicas [] and removing replicas [] . "
    "Previous leader Some(1) and previous leader epoch was 0.": {
        "kind": "leader_started", "leader_epoch": 1, "log_end_offset": 41501, "partition_epoch": 3,
        "high_watermark": 41491, "isr": [2, 3],
    },
    "[Broker id=3] Follower orders-0 starts at leader epoch 1 from offset 41501 with partition epoch 3 and high "
    "watermark 41491. Current leader is 2. Previous leader Some(1) and previous leader epoch was 0.": {
        "kind": "follower_started", "leader_epoch": 1, "log_end_offset": 41501, "partition_epoch": 3,
        "high_watermark": 41491,
    },
    "[Partition orders-0 broker=1] Failed to alter partition to PendingShrinkIsr(newInSyncReplicaId=3) since the "
    "controller rejected the request with INELIGIBLE_REPLICA. Partition state has been reset to the latest committed "
    "state CommittedPartitionState(isr=Set(1, 2)).": {"kind": "isr_reset"},
    "[Partition orders-0 broker=1] Log loaded for partition orders-0 with initial high watermark 40587": {
        "kind": "log_loaded", "high_watermark": 40587,
    },
}  # fmt: skip


@pytest.mark.parametrize("text", LINES)
def test_a_line_becomes_its_values(text):
    """Every spelling gives the same names, and nothing that the line does not say."""
    found = parse(STAMP + text)
    said = {name: value for name, value in found.items() if value is not None}

    assert {"wall_ns": WALL_NS, "topic": "orders", "partition": 0, "text": text, **LINES[text]} == said


@pytest.mark.parametrize(
    "line",
    [
        STAMP
        + "[Log partition=orders-0, dir=/data] Truncating to 0 has no effect as the largest offset in the log is -1",
        STAMP + "[ReplicaFetcher replicaId=3, leaderId=1, fetcherId=0] Truncating partition orders-0 to local high "
        "watermark 0",
        "\tat kafka.cluster.Partition.makeLeader(Partition.scala:733)",
        "",
    ],
)
def test_other_lines_say_nothing(line):
    """A truncation without effect, another class's words about one, a stack trace, an empty line."""
    assert parse(line) is None


def test_logs_are_read_in_order_and_of_known_topics_only(tmp_path):
    """Line numbers from 1, times on the run's clock; another topic's line and a broker without a log are left out."""
    (tmp_path / "broker-1").mkdir()
    other = STAMP + "[Partition __consumer_offsets-0 broker=1] ISR updated to 1 and version updated to [1]\n"
    (tmp_path / "broker-1" / "server.log").write_text(other + STAMP + next(iter(LINES)) + "\n")
    found = list(read_broker_logs(tmp_path, manifest(), Clock([(WALL_NS - 7, 0)])))

    assert [(row["broker_id"], row["line"], row["t_ns"]) for row in found] == [(1, 2, 7)]


@pytest.mark.parametrize(
    "line",
    [
        "2026-13-01T00:00:00.123+0000 [x] INFO k - [Log partition=orders-0, dir=/x] Truncating to offset 5",
        "2026-01-01T00:00:00.123+0000 [x] INFO k - [Log partition=orders, dir=/x] Truncating to offset 5",
        "2026-01-01T00:00:00.123+0000 [x] INFO k - [Log partition=orders-99999999999, dir=/x] Truncating to offset 5",
        f"2026-01-01T00:00:00.123+0000 [x] INFO k - [Log partition=orders-0, dir=/x] Truncating to offset {'9' * 5000}",
        f"2026-01-01T00:00:00.123+0000 [x] INFO k - [Log partition=orders-0, dir=/x] Truncating to offset {2**63}",
    ],
)
def test_a_line_that_cannot_be_says_nothing(line):
    """A thirteenth month, a partition that is none or has too large a number, an offset beyond 64 bits."""
    assert parse(line) is None


def test_a_line_with_the_largest_offset_is_read():
    """The near miss."""
    line = (
        f"2026-01-01T00:00:00.123+0000 [x] INFO k - [Log partition=orders-0, dir=/x] Truncating to offset {2**63 - 1}"
    )

    assert parse(line)["log_end_offset"] == 2**63 - 1
