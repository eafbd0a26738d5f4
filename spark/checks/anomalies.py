"""Cases in which the records themselves contradict what was promised; one row per case.

Every function returns ``CASE`` columns; ``at_ns`` is when the case's record was acknowledged, if it was.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name that Spark's own pages use

from spark.checks.delivery import UNSEEN, with_read
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


def _name() -> Column:
    return F.concat(F.lit("Record "), F.col("producer_id"), F.lit("/"), F.col("seq"))


def unread_acknowledged(fates: DataFrame) -> DataFrame:
    """lost_write and the unseen kinds: acknowledged, and not returned by the final drain (spark/checks/delivery.py).

    Their sentences are written by spark/verdict/explanations.py.
    """
    cases = fates.filter(F.col("fate").isin("lost_write", *UNSEEN))
    return cases_of(
        cases.withColumn("at_ns", F.col("done_ns")),
        F.when(F.col("fate") == "undecided", "unseen").otherwise(F.col("fate")),
        F.lit(""),
        acked_ns=F.col("done_ns"),
        acked_offset=F.col("offset"),
        held_offset=F.col("held_offset"),
        outcome=F.col("outcome"),
    )


def duplicate(fates: DataFrame) -> DataFrame:
    """A record that the final drain returned at more than one offset."""
    twice = fates.filter("copies > 1").withColumns({"at_ns": F.col("done_ns"), "offset": F.get("found_at", F.lit(1))})
    explanation = F.concat(
        _name(), F.lit(" was sent once and stands at offsets "), F.array_join("found_at", ", "), F.lit(".")
    )
    return cases_of(twice, "duplicate", explanation, offsets=F.col("found_at"), outcome=F.col("outcome"))


def phantom_record(sends: DataFrame, reads: DataFrame, producers: DataFrame) -> DataFrame:
    """A sound payload that nobody is known to have sent to this partition.

    A send has its row once its outcome is known: the ledger of a producer that died lacks all that was in flight, of
    any number, and one that was cut short its end. Nothing is reported of such a ledger.
    """
    known = sends.select(*PARTITION, *VALUE).distinct()
    unclean = producers.filter("NOT clean").select("producer_id")
    unsent = (
        reads.filter(F.col("producer_id").isNotNull() & F.col("checksum_ok"))
        .join(known, [*PARTITION, *VALUE], how="left_anti")
        .join(F.broadcast(unclean), "producer_id", how="left_anti")
        .groupBy(*PARTITION, *VALUE)
        .agg(F.min("offset").alias("offset"), F.sort_array(F.collect_set("reader")).alias("readers"))
    )
    explanation = F.concat(_name(), F.lit(" stands at offset "), F.col("offset"), F.lit(" and was never sent there."))
    return cases_of(unsent, "phantom_record", explanation, readers=F.col("readers"))


def corrupt_record(reads: DataFrame, segments: DataFrame) -> DataFrame:
    """A record whose checksum does not fit its bytes, or a batch whose CRC-32C does not."""
    damaged = reads.filter(~F.col("checksum_ok")).select(*PARTITION, "offset", *VALUE, "reader")
    unreadable = segments.filter(F.col("problem").isin("bad crc", "malformed")).select(
        *PARTITION,
        F.col("batch_offset").alias("offset"),
        F.lit(None).cast("string").alias("producer_id"),
        F.lit(None).cast("bigint").alias("seq"),
        F.concat(F.lit("segment of "), F.col("node"), F.lit(" ("), F.col("problem"), F.lit(")")).alias("reader"),
    )
    places = (
        damaged.union(unreadable)
        .groupBy(*PARTITION, "offset")
        .agg(
            F.max("producer_id").alias("producer_id"),
            F.max("seq").alias("seq"),
            F.sort_array(F.collect_set("reader")).alias("readers"),
        )
    )
    explanation = F.concat(
        F.lit("The bytes at offset "),
        F.col("offset"),
        F.lit(" do not fit their checksum, as read by "),
        F.array_join("readers", ", "),
        F.lit("."),
    )
    return cases_of(places, "corrupt_record", explanation, readers=F.col("readers"))


def aborted_read(sends: DataFrame, polls: DataFrame) -> DataFrame:
    """A send that was reported as definitely not written, and that a consumer saw all the same.

    A record of a transaction counts where a ``read_committed`` consumer saw it, and the transaction was aborted: its
    abort was confirmed, or nobody ever asked to commit it.
    """
    seen = with_read(sends.filter("outcome = 'fail'"), polls).filter("seen").withColumn("at_ns", F.col("done_ns"))
    seen = seen.withColumn("offset", F.coalesce("offset", F.get("found_at", F.lit(0))))
    explanation = F.concat(
        _name(), F.lit(" failed for good ("), F.coalesce("error", F.lit("no error named")), F.lit(") and was read.")
    )
    return cases_of(seen, "aborted_read", explanation, error=F.col("error"), offsets=F.col("found_at"))


def inconsistent_offset(fates: DataFrame, polls: DataFrame) -> DataFrame:
    """One offset that holds two different values, by what readers saw and acknowledgements said.

    The row names a value that the final drain did not find there.
    """
    value = F.struct(*VALUE).alias("value")
    ours = polls.filter(F.col("producer_id").isNotNull())
    read = ours.select(*PARTITION, "offset", value, (F.col("pass") == "final").alias("final"))
    acked = fates.filter(F.col("committed") & F.col("offset").isNotNull())
    claims = read.union(acked.select(*PARTITION, "offset", value, F.lit(False)))
    other = F.filter("values", lambda v: v != F.col("stands"))
    clashes = (
        claims.groupBy(*PARTITION, "offset")
        .agg(
            F.sort_array(F.collect_set("value")).alias("values"),
            F.max(F.when(F.col("final"), F.col("value"))).alias("stands"),
        )
        .filter(F.size("values") > 1)
        .withColumn("victim", F.coalesce(F.get(other, F.lit(0)), F.get("values", F.lit(0))))
        .select(*PARTITION, "offset", "values", "stands", "victim.producer_id", "victim.seq")
    )
    given = F.filter("values", lambda v: ~v.eqNullSafe(F.col("stands")))
    held_by = F.array_join(F.transform(given, lambda v: F.concat(v.producer_id, F.lit("/"), v.seq)), " and ")
    now = F.coalesce(
        F.concat(
            F.lit(" and holds record "), F.col("stands.producer_id"), F.lit("/"), F.col("stands.seq"), F.lit(" now")
        ),
        F.lit(" and was not read at the end"),
    )
    explanation = F.concat(F.lit("Offset "), F.col("offset"), F.lit(" was that of record "), held_by, now, F.lit("."))
    return cases_of(clashes, "inconsistent_offset", explanation, values=F.col("values"))


def all_reads(polls: DataFrame, segments: DataFrame) -> DataFrame:
    """Every place at which some reader saw a record: consumers, and each replica's log read from disk."""
    consumers = polls.select(
        *PARTITION, "offset", *VALUE, "checksum_ok", F.concat(F.lit("consumer "), F.col("consumer_id")).alias("reader")
    )
    logs = segments.filter(F.col("offset").isNotNull()).select(
        *PARTITION, "offset", *VALUE, "checksum_ok", F.concat(F.lit("log of "), F.col("node")).alias("reader")
    )
    return consumers.union(logs)


def anomalies(
    fates: DataFrame, sends: DataFrame, polls: DataFrame, segments: DataFrame, producers: DataFrame
) -> DataFrame:
    """Every case of every kind, as ``CASE`` columns."""
    reads = all_reads(polls, segments)
    found = [
        unread_acknowledged(fates),
        duplicate(fates),
        phantom_record(sends, reads, producers),
        corrupt_record(reads, segments),
        aborted_read(sends, polls),
        inconsistent_offset(fates, polls),
    ]
    return reduce(DataFrame.union, found)


def with_severity(cases: DataFrame) -> DataFrame:
    """Adds ``severity``."""
    severities = F.create_map(*(F.lit(part) for pair in SEVERITY.items() for part in pair))
    return cases.withColumn("severity", severities[F.col("anomaly")])


def with_allowed(cases: DataFrame, allowed: DataFrame) -> DataFrame:
    """Adds ``allowed`` and ``allowed_why`` from rows (producer_id, anomaly, allowed_why)."""
    return cases.join(F.broadcast(allowed), ["producer_id", "anomaly"], how="left").withColumn(
        "allowed", F.col("allowed_why").isNotNull()
    )
