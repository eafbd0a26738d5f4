"""From the model's plain rows to what the judge's functions take, and what they say of a history."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import google_crc32c
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name that Spark's own pages use

from history.samples import Sample
from history.tables import ISR, POLLS, REPLICAS, SEEKS, SENDS
from kafka_files.segments import SEGMENTS
from kafka_files.states import State
from spark.checks import anomalies, delivery, elections, invariants, order, watermarks
from spark.checks.agreement import Logs, Replica, compare
from spark.checks.replica_checks import SHORT, i16_no_phantom_read, i28_enough_replicas, short_rows
from spark.checks.sources import decided
from spark.checks.tally import Check
from spark.checks.watermarks import Facts, Fault
from spark.folder import recorded
from spark.folder.tables import rows
from spark.job import LIMITS, WHOLE
from tests.model.replicated_log import BROKERS, MAX_ISR_LAG_NS, Batch, History
from tests.spark.folders import TP, batch, values

WHERE = TP["topic"], TP["partition"]
SAMPLE = ("broker_id", "leader_epoch", "sent_ns", "received_ns", "high_watermark", "log_end_offset", "incarnation")


def states(history: History) -> list[State]:
    """The controller's history."""
    return [
        State(*WHERE, "metadata_log", n, s.t_ns, s.leader, s.epoch, s.partition_epoch, BROKERS, tuple(sorted(s.isr)))
        for n, s in enumerate(history.states)
    ]


def placed(rows: list[dict[str, Any]], **where: Any) -> list[dict[str, Any]]:
    """Rows with their topic and partition."""
    return [{**TP, **where, **row} for row in rows]


def starts(history: History) -> dict[int, int]:
    """Where each epoch begins, by the smallest entry of the epoch files."""
    found: dict[int, int] = {}
    for epoch, start in (entry for epochs in history.epochs.values() for entry in epochs):
        found[epoch] = min(start, found.get(epoch, start))
    return found


def facts(history: History) -> Facts:
    """What the checks on samples are told."""
    return Facts(
        *WHERE,
        states=states(history),
        starts=starts(history),
        faults=[Fault(*fault) for fault in history.faults],
        max_isr_lag_ns=MAX_ISR_LAG_NS,
        effective_min_isr=history.effective_min_isr,
        strict_min_isr=history.strict_min_isr,
        lax_min_isr=not history.strict_min_isr,
    )


@lru_cache(maxsize=4096)
def encoded(one: Batch) -> bytes:
    """A batch as it stands in a segment."""
    data = bytearray(batch(one.base, values(*one.seqs, producer_id=one.producer), one.epoch))
    if one.base_sequence >= 0:
        kafka_id = google_crc32c.value(one.producer.encode())
        struct.pack_into(">qhi", data, 43, kafka_id, one.producer_epoch, one.base_sequence)
        struct.pack_into(">I", data, 17, google_crc32c.value(bytes(data[21:])))
    return bytes(data)


def logs(history: History, folder: Path) -> Logs:
    """The replicas' files, written into a folder."""
    replicas = []
    for broker_id, log in history.logs.items():
        file = folder / f"{broker_id}.log"
        file.write_bytes(b"".join(map(encoded, log)))
        hw = history.high_watermarks[broker_id]
        replicas.append(Replica(broker_id, [file], history.epochs[broker_id], 0, hw))
    return Logs(*WHERE, replicas, final=history.leader)


def checks(history: History) -> Iterator[tuple[str, Check]]:
    """Everything that the checks in plain Python look at: (invariant, check)."""
    known = facts(history)
    rows = sorted(history.samples, key=lambda row: (row["sent_ns"], row["broker_id"]))
    samples = [Sample(*(row[name] for name in SAMPLE)) for row in rows]
    for name, check in watermarks.CHECKS.items():
        yield from ((name, found) for found in check(samples, known))
    decided, lines = known.states, placed(history.lines)
    of_history = {
        "I19": elections.i19_one_leader_per_epoch(decided, lines, placed(history.views)),
        "I20": elections.i20_clean_election(decided),
        "I21": elections.i21_history_in_order(decided, history.effective_min_isr),
        "I25": elections.i25_boot_high_watermark(lines, placed(history.captures)),
    }
    for name, found in of_history.items():
        yield from ((name, check) for check in found)
    with TemporaryDirectory() as folder:
        yield from compare(logs(history, Path(folder)))


def disagreements(history: History) -> list[str]:
    """What two sources say differently."""
    told = elections.disagreements(states(history), placed(history.lines), placed(history.views), starts(history))
    return [sentence for sentence, _ in told]


# --- in Spark: every history is a topic of its own -------------------------------------------------

SEGMENTS_OF_BROKERS = SEGMENTS.append(pa.field("broker_id", pa.int32()))
FINAL = "topic string, partition int, broker_id int, log_start_offset bigint"


