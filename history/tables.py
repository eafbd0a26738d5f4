"""One pyarrow schema per table of the run folder; Spark's schemas are derived from these.

Times are nanoseconds of the recording host's CLOCK_MONOTONIC (``_ns``); a null says "not seen".
Enumerated strings are listed beside their column. docs/run-folder.md tells the tables in words.
"""

from __future__ import annotations

import pyarrow as pa


def _required(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


_PARTITION = [_required("topic", pa.string()), _required("partition", pa.int32())]
_INT_LIST = pa.list_(pa.int32())

# --- what the run recorded ---------------------------------------------------------------------

# One row per send. outcome: ok | fail (definitely not written) | info (unknown).
SENDS = pa.schema(
    [
        _required("producer_id", pa.string()),
        _required("seq", pa.int64()),
        *_PARTITION,
        pa.field("due_ns", pa.int64()),  # when the open loop wanted it sent; null: no open loop sent it
        pa.field("sent_ns", pa.int64()),  # null: never handed to the client, or the client does not say
        pa.field("done_ns", pa.int64()),  # null: no answer before the producer ended
        _required("outcome", pa.string()),
        pa.field("error", pa.string()),  # error name, null when ok
        pa.field("offset", pa.int64()),  # null unless the acknowledgement carried one
        _required("acks", pa.string()),  # "0" | "1" | "all"
        _required("record_bytes", pa.int32()),
        pa.field("transaction", pa.int64()),  # the producer's own count of them, from 0; null: in none
    ]
)
LATER = frozenset({"transaction", "record_key"})  # nullable columns that run folders of an earlier date lack

# One row per record that a consumer saw. pass: live | final | incomplete (imported: its operation failed, or nobody
# knows how it ended). isolation: read_uncommitted | read_committed.
POLLS = pa.schema(
    [
        _required("consumer_id", pa.string()),
        _required("pass", pa.string()),
        _required("position", pa.int64()),  # this consumer's own count of records, from 0
        *_PARTITION,
        _required("offset", pa.int64()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("producer_id", pa.string()),  # null: the payload is not one of ours
        pa.field("seq", pa.int64()),
        pa.field("checksum_ok", pa.bool_()),  # null: the value bears no checksum of ours
        _required("received_ns", pa.int64()),
        _required("isolation", pa.string()),
    ]
)

# One row per seek of one of our readers, which is a new reader of the partition from then on.
SEEKS = pa.schema(
    [
        _required("consumer_id", pa.string()),
        _required("pass", pa.string()),
        _required("position", pa.int64()),  # of the first record behind it, as in POLLS
        *_PARTITION,
        _required("from_offset", pa.int64()),
        _required("to_offset", pa.int64()),
        _required("leader_epoch", pa.int32()),  # the newest that any broker knew, whose leader was asked
        _required("why", pa.string()),
        _required("sought_ns", pa.int64()),
    ]
)

# What a member of the consumer group read: one row per unbroken stretch of offsets. member: the client node and which
# life of it, such as member-2.1. Written before the member commits what it read.
GROUP_READS = pa.schema(
    [
        _required("member", pa.string()),
        *_PARTITION,
        _required("first_offset", pa.int64()),
        _required("last_offset", pa.int64()),
        _required("received_ns", pa.int64()),
    ]
)

# One row per partition of a rebalance, as the member's library told it. change: assigned | revoked | lost.
REBALANCES = pa.schema(
    [
        _required("member", pa.string()),
        *_PARTITION,
        _required("change", pa.string()),
        _required("changed_ns", pa.int64()),  # revoked: as the member was done with it, before it gave it up
    ]
)

# One row per partition of a commit when it is asked for, and another one when it is answered.
COMMITS = pa.schema(
    [
        _required("member", pa.string()),
        *_PARTITION,
        _required("number", pa.int64()),  # the member's own count of commits, from 0
        _required("offset", pa.int64()),
        _required("asked_ns", pa.int64()),
        pa.field("answered_ns", pa.int64()),  # null: of the row that was written as it was asked for
        pa.field("error", pa.string()),  # of an answer; null when the commit was taken
    ]
)

# What a member of a share group was given: one row per unbroken stretch of offsets of one delivery. Written before the
# member acknowledges what stands in it.
SHARE_READS = pa.schema(
    [
        _required("member", pa.string()),
        *_PARTITION,
        _required("first_offset", pa.int64()),
        _required("last_offset", pa.int64()),
        pa.field("delivery_count", pa.int32()),  # from 1; null: the library does not tell
        _required("since_ns", pa.int64()),  # when the member's eighth poll before was done: it was fetched after that
        _required("received_ns", pa.int64()),
    ]
)

# One row per unbroken stretch of offsets when a member acknowledges them, and another one when that is answered.
# kind: accept | release.
SHARE_ACKS = pa.schema(
    [
        _required("member", pa.string()),
        *_PARTITION,
        _required("first_offset", pa.int64()),
        _required("last_offset", pa.int64()),
        _required("kind", pa.string()),
        pa.field("asked_ns", pa.int64()),  # null: of the row of an answer
        pa.field("answered_ns", pa.int64()),  # null: of the row that was written as it was asked for
        pa.field("error", pa.string()),  # of an answer; null when the acknowledgement was taken
    ]
)

# Where readers were before they were ended: one row per partition that a reader had.
POSITIONS = pa.schema(
    [
        _required("reader", pa.string()),  # the live consumer, or a member and which life of it
        *_PARTITION,
        pa.field("position", pa.int64()),  # the next offset that it fetches; null: it fetched nothing yet
        _required("told_ns", pa.int64()),  # when the reader reported it
    ]
)

# One row per probe of one replica. error: a Kafka error's name, or unreachable; then the values are null.
REPLICAS = pa.schema(
    [
        _required("broker_id", pa.int32()),
        pa.field("incarnation", pa.int32()),  # how often this broker had been started, from 1; filled in at collect
        *_PARTITION,
        pa.field("leader_epoch", pa.int32()),  # the epoch that the broker accepted as current
        _required("sent_ns", pa.int64()),
        _required("received_ns", pa.int64()),
        pa.field("log_start_offset", pa.int64()),
        pa.field("high_watermark", pa.int64()),
        pa.field("last_stable_offset", pa.int64()),
        pa.field("log_end_offset", pa.int64()),
        pa.field("single_reply", pa.bool_()),  # HW and LEO out of one reply, HW read first
        pa.field("error", pa.string()),
    ]
)

CONTROLLER = "controller"  # as an observer: its own history, not a view
# One row per view of a partition's state. source: metadata.
ISR = pa.schema(
    [
        _required("observer", pa.string()),  # a broker id as text, or CONTROLLER
        _required("source", pa.string()),
        *_PARTITION,
        pa.field("leader", pa.int32()),  # -1: none
        pa.field("leader_epoch", pa.int32()),
        pa.field("partition_epoch", pa.int32()),
        pa.field("replicas", _INT_LIST),
        pa.field("isr", _INT_LIST),
        pa.field("elr", _INT_LIST),
        pa.field("offline", _INT_LIST),
        _required("sent_ns", pa.int64()),
        _required("received_ns", pa.int64()),
    ]
)

# One row per replica at a capture. capture: before | <phase name> | after.
OFFSETS = pa.schema(
    [
        _required("capture", pa.string()),
        *REPLICAS,
        pa.field("checkpoint_high_watermark", pa.int64()),  # replication-offset-checkpoint, null: not in the file
        pa.field("checkpoint_log_start_offset", pa.int64()),
        pa.field("checkpoint_recovery_point", pa.int64()),
        pa.field("checkpoint_leader_epoch", pa.int32()),  # last entry of leader-epoch-checkpoint
        pa.field("checkpoint_epoch_start_offset", pa.int64()),
    ]
)

# One row per counter at a boundary. label: before | <phase name>: start | <phase name> (its end) | after.
# source: a node's name | host. Counters grow from the node's first start on; what could not be read has no row.
USAGE = pa.schema(
    [
        _required("t_ns", pa.int64()),
        _required("label", pa.string()),
        _required("source", pa.string()),
        _required("name", pa.string()),
        _required("value", pa.float64()),
    ]
)
PHASE_START = ": start"

# What an imported history called its records; only its run folder has this table.
IMPORTED = pa.schema(
    [
        *_PARTITION,
        _required("producer_id", pa.string()),
        _required("seq", pa.int64()),
        _required("key", pa.string()),  # JSON: what stood for the partition
        _required("value", pa.string()),  # JSON
        pa.field("operation", pa.int64()),  # records that one atomic operation sent have its number
        pa.field("record_key", pa.string()),  # JSON: the key of the record in Kafka; null: not known
    ]
)

# --- what the judge concluded ------------------------------------------------------------------

# One row per partition.
DELIVERY = pa.schema(
    [
        *_PARTITION,
        *(
            _required(name, pa.int64())
            for name in (
                "sent",
                "acked",
                "indeterminate",
                "failed",
                "read",  # distinct sent records that the final drain saw
                "lost",
                "unseen",
                "truncated_ack",
                "invisible_ack",
                "undrained",
                "unknown_offset_ack",
                "duplicated",  # records that stand at more than one offset
                "duplicate_copies",  # copies beyond the first
                "phantom",
                "corrupt",
                "aborted_read",
            )
        ),
        pa.field("loss_rate_low", pa.float64()),  # lost / acked; null when nothing was acknowledged
        pa.field("loss_rate_high", pa.float64()),  # (lost + unseen) / acked
        pa.field("duplicate_rate", pa.float64()),  # duplicate_copies / records read
    ]
)

# One row per found case, of many of one kind the first ones; severity: S1 | S2.
ANOMALIES = pa.schema(
    [
        _required("anomaly", pa.string()),
        _required("severity", pa.string()),
        *_PARTITION,
        pa.field("offset", pa.int64()),
        pa.field("producer_id", pa.string()),
        pa.field("seq", pa.int64()),
        pa.field("allowed", pa.bool_()),  # this configuration and these faults permit it; null: undecided
        pa.field("allowed_why", pa.string()),
        pa.field("undecided", pa.string()),  # which evidence is missing; null: decided
        _required("explanation", pa.string()),  # one sentence a person can check
        _required("evidence", pa.string()),  # JSON object: the values behind the sentence
    ]
)

# How many cases were found, those of which ANOMALIES has an example among them.
ANOMALY_COUNTS = pa.schema(
    [
        _required("anomaly", pa.string()),
        _required("severity", pa.string()),
        pa.field("allowed", pa.bool_()),
        pa.field("allowed_why", pa.string()),
        pa.field("undecided", pa.string()),
        _required("cases", pa.int64()),
    ]
)

# One row per invariant that was considered; verdict: pass | fail | unknown.
INVARIANTS = pa.schema(
    [
        _required("invariant", pa.string()),  # I1, I2, …
        _required("title", pa.string()),
        _required("severity", pa.string()),
        _required("checked", pa.int64()),
        _required("violations", pa.int64()),
        _required("verdict", pa.string()),
        pa.field("reason", pa.string()),  # why unknown, or what the first violation was
        pa.field("evidence", pa.string()),  # JSON object of the first violation
    ]
)

# One row per measured time. metric: a name of history.metrics.RECOVERY. source: controller (its own history) | metadata
# (what leaders showed: an upper bound) | sends | replicas.
RECOVERY = pa.schema(
    [
        _required("phase", pa.string()),
        _required("fault", pa.string()),  # kind and target, e.g. "kill leader of orders-0"; "" for a whole phase
        *_PARTITION,
        _required("metric", pa.string()),
        _required("from_ns", pa.int64()),
        pa.field("value_ms", pa.float64()),  # null: nobody can tell
        _required("censored", pa.bool_()),  # true: at least value_ms, the observation ended first
        _required("source", pa.string()),
        pa.field("samples", pa.int64()),
        pa.field("note", pa.string()),
    ]
)

# Open-loop load by phase; latency counts from the due time. What is owed and was never acknowledged took longer than
# anything: a quantile that falls on it is null.
LATENCY = pa.schema(
    [
        _required("phase", pa.string()),
        _required("seconds", pa.float64()),
        _required("due", pa.int64()),  # sends that were due in the phase, however they ended
        _required("acked", pa.int64()),  # of those, acknowledged at any time, or in a transaction that was aborted
        _required("arrived", pa.int64()),  # acknowledgements that arrived in the phase
        _required("owed", pa.int64()),  # sends that were due a second or more before the phase's end
        _required("kept", pa.int64()),  # of those, acknowledged or aborted within the phase
        pa.field("p50_ms", pa.float64()),
        pa.field("p99_ms", pa.float64()),
        pa.field("p999_ms", pa.float64()),
        pa.field("max_ms", pa.float64()),
        _required("received", pa.int64()),  # of those due, received by a live consumer at any time
        *(pa.field(f"end_to_end_{name}", pa.float64()) for name in ("p50_ms", "p99_ms", "p999_ms", "max_ms")),
    ]
)

# What was measured, for comparisons. A row without a value says that nothing was seen, and `note` says why.
METRICS = pa.schema(
    [
        _required("metric", pa.string()),  # a name of history.metrics.METRICS, its unit as its ending
        _required("phase", pa.string()),  # "" for the whole run
        pa.field("value", pa.float64()),
        pa.field("samples", pa.int64()),  # records, sends or probes behind the value
        _required("censored", pa.bool_()),  # at least the value: the observation ended first
        _required("trusted", pa.bool_()),  # false: no basis for a comparison, for the reason in `note`
        pa.field("note", pa.string()),
    ]
)

# Down-sampled series for the plots. A row with null values is a gap: nobody saw the replica then.
TIMELINE_REPLICAS = pa.schema(
    [
        *_PARTITION,
        _required("broker_id", pa.int32()),
        _required("t_ns", pa.int64()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("high_watermark", pa.int64()),
        pa.field("log_end_offset", pa.int64()),
    ]
)

TIMELINE_ISR = pa.schema(
    [
        *_PARTITION,
        _required("t_ns", pa.int64()),
        pa.field("leader", pa.int32()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("isr", _INT_LIST),
        _required("observer", pa.string()),
    ]
)

# Sends by the second in which they were due.
TIMELINE_SENDS = pa.schema(
    [
        _required("t_ns", pa.int64()),  # start of the second
        _required("acked", pa.int64()),
        _required("failed", pa.int64()),
        _required("indeterminate", pa.int64()),
        pa.field("p50_ms", pa.float64()),
        pa.field("p99_ms", pa.float64()),
    ]
)

RECORDED = {
    "sends": SENDS,
    "polls": POLLS,
    "seeks": SEEKS,
    "group_reads": GROUP_READS,
    "rebalances": REBALANCES,
    "commits": COMMITS,
    "share_reads": SHARE_READS,
    "share_acks": SHARE_ACKS,
    "positions": POSITIONS,
    "replicas": REPLICAS,
    "isr": ISR,
    "offsets": OFFSETS,
    "usage": USAGE,
}
JUDGED = {
    "delivery": DELIVERY,
    "anomalies": ANOMALIES,
    "anomaly_counts": ANOMALY_COUNTS,
    "invariants": INVARIANTS,
    "recovery": RECOVERY,
    "latency": LATENCY,
    "metrics": METRICS,
    "timeline_replicas": TIMELINE_REPLICAS,
    "timeline_isr": TIMELINE_ISR,
    "timeline_sends": TIMELINE_SENDS,
}
