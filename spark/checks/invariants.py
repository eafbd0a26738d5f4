"""What the replicas' high watermarks and log ends must never show.

Each function takes DataFrames and returns one row per thing checked: topic, partition, t_ns, violated, evidence
(a JSON object). A sample is one probe's answer: ``sent_ns`` and ``received_ns`` on one monotonic clock, pinned to
the leader epoch that the broker accepted. Sample A is before sample B when A.received_ns <= B.sent_ns. All of
them assume: no unclean election, delete as the clean-up policy with nothing deleted, no DeleteRecords, no
tiered storage, and disks that survive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that Spark's own pages use

from spark.folder.recorded import of_leaders
from spark.folder.tables import PARTITION, REPLICA, VALUE

CHECK = [*PARTITION, "t_ns", "violated", "evidence"]
STRETCH_NS = 500_000_000  # a parked fetch answers within replica.fetch.wait.max.ms = 500
SETTLE_NS = 3_000_000_000  # three times the wait of a parked fetch and the follower's next one


# Rows of ``Outage``.
OUTAGES = pa.schema([("broker_id", pa.int32()), ("from_ns", pa.int64()), ("until_ns", pa.int64())])


class Invariant(NamedTuple):
    """An invariant's name in tables and pages."""

    title: str
    severity: str = "S1"


INVARIANTS = {
    "I1": Invariant("0 <= log start <= high watermark on every replica"),
    "I2": Invariant("high watermark <= log end on every replica"),
    "I3": Invariant("a leader's high watermark and log end never fall within its epoch"),
    "I6": Invariant("no replica's log end falls below a high watermark that it has shown"),
    "I8": Invariant("a new leader's log starts its epoch at or above every earlier high watermark"),
    "I10": Invariant("without produce the high watermark reaches the log end on every in-sync replica"),
    "I15": Invariant("a record acknowledged with acks=all is on every replica of the final ISR"),
    "I26": Invariant("log start <= last stable offset <= every later high watermark of the same leader"),
    "I27": Invariant("a transaction's records stand before the marker that its outcome names, in every log"),
}


def _checks(frame: DataFrame, violated: Column, *evidence: str) -> DataFrame:
    facts = F.when(violated, F.to_json(F.struct(*sorted(evidence))))
    return frame.withColumns({"violated": violated, "evidence": facts}).select(*CHECK)


def _sampled(samples: DataFrame) -> DataFrame:
    return samples.withColumn("t_ns", F.col("received_ns"))


def i1_bounds(samples: DataFrame) -> DataFrame:
    """I1, all versions; serves C14 and C43.

    Within one reply 0 <= log start <= HW.

    Sound because a Fetch captures HW before the log start's next move, and HW is clamped to the log start. The
    last stable offset is read later than HW and proves nothing.
    """
    answered = _sampled(samples).filter(F.col("log_start_offset").isNotNull())
    violated = (F.col("log_start_offset") < 0) | (F.col("log_start_offset") > F.col("high_watermark"))
    return _checks(answered, violated, "broker_id", "log_start_offset", "high_watermark", "t_ns")


def i2_hw_below_leo(samples: DataFrame, unclean: Sequence[str] = ()) -> DataFrame:
    """I2, all versions; serves C14.

    HW <= LEO on one replica.

    Sound where HW was read first: in one reply, or in an earlier sample of the same incarnation and epoch. LEO
    only grows between the two, but for a truncation, which never cuts below a replica's own HW: on a topic that is
    not clean it may, so that of those (``unclean``) only single replies count.
    """
    in_order = Window.partitionBy(*REPLICA, "incarnation", "leader_epoch").orderBy("sent_ns")
    earlier = F.lag(F.struct("high_watermark", "received_ns")).over(in_order)
    one_reply = F.coalesce("single_reply", F.lit(False))
    pairs = (
        _sampled(samples)
        .withColumn("earlier", earlier)
        .withColumn(
            "hw_read_first",
            F.when(one_reply, F.col("high_watermark")).when(
                (F.col("earlier.received_ns") <= F.col("sent_ns")) & ~F.col("topic").isin(*unclean),
                F.col("earlier.high_watermark"),
            ),
        )
        .filter(F.col("hw_read_first").isNotNull())
    )
    violated = F.col("hw_read_first") > F.col("log_end_offset")
    return _checks(pairs, violated, "broker_id", "leader_epoch", "hw_read_first", "log_end_offset", "t_ns")


