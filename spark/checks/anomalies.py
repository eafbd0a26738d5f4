"""Cases in which the records themselves contradict what was promised; one row per case.

Every function returns ``CASE`` columns; ``at_ns`` is when the case's record was acknowledged, if it was.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name that Spark's own pages use

from spark.folder.tables import PARTITION, VALUE

# S1 breaks a promise that Kafka made under this configuration; S2 is liveness, or trouble worth a look.
SEVERITY = {
    "lost_write": "S1",
    "truncated_ack": "S1",
    "unknown_offset_ack": "S1",
    "invisible_ack": "S2",
    "undrained": "S2",
    "unseen": "S2",
    "inconsistent_offset": "S1",
    "duplicate": "S1",
    "phantom_record": "S1",
    "corrupt_record": "S1",
    "aborted_read": "S1",
    # spark/checks/transactions.py
    "torn_transaction": "S1",
    "hanging_transaction": "S1",
    # spark/checks/order.py
    "poll_skip": "S1",
    "nonmonotonic_poll": "S1",
    "nonrepeatable_read": "S1",
    "precommitted_read": "S1",
    "realtime_order_violation": "S1",
    "nonmonotonic_send": "S1",
    "bad_ack_offset": "S2",
    "leader_epoch_regression": "S2",
    # spark/checks/replica_checks.py
    "source_disagreement": "S2",
    "behaviour_change": "S2",
}
GONE = ("lost_write", "truncated_ack", "unknown_offset_ack")
CASE = ["anomaly", *PARTITION, "offset", *VALUE, "acks", "at_ns", "evidence", "explanation"]


def cases_of(frame: DataFrame, anomaly: str | Column, explanation: Column, **evidence: Column) -> DataFrame:
    """A frame's rows as ``CASE`` columns; ``evidence`` becomes a JSON object."""
    named = F.lit(anomaly) if isinstance(anomaly, str) else anomaly
    facts = F.to_json(F.struct(*(value.alias(name) for name, value in sorted(evidence.items()))))
    absent = [F.lit(None).cast(kind).alias(n) for n, kind in (("acks", "string"), ("at_ns", "bigint"))]
    missing = [column for column, name in zip(absent, ("acks", "at_ns"), strict=True) if name not in frame.columns]
    return (
        frame.select("*", *missing)
        .withColumns({"anomaly": named, "evidence": facts, "explanation": F.coalesce(explanation, F.lit(""))})
        .select(*CASE)
    )
