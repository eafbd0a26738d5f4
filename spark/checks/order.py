"""Cases in which clients' own views contradict the order that a log promises: reads, acknowledgements and real time.

Consumers read in assign mode, each partition from its beginning, so that every step in a consumer's own sequence is
the log's; a step across a seek of its own (``seeks``) says nothing of the log. Every function returns the ``CASE``
columns of ``spark.checks.anomalies``; one row per case.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that Spark's own pages use

from spark.checks.anomalies import cases_of
from spark.folder.tables import PARTITION, REPLICA, VALUE

PLACED = [*PARTITION, "offset", *VALUE]
STALE_NS = 2_000_000_000  # for so long nobody may have seen a new epoch whose leader serves already


def _steps(polls: DataFrame, seeks: DataFrame) -> DataFrame:
    """Each record with the one that the same consumer saw before it in the partition; a seek of its own stands between
    two records and parts them, as it is a new reader from then on.
    """
    sought = seeks.select("consumer_id", "pass", *PARTITION, "position", F.lit(0).alias("turn"))
    in_order = Window.partitionBy("consumer_id", "pass", *PARTITION).orderBy("position", "turn")
    before = F.lag(F.struct("offset", "leader_epoch")).over(in_order)
    both = polls.withColumn("turn", F.lit(1)).unionByName(sought, allowMissingColumns=True)
    return both.withColumn("before", before).filter((F.col("turn") == 1) & F.col("before.offset").isNotNull())


def drained(polls: DataFrame) -> DataFrame:
    """The records of ours that the final drain found (``PLACED``)."""
    return polls.filter((F.col("pass") == "final") & F.col("producer_id").isNotNull()).select(*PLACED)


def poll_skip(polls: DataFrame, seeks: DataFrame, standing: DataFrame) -> DataFrame:
    """A consumer went past a record that is known to be in the log between two of its reads; serves C2.

    Sound because an offset that lies below one that was read was filled by then. A gap that holds nothing of ours
    (control records) is legal. ``standing`` (``PLACED``) is what the final drain found; of an imported history, what
    anybody read or was acknowledged. The row names the first record passed over.
    """
    gaps = (
        _steps(polls, seeks)
        .filter(F.col("offset") > F.col("before.offset") + 1)
        .select(
            *PARTITION, "consumer_id", F.col("before.offset").alias("from_offset"), F.col("offset").alias("to_offset")
        )
    )
    passed = (
        standing.join(F.broadcast(gaps), PARTITION, how="inner")
        .filter((F.col("offset") > F.col("from_offset")) & (F.col("offset") < F.col("to_offset")))
        .groupBy(*PARTITION, "consumer_id", "from_offset", "to_offset")
        .agg(F.min(F.struct("offset", *VALUE)).alias("first"), F.count("*").alias("records"))
        .select("*", "first.*")
    )
    explanation = F.format_string(
        "Consumer %s went from offset %s to %s past %s records that are in the log.",
        F.col("consumer_id"),
        F.col("from_offset"),
        F.col("to_offset"),
        F.col("records"),
    )
    names = ("consumer_id", "from_offset", "records", "to_offset")
    return cases_of(passed, "poll_skip", explanation, **{name: F.col(name) for name in names})


def nonmonotonic_poll(polls: DataFrame, seeks: DataFrame) -> DataFrame:
    """A consumer was given an offset at or below the one before it, and had not sought; serves C2 and C46."""
    back = _steps(polls, seeks).filter(F.col("offset") <= F.col("before.offset"))
    explanation = F.format_string(
        "Consumer %s went back from offset %s to %s.", F.col("consumer_id"), F.col("before.offset"), F.col("offset")
    )
    return cases_of(
        back, "nonmonotonic_poll", explanation, consumer_id=F.col("consumer_id"), before=F.col("before.offset")
    )


def leader_epoch_regression(polls: DataFrame, seeks: DataFrame) -> DataFrame:
    """Further up in the log a consumer was given a batch of an older leader epoch; serves C26.

    Along a log the leader epoch never falls, as each leader appends behind all that it has.
    """
    fell = _steps(polls, seeks).filter(
        (F.col("offset") > F.col("before.offset")) & (F.col("leader_epoch") < F.col("before.leader_epoch"))
    )
    explanation = F.format_string(
        "Consumer %s read epoch %s at offset %s, after epoch %s at %s.",
        F.col("consumer_id"),
        F.col("leader_epoch"),
        F.col("offset"),
        F.col("before.leader_epoch"),
        F.col("before.offset"),
    )
    return cases_of(
        fell,
        "leader_epoch_regression",
        explanation,
        consumer_id=F.col("consumer_id"),
        leader_epoch=F.col("leader_epoch"),
        before=F.col("before"),
    )


def nonrepeatable_read(polls: DataFrame, drains: DataFrame, deleted: DataFrame) -> DataFrame:
    """An offset that was read with two values, or read and then passed empty by a complete drain, or read before a
    complete drain that ended below it; serves C2 and C46.

    What a consumer is given is below a high watermark and so committed: it stays, but for a deletion, which only
    moves the log's start (``deleted``: up to where, ``spark.checks.delivery.DELETED``). A ``read_committed`` drain
    rightly passes what only ``read_uncommitted`` readers were given. A leader tells no end of its log below what was
    committed before its epoch (KIP-207); what was read after the drain's first record may be newer than that end.
    """
    ours = polls.filter(F.col("producer_id").isNotNull())
    is_final = F.col("pass") == "final"
    value = F.struct(*VALUE)
    stable = F.max(F.col("isolation") == "read_committed")
    began = (
        ours.filter(is_final)
        .groupBy(*PARTITION)
        .agg(
            F.min("offset").alias("drained_from"),
            F.min("received_ns").alias("drained_ns"),
            stable.alias("drained_stable"),
        )
    )
    places = (
        ours.groupBy(*PARTITION, "offset")
        .agg(
            F.sort_array(F.collect_set(value)).alias("values"),
            F.max(is_final).alias("drained"),
            stable.alias("stable"),
            F.min("received_ns").alias("read_ns"),
            F.sort_array(F.collect_set("consumer_id")).alias("readers"),
        )
        .join(F.broadcast(drains.filter("complete")), PARTITION, how="left")
        .join(F.broadcast(began), PARTITION, how="left")
        .join(F.broadcast(deleted), PARTITION, how="left")
    )
    kept = F.col("offset") >= F.coalesce("deleted_before", F.lit(0))
    before = F.col("position").isNotNull() & (F.col("read_ns") < F.col("drained_ns"))
    reached = (F.col("offset") < F.col("position")) | before
    passed = kept & (F.col("offset") >= F.col("drained_from")) & reached
    vanished = ~F.col("drained") & passed & (F.col("stable") | ~F.col("drained_stable"))
    changed = F.size("values") > 1
    found = places.filter(changed | F.coalesce(vanished, F.lit(False))).select(
        "*", F.get("values", F.lit(0)).alias("one")
    )
    explanation = F.when(
        changed, F.format_string("Offset %s was read with %s different values.", F.col("offset"), F.size("values"))
    ).otherwise(F.format_string("The record at offset %s was read, and is not there any more.", F.col("offset")))
    return cases_of(
        found.select("*", "one.*"), "nonrepeatable_read", explanation, values=F.col("values"), readers=F.col("readers")
    )


def precommitted_read(polls: DataFrame, samples: DataFrame, leaders: DataFrame) -> DataFrame:
    """A record was given out although its leader's high watermark, asked later, was still at or below it; serves C2.
    To a ``read_committed`` consumer: although the last stable offset was.

    Sound within one epoch, as a leader's HW never falls (I3), nor do the first open transactions' offsets: the record's
    batch is of the sample's epoch, so no earlier leader can have served it, and no later epoch was seen until
    ``STALE_NS`` after the read, so no later one can; a leader that was cut off goes on showing its old HW.
    """
    until = F.lead("since_ns", default=2**63 - 1).over(Window.partitionBy(*PARTITION).orderBy("leader_epoch"))
    led = (
        leaders.groupBy(*PARTITION, "leader_epoch")
        .agg(F.min("leader").alias("broker_id"), F.min("seen_ns").alias("since_ns"))
        .withColumn("until_ns", until)
    )
    asked = samples.join(F.broadcast(led), [*REPLICA, "leader_epoch"], how="inner").select(
        *PARTITION,
        F.col("sent_ns").alias("t_ns"),
        F.struct("high_watermark", "last_stable_offset", "broker_id", "leader_epoch", "until_ns", "sent_ns").alias(
            "sample"
        ),
        F.lit(None).cast("bigint").alias("offset"),
        F.lit(None).cast("int").alias("batch_epoch"),
        *(F.lit(None).cast(kind).alias(name) for name, kind in (("producer_id", "string"), ("seq", "bigint"))),
        *(F.lit(None).cast("string").alias(name) for name in ("consumer_id", "isolation")),
    )
    read = polls.select(
        *PARTITION,
        F.col("received_ns").alias("t_ns"),
        F.lit(None).cast(asked.schema["sample"].dataType).alias("sample"),
        "offset",
        F.col("leader_epoch").alias("batch_epoch"),
        *VALUE,
        "consumer_id",
        "isolation",
    )
    readable = F.when(F.col("isolation") == "read_committed", F.col("next.last_stable_offset"))
    limit = F.coalesce(readable, F.col("next.high_watermark"))
    later = Window.partitionBy(*PARTITION).orderBy(F.desc("t_ns")).rowsBetween(Window.unboundedPreceding, -1)
    following = F.last("sample", ignorenulls=True).over(later)
    early = (
        asked.union(read)
        .withColumn("next", following)
        .filter(F.col("offset").isNotNull() & (limit <= F.col("offset")))
        .filter(F.col("batch_epoch") == F.col("next.leader_epoch"))
        .filter(F.col("t_ns") + STALE_NS < F.col("next.until_ns"))
    )
    explanation = F.format_string(
        "Consumer %s was given offset %s while broker %s, leader in epoch %s, was at HW %s, last stable offset %s.",
        F.col("consumer_id"),
        F.col("offset"),
        F.col("next.broker_id"),
        F.col("next.leader_epoch"),
        F.col("next.high_watermark"),
        F.col("next.last_stable_offset"),
    )
    return cases_of(early, "precommitted_read", explanation, sample=F.col("next"), received_ns=F.col("t_ns"))


def realtime_order_violation(sends: DataFrame, polls: DataFrame) -> DataFrame:
    """A record was acknowledged at or below an offset that was known to be filled before it was sent; serves C7.

    An offset is known to be filled when it was read, or acknowledged with acks=all. One that was acknowledged with
    acks=1 may be given again to a record with acks=all after a leader was lost, so it counts for acks=1 only.
    """
    null = F.lit(None).cast("bigint")
    nobody = (F.lit(None).cast("string").alias("producer_id"), null.alias("seq"))
    acked = sends.filter("outcome = 'ok' AND offset >= 0 AND acks <> '0'")
    known = acked.filter("done_ns IS NOT NULL").select(
        *PARTITION,
        F.col("done_ns").alias("t_ns"),
        F.col("offset").alias("known"),
        null.alias("offset"),
        *nobody,
        "acks",
    )
    read = polls.select(
        *PARTITION,
        F.col("received_ns").alias("t_ns"),
        F.col("offset").alias("known"),
        null.alias("offset"),
        *nobody,
        F.lit("all").alias("acks"),
    )
    sent = acked.filter("sent_ns IS NOT NULL").select(
        *PARTITION, F.col("sent_ns").alias("t_ns"), null.alias("known"), "offset", *VALUE, "acks"
    )
    earlier = Window.partitionBy(*PARTITION).orderBy("t_ns").rangeBetween(Window.unboundedPreceding, -1)
    kept = F.max(F.when(F.col("acks") == "all", F.col("known"))).over(earlier)
    top = F.when(F.col("acks") == "all", kept).otherwise(F.max("known").over(earlier))
    late = (
        known.union(read)
        .union(sent)
        .withColumn("top", top)
        .filter(F.col("offset").isNotNull() & (F.col("offset") <= F.col("top")))
    )
    explanation = F.format_string(
        "Record %s/%s was acknowledged at offset %s; offset %s was known to be filled before it was sent.",
        F.col("producer_id"),
        F.col("seq"),
        F.col("offset"),
        F.col("top"),
    )
    return cases_of(late, "realtime_order_violation", explanation, known_offset=F.col("top"), sent_ns=F.col("t_ns"))


def _acked_in_order(sends: DataFrame) -> DataFrame:
    """A producer's acknowledged records in the order of their numbers, each with the largest offset before it."""
    earlier = Window.partitionBy("producer_id", *PARTITION).orderBy("seq").rowsBetween(Window.unboundedPreceding, -1)
    acked = sends.filter("outcome = 'ok' AND acks <> '0'").withColumn("at_ns", F.col("done_ns"))
    return acked.withColumn("top", F.max(F.struct("offset", "seq")).over(earlier))