def i3_leader_monotonic(samples: DataFrame, leaders: DataFrame) -> DataFrame:
    """I3, all versions; serves C7 and C8.

    A leader's HW and LEO do not fall within one incarnation and epoch.

    Sound because a leader never truncates its own log and never lowers its HW; who led an epoch is in the ISR
    views, and an epoch has one leader.
    """
    in_order = Window.partitionBy(*REPLICA, "incarnation", "leader_epoch").orderBy("sent_ns")
    state = F.struct("high_watermark", "log_end_offset", "received_ns")
    pairs = (
        of_leaders(_sampled(samples), leaders)
        .withColumn("before", F.lag(state).over(in_order))
        .filter(F.col("before.received_ns") <= F.col("sent_ns"))
    )
    fell = (F.col("high_watermark") < F.col("before.high_watermark")) | (
        F.col("log_end_offset") < F.col("before.log_end_offset")
    )
    return _checks(pairs, fell, "broker_id", "leader_epoch", "before", "high_watermark", "log_end_offset", "t_ns")


class NewLog(NamedTuple):
    """When a broker (None: any) may have got another log for a replica of a topic (None: any): a step moved it, or
    damaged its files.
    """

    broker_id: int | None
    t_ns: int
    topic: str | None = None


def i6_own_floor(samples: DataFrame, new_logs: Sequence[NewLog] = ()) -> DataFrame:
    """I6, all versions; serves C39 and C40.

    LEO of a replica >= the largest HW that it has ever shown, over all incarnations.

    Sound because a HW says that everything below is committed, and nobody elected cleanly lacks it. Other
    replicas' HWs prove nothing here: a former leader's divergent end may legally be cut below them. A replica that a
    step moved to another broker, or whose files it damaged, begins anew.
    """
    log = F.lit(0)
    for broker_id, t_ns, topic in new_logs:
        own = F.lit(True) if broker_id is None else F.col("broker_id") == broker_id
        of_topic = F.lit(True) if topic is None else F.col("topic") == topic
        log += (own & of_topic & (F.col("sent_ns") >= t_ns)).cast("int")
    earlier = (
        Window.partitionBy(*REPLICA, "log")
        .orderBy("sent_ns")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow - 1)
    )
    pairs = (
        _sampled(samples)
        .withColumn("log", log)
        .withColumn("floor", F.max("high_watermark").over(earlier))
        .withColumn("answered_ns", F.max("received_ns").over(earlier))
        .filter(F.col("answered_ns") <= F.col("sent_ns"))
    )
    violated = F.col("log_end_offset") < F.col("floor")
    return _checks(pairs, violated, "broker_id", "incarnation", "leader_epoch", "floor", "log_end_offset", "t_ns")


def i8_leader_completeness(samples: DataFrame, epochs: DataFrame) -> DataFrame:
    """I8, all versions; serves C6 and C46.

    For every HW shown in epoch E and every later epoch E', E' starts at or above it.

    Order-free, because the probe pins E. A replica's epoch file may name a later start than the election's
    (never an earlier one), so the smallest over the replicas is taken.
    """
    shown = samples.groupBy(*PARTITION, "leader_epoch").agg(
        F.max(F.struct("high_watermark", "broker_id", "received_ns")).alias("top")
    )
    starts = epochs.groupBy(*PARTITION, F.col("leader_epoch").alias("later_epoch")).agg(
        F.min("start_offset").alias("start_offset")
    )
    pairs = (
        shown.join(starts, PARTITION, how="inner")
        .filter(F.col("later_epoch") > F.col("leader_epoch"))
        .withColumns(
            {
                "high_watermark": F.col("top.high_watermark"),
                "broker_id": F.col("top.broker_id"),
                "t_ns": F.col("top.received_ns"),
            }
        )
    )
    violated = F.col("start_offset") < F.col("high_watermark")
    return _checks(pairs, violated, "broker_id", "leader_epoch", "high_watermark", "later_epoch", "start_offset")


