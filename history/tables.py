"""Schemas of a run folder's tables (docs/run-folder.md), also for Spark.

``_ns`` are nanoseconds of the host's CLOCK_MONOTONIC; null: not observed.
"""

from __future__ import annotations

import pyarrow as pa


def _required(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


_PARTITION = [_required("topic", pa.string()), _required("partition", pa.int32())]
_INT_LIST = pa.list_(pa.int32())

# --- what the run recorded ---------------------------------------------------------------------

# outcome: ok | fail (certainly not written) | info (unknown)
SENDS = pa.schema(
    [
        _required("producer_id", pa.string()),
        _required("seq", pa.int64()),
        *_PARTITION,
        pa.field("due_ns", pa.int64()),  # open loop only
        pa.field("sent_ns", pa.int64()),  # null: not passed to the client, or unknown
        pa.field("done_ns", pa.int64()),  # null: no response
        _required("outcome", pa.string()),
        pa.field("error", pa.string()),
        pa.field("offset", pa.int64()),  # null: no offset acknowledged
        _required("acks", pa.string()),  # "0" | "1" | "all"
        _required("record_bytes", pa.int32()),
        pa.field("transaction", pa.int64()),  # from 0, by producer; null: none
    ]
)
LATER = frozenset({"transaction", "record_key"})  # missing in older folders

# pass: live | final | incomplete (imported: failed or without end). isolation: read_uncommitted | read_committed.
POLLS = pa.schema(
    [
        _required("consumer_id", pa.string()),
        _required("pass", pa.string()),
        _required("position", pa.int64()),  # from 0, by consumer
        *_PARTITION,
        _required("offset", pa.int64()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("producer_id", pa.string()),  # null: no test record
        pa.field("seq", pa.int64()),
        pa.field("checksum_ok", pa.bool_()),  # null: no checksum
        _required("received_ns", pa.int64()),
        _required("isolation", pa.string()),
    ]
)

# A reader that seeks counts as new.
SEEKS = pa.schema(
    [
        _required("consumer_id", pa.string()),
        _required("pass", pa.string()),
        _required("position", pa.int64()),  # the next record's
        *_PARTITION,
        _required("from_offset", pa.int64()),
        _required("to_offset", pa.int64()),
        _required("leader_epoch", pa.int32()),  # newest known; sent to its leader
        _required("why", pa.string()),
        _required("sought_ns", pa.int64()),
    ]
)

# One row per contiguous offset range, written before the commit. member: node and incarnation, such as member-2.1.
GROUP_READS = pa.schema(
    [
        _required("member", pa.string()),
        *_PARTITION,
        _required("first_offset", pa.int64()),
        _required("last_offset", pa.int64()),
        _required("received_ns", pa.int64()),
    ]
)

# change: assigned | revoked | lost
REBALANCES = pa.schema(
    [
        _required("member", pa.string()),
        *_PARTITION,
        _required("change", pa.string()),
        _required("changed_ns", pa.int64()),  # revoked: before releasing it
    ]
)

# One row per partition of a request, and another for its response.
COMMITS = pa.schema(
    [
        _required("member", pa.string()),
        *_PARTITION,
        _required("number", pa.int64()),  # from 0, by member
        _required("offset", pa.int64()),
        _required("asked_ns", pa.int64()),
        pa.field("answered_ns", pa.int64()),  # null: a request's row
        pa.field("error", pa.string()),
    ]
)

# One row per contiguous offset range of a delivery, written before the acknowledgement.
SHARE_READS = pa.schema(
    [
        _required("member", pa.string()),
        *_PARTITION,
        _required("first_offset", pa.int64()),
        _required("last_offset", pa.int64()),
        pa.field("delivery_count", pa.int32()),  # from 1; null: not reported
        _required("since_ns", pa.int64()),  # end of the eighth poll before; fetched later
        _required("received_ns", pa.int64()),
    ]
)

# One row per contiguous offset range of a request, and another for the response. kind: accept | release.
SHARE_ACKS = pa.schema(
    [
        _required("member", pa.string()),
        *_PARTITION,
        _required("first_offset", pa.int64()),
        _required("last_offset", pa.int64()),
        _required("kind", pa.string()),
        pa.field("asked_ns", pa.int64()),  # null: a response's row
        pa.field("answered_ns", pa.int64()),  # null: a request's row
        pa.field("error", pa.string()),
    ]
)

POSITIONS = pa.schema(
    [
        _required("reader", pa.string()),  # the live consumer, or member and incarnation
        *_PARTITION,
        pa.field("position", pa.int64()),  # next fetch offset; null: nothing fetched
        _required("told_ns", pa.int64()),
    ]
)

# error: a Kafka error's name, or unreachable; then the values are null.
REPLICAS = pa.schema(
    [
        _required("broker_id", pa.int32()),
        pa.field("incarnation", pa.int32()),  # from 1; filled in at collection
        *_PARTITION,
        pa.field("leader_epoch", pa.int32()),  # accepted by the broker
        _required("sent_ns", pa.int64()),
        _required("received_ns", pa.int64()),
        pa.field("log_start_offset", pa.int64()),
        pa.field("high_watermark", pa.int64()),
        pa.field("last_stable_offset", pa.int64()),
        pa.field("log_end_offset", pa.int64()),
        pa.field("single_reply", pa.bool_()),  # HW and LEO in one reply, HW read first
        pa.field("error", pa.string()),
    ]
)

CONTROLLER = "controller"
# source: metadata
ISR = pa.schema(
    [
        _required("observer", pa.string()),  # broker id, or CONTROLLER
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

# capture: before | <phase name> | after
OFFSETS = pa.schema(
    [
        _required("capture", pa.string()),
        *REPLICAS,
        pa.field("checkpoint_high_watermark", pa.int64()),  # replication-offset-checkpoint; null: absent
        pa.field("checkpoint_log_start_offset", pa.int64()),
        pa.field("checkpoint_recovery_point", pa.int64()),
        pa.field("checkpoint_leader_epoch", pa.int32()),  # last entry
        pa.field("checkpoint_epoch_start_offset", pa.int64()),
    ]
)

# label: before | <phase name>: start | <phase name> (end) | after. source: node name | host | others (on a
# cluster of theirs). Counters accumulate from a node's first start.
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

IMPORTED = pa.schema(
    [
        *_PARTITION,
        _required("producer_id", pa.string()),
        _required("seq", pa.int64()),
        _required("key", pa.string()),  # JSON: the original key
        _required("value", pa.string()),  # JSON
        pa.field("operation", pa.int64()),  # of several records
        pa.field("record_key", pa.string()),  # JSON; null: unknown
    ]
)

# --- what the judge concluded ------------------------------------------------------------------

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
                "read",  # distinct, in the final drain
                "lost",
                "unseen",
                "truncated_ack",
                "invisible_ack",
                "undrained",
                "unknown_offset_ack",
                "duplicated",  # at more than one offset
                "duplicate_copies",  # beyond the first
                "phantom",
                "corrupt",
                "aborted_read",
            )
        ),
        pa.field("loss_rate_low", pa.float64()),  # lost / acked
        pa.field("loss_rate_high", pa.float64()),  # (lost + unseen) / acked
        pa.field("duplicate_rate", pa.float64()),  # duplicate_copies / read
    ]
)

