"""Cases in which a transaction was not atomic, or did not end; and what its records' reads prove (KIP-98).

Records of one producer with the same number were in one transaction. What a ``read_uncommitted`` consumer was given of
them says nothing of its end. Functions named like an anomaly return the ``CASE`` columns of ``spark.checks.anomalies``.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that Spark's own pages use

from history.events import Event
from history.manifest import Manifest
from spark.checks.anomalies import GONE, cases_of
from spark.folder.recorded import of_leaders
from spark.folder.tables import PARTITION, VALUE, rows

TRANSACTION = ["producer_id", "transaction"]
SETTLE_NS = 10_000_000_000  # for the markers of an abort, after the coordinator has noticed
_FOREVER_NS = 2**63 - 1

STUCK = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("high_watermark", pa.int64()),
        pa.field("from_ns", pa.int64()),
        pa.field("to_ns", pa.int64()),
        pa.field("quiet_ns", pa.int64()),
    ]
)


def stable(polls: DataFrame, sends: DataFrame) -> DataFrame:
    """Without what ``read_uncommitted`` consumers were given of transactions that are not known to be committed."""
    open_ones = sends.filter("transaction IS NOT NULL AND outcome <> 'ok'").select(*PARTITION, *VALUE).distinct()
    early = polls.filter("isolation = 'read_uncommitted'")
    return polls.filter("isolation <> 'read_uncommitted'").union(
        early.join(open_ones, [*PARTITION, *VALUE], how="left_anti").select(*polls.columns)
    )


def with_siblings(sends: DataFrame) -> DataFrame:
    """Widens ``committed``: an indeterminate transaction of which one record was seen was committed as a whole."""
    any_seen = F.max("seen").over(Window.partitionBy(*TRANSACTION)) & F.col("transaction").isNotNull()
    return sends.withColumn("committed", F.col("committed") | ((F.col("outcome") == "info") & any_seen))


def torn_transaction(fates: DataFrame) -> DataFrame:
    """Of one transaction the final drain returned some records, while others are gone, as in KAFKA-17754.

    Sound because a record counts as gone only where a completed read went past it or no replica's log has it: what
    lies above the bound of its partition, or above the last stable offset, is not judged. A transaction without a
    known end must be all or nothing as well; of an aborted one any record that is read is an ``aborted_read``.
    """
    gone = F.col("fate").isin(*GONE)
    torn = (
        fates.filter("transaction IS NOT NULL AND outcome <> 'fail'")
        .groupBy(*TRANSACTION)
        .agg(
            F.count("*").alias("records"),
            F.count_if("read").alias("read"),
            F.count_if(gone).alias("gone"),
            F.min(F.when(gone, F.struct("seq", *PARTITION, "offset", "acks"))).alias("first"),
            F.max("done_ns").alias("at_ns"),
            F.first("outcome").alias("outcome"),
        )
        .filter("read > 0 AND gone > 0")
        .select("*", "first.*")
    )
    explanation = F.format_string(
        "Transaction %s of %s is torn: %s of its %s records were read and %s are gone, the first of them record %s/%s.",
        *(F.col(name) for name in ("transaction", "producer_id", "read", "records", "gone", "producer_id", "seq")),
    )
    names = ("transaction", "records", "read", "gone", "outcome")
    return cases_of(torn, "torn_transaction", explanation, **{name: F.col(name) for name in names})


def hanging_transaction(
    samples: DataFrame, leaders: DataFrame, sends: DataFrame, limit_ns: int, faults: Sequence[tuple[int, int]]
) -> DataFrame:
    """A leader's last stable offset stood below its high watermark for longer than any transaction may be open.

    Sound because the coordinator aborts a transaction ``transaction.timeout.ms`` after its begin, whatever became of
    its producer. It looks every ``transaction.abort.timed.out.transaction.cleanup.interval.ms``, and a fault may take
    it away: only a stretch with no fault active (``faults``, from injection to heal) that is longer than all that
    (``limit_ns``) counts. The last stable offset is the first open transaction's first record, so that one value is
    one transaction. The bugs behind KIP-890 leave such transactions, at which ``read_committed`` readers stop for good.
    """
    held = of_leaders(samples, leaders).filter(F.col("last_stable_offset") < F.col("high_watermark"))
    stretches = (
        held.groupBy(*PARTITION, F.col("last_stable_offset").alias("offset"))
        .agg(
            F.min("received_ns").alias("from_ns"),
            F.max("sent_ns").alias("to_ns"),
            F.max("high_watermark").alias("high_watermark"),
        )
        .filter(F.col("to_ns") - F.col("from_ns") > limit_ns)
    )
    found = [row.asDict() for row in stretches.collect()]
    for row in found:
        row["quiet_ns"] = longest_quiet_ns(row["from_ns"], row["to_ns"], faults)
    stuck = rows(samples.sparkSession, STUCK, (row for row in found if row["quiet_ns"] > limit_ns))
    first = sends.filter("transaction IS NOT NULL").select(*PARTITION, *VALUE, "offset", "transaction", "acks")
    named = stuck.join(first, [*PARTITION, "offset"], how="left")
    explanation = F.format_string(
        "The last stable offset stayed at %s for %.1f s with no fault active, below the high watermark %s: %s.",
        F.col("offset"),
        F.col("quiet_ns") / 1e9,
        F.col("high_watermark"),
        F.when(
            F.col("producer_id").isNotNull(),
            F.format_string("transaction %s of %s never ended", F.col("transaction"), F.col("producer_id")),
        ).otherwise("a transaction that nobody here began never ended"),
    )
    facts = ("transaction", "high_watermark", "from_ns", "to_ns", "quiet_ns")
    return cases_of(named, "hanging_transaction", explanation, **{name: F.col(name) for name in facts})


def longest_quiet_ns(from_ns: int, to_ns: int, faults: Sequence[tuple[int, int]]) -> int:
    """The longest part of a span of time in which no fault was active."""
    longest, since_ns = 0, from_ns
    for begin_ns, end_ns in sorted(faults):
        if end_ns <= since_ns:
            continue
        if begin_ns >= to_ns:
            break
        longest, since_ns = max(longest, begin_ns - since_ns), end_ns
    return max(longest, to_ns - since_ns)


def transactional(manifest: Manifest) -> bool:
    """Whether transactions belong to a run; of an imported history nobody knows beforehand."""
    return manifest.foreign or any(producer.transaction_timeout_ms for producer in manifest.producers)


def limit_ns(manifest: Manifest) -> int:
    """For how long a transaction may be open without a fault: time-out, the coordinator's interval, and the markers."""
    interval = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
    intervals = [int(node.config.get(interval, "10000")) for node in manifest.brokers] or [10_000]
    timeouts = [producer.transaction_timeout_ms or 0 for producer in manifest.producers] or [0]
    return (max(timeouts) + max(intervals)) * 1_000_000 + SETTLE_NS


def faults(events: Sequence[Event]) -> list[tuple[int, int]]:
    """When each fault was active: from the moment at which it was asked for until it was seen to be gone."""
    begun = [event for event in events if event.kind == "inject"]
    return [(event.t_ns, _healed_ns(event, events)) for event in begun]


def _healed_ns(begun: Event, events: Sequence[Event]) -> int:
    gone = (e.t_ns for e in events if e.kind == "healed" and e.target == begun.target and e.t_ns >= begun.t_ns)
    return min(gone, default=_FOREVER_NS)