class Outage(NamedTuple):
    """When a broker (None: a controller) may have been out of others' reach: from when a fault was asked for on."""

    broker_id: int | None
    from_ns: int
    until_ns: int


def i10_quiescence(samples: DataFrame, changes: DataFrame, limits: DataFrame, outages: DataFrame) -> DataFrame:
    """I10, all versions; serves C4, C12, C18 and C25.

    With no produce, HW = LEO on the leader, and every in-sync replica follows, within a limit.

    Checked on stretches in which the leader's LEO stood still. A member that has stopped fetching holds HW back
    until it is evicted, after at most 1.5 x replica.lag.time.max.ms, so a stuck HW is a violation only if the
    same ISR was seen for longer than that and the settling time, even if something cured it later; a shorter
    stretch that did not converge proves nothing and is left out. From 3.7 (KIP-966) HW stands still by design
    below min.insync.replicas: ``limits`` (topic, max_isr_lag_ns, effective_min_isr) sets effective_min_isr to 0 where
    that gate is closed. ``changes`` are the controller's own states where it left any: a leader that was cut off from
    it shows an old ISR.

    Of ``outages`` (``OUTAGES``) those of a controller or of the leader leave out the stretch: nobody may have been
    evicted. A member that was out of reach with all that the leader has is not evicted, and does not learn the last HW:
    it is not compared.
    """
    led = _leader_samples(samples, changes).join(F.broadcast(limits), "topic", how="inner")
    in_order = Window.partitionBy(*PARTITION, "since_ns").orderBy("received_ns")
    moved = F.coalesce(F.col("log_end_offset") != F.lag("log_end_offset").over(in_order), F.lit(True))
    stretches = (
        led.withColumn("stretch", F.sum(moved.cast("int")).over(in_order))
        .groupBy(*PARTITION, "since_ns", "stretch", "max_isr_lag_ns", "effective_min_isr", "isr")
        .agg(
            F.min("received_ns").alias("from_ns"),
            F.max("received_ns").alias("t_ns"),
            F.max("log_end_offset").alias("log_end_offset"),
            F.max("high_watermark").alias("leader_hw"),
            F.min(F.when(F.col("high_watermark") == F.col("log_end_offset"), F.col("received_ns"))).alias("reached_ns"),
            F.first("broker_id").alias("leader"),
        )
        .withColumn("quiet_ns", F.col("t_ns") - F.col("from_ns"))
        .withColumn("waited_ns", F.coalesce("reached_ns", "t_ns") - F.col("from_ns"))
        .filter((F.col("quiet_ns") >= STRETCH_NS) & (F.size("isr") >= F.col("effective_min_isr")))
        .transform(_without, outages, F.col("out_id").isNull() | (F.col("out_id") == F.col("leader")))
    )
    joined = stretches.join(_last_of_members(samples, stretches, outages), [*PARTITION, "from_ns"], how="left")
    limit_ns = F.col("max_isr_lag_ns") + SETTLE_NS
    followed = F.forall(
        "members",
        lambda m: (m.log_end_offset == F.col("log_end_offset")) & (m.high_watermark == F.col("leader_hw")),
    )
    in_time = F.col("reached_ns").isNotNull() & (F.col("waited_ns") <= limit_ns)
    converged = in_time & F.coalesce(followed, F.lit(True))
    stuck = F.col("quiet_ns") > limit_ns
    return _checks(
        joined.filter(converged | stuck),
        ~converged,
        "leader",
        "isr",
        "leader_hw",
        "log_end_offset",
        "members",
        "quiet_ns",
        "waited_ns",
    )