# The first cases of each kind. severity: S1 | S2.
ANOMALIES = pa.schema(
    [
        _required("anomaly", pa.string()),
        _required("severity", pa.string()),
        *_PARTITION,
        pa.field("offset", pa.int64()),
        pa.field("producer_id", pa.string()),
        pa.field("seq", pa.int64()),
        pa.field("allowed", pa.bool_()),  # null: undecided
        pa.field("allowed_why", pa.string()),
        pa.field("undecided", pa.string()),  # missing evidence; null: decided
        _required("explanation", pa.string()),
        _required("evidence", pa.string()),  # JSON object
    ]
)

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

# verdict: pass | fail | unknown
INVARIANTS = pa.schema(
    [
        _required("invariant", pa.string()),
        _required("title", pa.string()),
        _required("severity", pa.string()),
        _required("checked", pa.int64()),
        _required("violations", pa.int64()),
        _required("verdict", pa.string()),
        pa.field("reason", pa.string()),  # why unknown, or the first violation
        pa.field("evidence", pa.string()),
        pa.field("first_on", pa.string()),  # partition of the first violation
        _required("known_bug", pa.string()),  # issue, or ""
    ]
)

# metric: a name of history.metrics.RECOVERY. source: controller | metadata (as leaders showed: upper limit) | sends |
# replicas.
RECOVERY = pa.schema(
    [
        _required("phase", pa.string()),
        _required("fault", pa.string()),  # e.g. "kill leader of orders-0"; "": a whole phase
        *_PARTITION,
        _required("metric", pa.string()),
        _required("from_ns", pa.int64()),
        pa.field("value_ms", pa.float64()),
        _required("censored", pa.bool_()),  # observation ended first
        _required("source", pa.string()),
        pa.field("samples", pa.int64()),
        pa.field("note", pa.string()),
    ]
)

# Open-loop load. Latency counts from the due time; unacknowledged sends rank last: quantiles there are null.
LATENCY = pa.schema(
    [
        _required("phase", pa.string()),
        _required("seconds", pa.float64()),
        _required("due", pa.int64()),
        _required("acked", pa.int64()),  # of those, acknowledged or in an aborted transaction
        _required("arrived", pa.int64()),  # acknowledgements during the phase
        _required("owed", pa.int64()),  # due at least 1 s before the phase's end
        _required("kept", pa.int64()),  # of those, acknowledged or aborted within the phase
        pa.field("p50_ms", pa.float64()),
        pa.field("p99_ms", pa.float64()),
        pa.field("p999_ms", pa.float64()),
        pa.field("max_ms", pa.float64()),
        _required("received", pa.int64()),  # of those due, received by a live consumer
        *(pa.field(f"end_to_end_{name}", pa.float64()) for name in ("p50_ms", "p99_ms", "p999_ms", "max_ms")),
    ]
)

# Null value: nothing observed; `note` has the reason.
METRICS = pa.schema(
    [
        _required("metric", pa.string()),  # of history.metrics.METRICS
        _required("phase", pa.string()),  # "": the whole run
        pa.field("value", pa.float64()),
        pa.field("samples", pa.int64()),
        _required("censored", pa.bool_()),  # observation ended first
        _required("trusted", pa.bool_()),  # false: see `note`
        pa.field("note", pa.string()),
    ]
)

# Down-sampled for plots; nulls mark a gap.
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

TIMELINE_SENDS = pa.schema(
    [
        _required("t_ns", pa.int64()),
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