@dataclass(frozen=True)
class Tables:
    """Several histories as the judge's tables; the topic's name is its history's number."""

    histories: list[History]
    spark: SparkSession

    def _all(self, schema: pa.Schema, rows_of: Callable[[History], Iterable[dict[str, Any]]]) -> DataFrame:
        every = (
            {**TP, "topic": f"t{n}", **row} for n, history in enumerate(self.histories) for row in rows_of(history)
        )
        return rows(self.spark, schema, every).coalesce(1).persist()

    @cached_property
    def sends(self) -> DataFrame:
        return self._all(SENDS, lambda history: history.sends)

    @cached_property
    def polls(self) -> DataFrame:
        return self._all(POLLS, lambda history: history.polls)

    @cached_property
    def seeks(self) -> DataFrame:
        return self._all(SEEKS, lambda history: history.seeks)

    @cached_property
    def samples(self) -> DataFrame:
        return self._all(REPLICAS, lambda history: history.samples)

    @cached_property
    def isr(self) -> DataFrame:
        return self._all(ISR, lambda history: ({"source": "metadata"} | view for view in history.views))

    @cached_property
    def segments(self) -> DataFrame:
        return self._all(SEGMENTS_OF_BROKERS, held)

    @cached_property
    def epochs(self) -> DataFrame:
        return self._all(
            recorded.EPOCHS,
            lambda history: (
                {"broker_id": broker_id, "leader_epoch": epoch, "start_offset": start}
                for broker_id, entries in history.epochs.items()
                for epoch, start in entries
            ),
        )

    @cached_property
    def drains(self) -> DataFrame:
        return self._all(
            recorded.DRAINS,
            lambda history: [{"position": history.drain_end, "end_offset": history.drain_end, "complete": True}],
        )

    @cached_property
    def final(self) -> DataFrame:
        where = [(f"t{n}", 0, history.leader, 0) for n, history in enumerate(self.histories)]
        return self.spark.createDataFrame(where, FINAL)

    @cached_property
    def changes(self) -> DataFrame:
        every = (state._replace(topic=f"t{n}") for n, history in enumerate(self.histories) for state in states(history))
        return decided(self.spark, every)

    @cached_property
    def short(self) -> DataFrame:
        short = {n: short_rows(facts(history)) for n, history in enumerate(self.histories)}
        return rows(self.spark, SHORT, (row | {"topic": f"t{n}"} for n, found in short.items() for row in found))

    @cached_property
    def limits(self) -> DataFrame:
        return self._all(
            LIMITS,
            lambda h: [
                {"max_isr_lag_ns": MAX_ISR_LAG_NS, "effective_min_isr": h.effective_min_isr if h.strict_min_isr else 0}
            ],
        )

    def cases(self) -> DataFrame:
        """Every anomaly of every history: ``CASE`` columns."""
        producers = self._all(
            recorded.PRODUCERS, lambda h: ({"producer_id": p.name, "clean": True} for p in h.producers)
        )
        whole = self._all(WHOLE, lambda _: [{}])
        fates = (
            self.sends.transform(delivery.with_read, self.polls)
            .transform(delivery.with_index, self.polls)
            .transform(delivery.with_fate, self.segments, self.drains, whole)
            .localCheckpoint()
        )
        of_records = anomalies.anomalies(fates, self.sends, self.polls, self.segments, producers)
        leaders = recorded.leaders(self.isr)
        deleted = rows(self.spark, delivery.DELETED, [])
        of_order = order.cases(
            self.sends, self.polls, self.seeks, self.samples, leaders, drains=self.drains, deleted=deleted
        )
        return of_records.union(of_order)

    def invariants(self) -> dict[tuple[int, str], tuple[int, int]]:
        """(history, invariant) → (checked, violations)."""
        leaders = recorded.leaders(self.isr)
        no_outages = rows(self.spark, invariants.OUTAGES, [])
        members = recorded.final_isr(self.isr).withColumn("from_offset", F.lit(None).cast("bigint"))
        found = {
            "I1": invariants.i1_bounds(self.samples),
            "I2": invariants.i2_hw_below_leo(self.samples),
            "I3": invariants.i3_leader_monotonic(self.samples, leaders),
            "I6": invariants.i6_own_floor(self.samples),
            "I8": invariants.i8_leader_completeness(self.samples, self.epochs),
            "I10": invariants.i10_quiescence(self.samples, self.changes, self.limits, no_outages),
            "I15": invariants.i15_durability(self.sends, self.segments, members),
            "I16": i16_no_phantom_read(self.polls, self.segments, self.final),
            "I28": i28_enough_replicas(self.sends, self.segments, self.isr, self.short),
        }
        named = [frame.select("topic", F.lit(name).alias("invariant"), "violated") for name, frame in found.items()]
        counted = reduce(DataFrame.union, named).groupBy("topic", "invariant")
        listed = counted.agg(F.count("*").alias("checked"), F.count_if("violated").alias("violations")).collect()
        return {(int(row["topic"][1:]), row["invariant"]): (row["checked"], row["violations"]) for row in listed}


def held(history: History) -> Iterator[dict[str, Any]]:
    """Every record of every replica's log."""
    for broker_id, log in history.logs.items():
        where = {"node": f"broker-{broker_id}", "broker_id": broker_id, "segment": "0.log", "position": 0}
        for one in log:
            of_batch = where | {"batch_offset": one.base, "leader_epoch": one.epoch, "producer_id": one.producer}
            for n, seq in enumerate(one.seqs):
                yield of_batch | {"offset": one.base + n, "seq": seq, "checksum_ok": True}