def _leader_samples(samples: DataFrame, changes: DataFrame) -> DataFrame:
    """The samples of whoever led, with the ISR of the moment; ``since_ns`` names the state's beginning."""
    until = F.lead("received_ns").over(Window.partitionBy(*PARTITION).orderBy("received_ns"))
    states = changes.select(
        *PARTITION,
        F.col("leader").alias("broker_id"),
        "leader_epoch",
        "isr",
        F.col("received_ns").alias("since_ns"),
        F.coalesce(until, F.lit(2**63 - 1)).alias("until_ns"),
    )
    return samples.join(F.broadcast(states), [*REPLICA, "leader_epoch"], how="inner").filter(
        (F.col("sent_ns") >= F.col("since_ns")) & (F.col("received_ns") < F.col("until_ns"))
    )


def _without(stretches: DataFrame, outages: DataFrame, whose: Column) -> DataFrame:
    """The stretches that no outage overlaps; ``whose`` says of ``out_id`` which ones matter."""
    out = outages.toDF("out_id", "out_from_ns", "out_until_ns")
    overlaps = (F.col("out_from_ns") <= F.col("t_ns")) & (F.col("out_until_ns") >= F.col("from_ns"))
    return stretches.join(F.broadcast(out), overlaps & whose, how="left_anti")


def _last_of_members(samples: DataFrame, stretches: DataFrame, outages: DataFrame) -> DataFrame:
    """The last sample of each follower in the ISR within a stretch in which it could be reached."""
    asked = stretches.select(*PARTITION, "from_ns", "t_ns", "leader", F.explode("isr").alias("broker_id")).transform(
        _without, outages, F.col("out_id") == F.col("broker_id")
    )
    last = F.max_by(F.struct("broker_id", "high_watermark", "log_end_offset"), "received_ns")
    return (
        samples.join(F.broadcast(asked.filter("broker_id != leader")), REPLICA, how="inner")
        .filter((F.col("sent_ns") >= F.col("from_ns")) & (F.col("received_ns") <= F.col("t_ns")))
        .groupBy(*PARTITION, "from_ns", "broker_id")
        .agg(last.alias("member"))
        .groupBy(*PARTITION, "from_ns")
        .agg(F.sort_array(F.collect_list("member")).alias("members"))
    )


def i15_durability(sends: DataFrame, segments: DataFrame, members: DataFrame) -> DataFrame:
    """I15, all versions; serves C1 and C27.

    A record acknowledged with acks=all stands at its offset on every replica of the final ISR.

    Sound with any min.insync.replicas while disks survive: the acknowledgement waited for every member of its
    ISR, and a clean election and every later join need the committed prefix. Reads each replica's log itself;
    a log that was not exported to its end is not asked, as absence proves nothing there, nor is one below
    ``from_offset``, up to where its own retention may have deleted (``members``: REPLICA, from_offset or null).
    """
    promised = sends.filter("outcome = 'ok' AND acks = 'all' AND offset IS NOT NULL").select(
        *PARTITION, *VALUE, "offset", F.col("done_ns").alias("t_ns")
    )
    held = segments.filter(F.col("offset").isNotNull()).select(*REPLICA, "offset", *VALUE, F.lit(True).alias("held"))
    asked = promised.join(F.broadcast(members), PARTITION, how="inner").filter(
        F.col("offset") >= F.coalesce("from_offset", F.lit(0))
    )
    found = asked.join(held, [*REPLICA, "offset", *VALUE], how="left")
    return _checks(found, F.col("held").isNull(), "broker_id", "offset", *VALUE)


def i26_stable_offset(samples: DataFrame, leaders: DataFrame) -> DataFrame:
    """I26, all versions, transactional producers; serves C2 and C43.

    A leader's last stable offset lies at or above its log start, and at or below every HW that it shows later in the
    same incarnation and epoch.

    Sound because it is the smaller of HW and the first open transaction's offset, and a leader's HW never falls (I3).
    One reply proves nothing against HW, which is read before it. That it falls is not checked: it is read in two
    steps, HW last, and a transaction may begin between them.
    """
    in_order = Window.partitionBy(*REPLICA, "incarnation", "leader_epoch").orderBy("sent_ns")
    pairs = (
        of_leaders(_sampled(samples), leaders)
        .withColumn("before", F.lag(F.struct("last_stable_offset", "received_ns")).over(in_order))
        .filter(F.col("last_stable_offset").isNotNull() & (F.col("before.received_ns") <= F.col("sent_ns")))
    )
    violated = (F.col("before.last_stable_offset") > F.col("high_watermark")) | (
        F.col("last_stable_offset") < F.col("log_start_offset")
    )
    return _checks(
        pairs, violated, "broker_id", "leader_epoch", "before", "last_stable_offset", "high_watermark", "t_ns"
    )