def nonmonotonic_send(sends: DataFrame) -> DataFrame:
    """A producer's later record was acknowledged below an earlier one of the same partition; serves C27."""
    back = _acked_in_order(sends).filter((F.col("offset") >= 0) & (F.col("offset") <= F.col("top.offset")))
    explanation = F.format_string(
        "Record %s/%s was acknowledged at offset %s, after %s/%s at %s.",
        F.col("producer_id"),
        F.col("seq"),
        F.col("offset"),
        F.col("producer_id"),
        F.col("top.seq"),
        F.col("top.offset"),
    )
    return cases_of(back, "nonmonotonic_send", explanation, earlier=F.col("top"))


def bad_ack_offset(sends: DataFrame) -> DataFrame:
    """An acknowledgement with no offset, -1, or, with acks=all, 0 after a larger one of the same producer; serves C7.

    With acks=1 the whole log may have been lost, so that its offsets begin again.
    """
    zero = (F.col("offset") == 0) & (F.col("top.offset") > 0) & (F.col("acks") == "all")
    bad = _acked_in_order(sends).filter(F.col("offset").isNull() | (F.col("offset") < 0) | zero)
    what = F.when(F.col("offset").isNull(), "no offset").otherwise(F.format_string("offset %s", F.col("offset")))
    explanation = F.format_string("Record %s/%s was acknowledged with %s.", F.col("producer_id"), F.col("seq"), what)
    return cases_of(bad, "bad_ack_offset", explanation, offset=F.col("offset"), earlier=F.col("top"))


def cases(
    sends: DataFrame,
    polls: DataFrame,
    seeks: DataFrame,
    samples: DataFrame,
    leaders: DataFrame,
    *,
    drains: DataFrame,
    deleted: DataFrame,
) -> DataFrame:
    """Every case of every kind."""
    found = [
        poll_skip(polls, seeks, drained(polls)),
        nonmonotonic_poll(polls, seeks),
        leader_epoch_regression(polls, seeks),
        nonrepeatable_read(polls, drains, deleted),
        precommitted_read(polls, samples, leaders),
        realtime_order_violation(sends, polls),
        nonmonotonic_send(sends),
        bad_ack_offset(sends),
    ]
    return reduce(DataFrame.union, found)


def imported_cases(sends: DataFrame, polls: DataFrame, seeks: DataFrame, standing: DataFrame) -> DataFrame:
    """The kinds that an imported history can show: each client's own order, which needs no clock and no epochs."""
    found = [poll_skip(polls, seeks, standing), nonmonotonic_poll(polls, seeks), nonmonotonic_send(sends)]
    return reduce(DataFrame.union, found)