def i27_markers(sends: DataFrame, segments: DataFrame) -> DataFrame:
    """I27, all versions, transactional producers, clean topics; serves C2.

    In every replica's log the next marker of a record's Kafka producer id is a commit if the record's transaction was
    committed, and an abort if it was aborted; where nobody knows, it is the same for all records of the transaction.

    Sound because a producer's transactions follow one another, and the coordinator's decision is durable before the
    first marker is written. A record without a marker behind it (a log that ends there) is not checked. Reads the logs
    themselves, so that it needs no reader. An old request that arrives late would break it (KAFKA-17754).
    """
    behind = Window.partitionBy(*REPLICA, "kafka_producer_id").orderBy("last_offset")
    of_transaction = Window.partitionBy("producer_id", "transaction")
    ended = (
        segments.filter("transactional AND problem IS NULL")
        .withColumn("ends", F.first("marker", ignorenulls=True).over(behind.rangeBetween(1, Window.unboundedFollowing)))
        .filter(F.col("offset").isNotNull() & F.col("ends").isNotNull())
        .select(*REPLICA, *VALUE, F.col("offset").alias("held_offset"), "ends")
    )
    known = F.when(F.col("outcome") == "ok", "commit").when(F.col("outcome") == "fail", "abort")
    found = (
        sends.filter("transaction IS NOT NULL")
        .select(*PARTITION, *VALUE, "transaction", "outcome", F.col("done_ns").alias("t_ns"))
        .join(ended, [*PARTITION, *VALUE], how="inner")
        .withColumn("owed", F.coalesce(known, F.min("ends").over(of_transaction)))
    )
    violated = F.col("ends") != F.col("owed")
    return _checks(found, violated, "broker_id", "held_offset", *VALUE, "transaction", "outcome", "ends", "owed")


def summary(name: str, checks: DataFrame) -> DataFrame:
    """One row of the invariants table; nothing checked is unknown, never pass."""
    invariant = INVARIANTS[name]
    counted = checks.agg(
        F.count("*").alias("checked"),
        F.count_if("violated").alias("violations"),
        F.min(F.when(F.col("violated"), F.struct("t_ns", "topic", "partition", "evidence"))).alias("first"),
    )
    verdict = F.when(F.col("violations") > 0, "fail").when(F.col("checked") == 0, "unknown").otherwise(F.lit("pass"))
    where = F.concat(F.col("first.topic"), F.lit("-"), F.col("first.partition"), F.lit(": "), F.col("first.evidence"))
    reason = F.when(F.col("violations") > 0, F.concat(F.lit("first violation on "), where)).when(
        F.col("checked") == 0, F.lit("nothing that was recorded could be checked")
    )
    return counted.select(
        F.lit(name).alias("invariant"),
        F.lit(invariant.title).alias("title"),
        F.lit(invariant.severity).alias("severity"),
        "checked",
        "violations",
        verdict.alias("verdict"),
        reason.alias("reason"),
        F.col("first.evidence").alias("evidence"),
    )


def with_missing_evidence(invariants: DataFrame, unknown: Sequence[tuple[str, str]]) -> DataFrame:
    """Turns a pass into unknown where evidence that the invariant reads is missing: (invariant, reason) pairs."""
    for name, why in unknown:
        affected = (F.col("invariant") == name) & (F.col("verdict") != "fail")
        invariants = invariants.withColumns(
            {
                "verdict": F.when(affected, "unknown").otherwise(F.col("verdict")),
                "reason": F.when(affected, F.lit(why)).otherwise(F.col("reason")),
            }
        )
    return invariants
