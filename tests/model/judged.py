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

from history.partition import TopicPartition
from history.tables import ISR, POLLS, REPLICAS, SEEKS, SENDS
from kafka_files.states import State
from spark.checks import elections, invariants, log_content, order, watermarks
from spark.checks.account import account
from spark.checks.agreement import Logs, compare
from spark.checks.judge import Question, record_cases
from spark.checks.log_content import ShortIsr
from spark.checks.replica_checks import of_samples, short_rows
from spark.checks.sources import decided
from spark.checks.tally import Check
from spark.evidence.facts import UNFENCED_NS, Facts, Fault
from spark.evidence.partition import Drain, PartitionEvidence, Replica
from spark.folder import recorded
from spark.folder.tables import rows
from spark.job import LIMITS
from tests.model.replicated_log import BROKERS, MAX_ISR_LAG_NS, Batch, History
from tests.spark.folders import TP, batch, values
from tests.spark.partitions import evidence

WHERE = TopicPartition(**TP)


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
    samples = of_samples(WHERE, pa.Table.from_pylist(placed(history.samples), REPLICAS), known)
    for name, check in watermarks.CHECKS.items():
        found = check(samples)
        violated_ns, evidence = found.violated_ns.tolist(), found.evidence
        yield from ((name, Check(*WHERE, t_ns, True, evidence(n))) for n, t_ns in enumerate(violated_ns))
        yield from ((name, Check(*WHERE, None, False, {})) for _ in range(found.checked - len(violated_ns)))
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
    def changes(self) -> DataFrame:
        every = (state._replace(topic=f"t{n}") for n, history in enumerate(self.histories) for state in states(history))
        return decided(self.spark, every)

    @cached_property
    def limits(self) -> DataFrame:
        return self._all(
            LIMITS,
            lambda h: [
                {"max_isr_lag_ns": MAX_ISR_LAG_NS, "effective_min_isr": h.effective_min_isr if h.strict_min_isr else 0}
            ],
        )

    def cases(self) -> list[dict[str, Any]]:
        """Every anomaly of every history: rows of the anomalies table."""
        early = order.precommitted_read(self.polls, self.samples, recorded.leaders(self.isr)).collect()
        found = [row.asDict() for row in early]
        for n, history in enumerate(self.histories):
            found += ({**row, "topic": f"t{n}"} for row in of_records(history))
        return found

    def invariants(self) -> dict[tuple[int, str], tuple[int, int]]:
        """(history, invariant) → (checked, violations)."""
        leaders = recorded.leaders(self.isr)
        no_outages = rows(self.spark, invariants.OUTAGES, [])
        found = {
            "I1": invariants.i1_bounds(self.samples),
            "I2": invariants.i2_hw_below_leo(self.samples),
            "I3": invariants.i3_leader_monotonic(self.samples, leaders),
            "I6": invariants.i6_own_floor(self.samples),
            "I8": invariants.i8_leader_completeness(self.samples, self.epochs),
            "I10": invariants.i10_quiescence(self.samples, self.changes, self.limits, no_outages),
        }
        named = [frame.select("topic", F.lit(name).alias("invariant"), "violated") for name, frame in found.items()]
        counted = reduce(DataFrame.union, named).groupBy("topic", "invariant")
        listed = counted.agg(F.count("*").alias("checked"), F.count_if("violated").alias("violations")).collect()
        of_samples = {(int(row["topic"][1:]), row["invariant"]): (row["checked"], row["violations"]) for row in listed}
        in_logs = {(n, name): counts for n, history in enumerate(self.histories) for name, counts in of_logs(history)}
        return of_samples | in_logs


def held(history: History, broker_id: int) -> Iterator[dict[str, Any]]:
    """Every record of a replica's log."""
    for one in history.logs[broker_id]:
        for n, seq in enumerate(one.seqs):
            yield {"offset": one.base + n, "seq": seq, "producer_id": one.producer, "leader_epoch": one.epoch}


def evidence_of(history: History) -> PartitionEvidence:
    """What the checks on records are given."""
    return evidence(
        placed(history.sends),
        placed(history.polls),
        placed(history.seeks),
        logs={broker_id: list(held(history, broker_id)) for broker_id in history.logs},
        drain=Drain(history.drain_end, history.drain_end, True),
    )


def of_records(history: History) -> Iterator[dict[str, Any]]:
    """The cases in a history's records."""
    of = evidence_of(history)
    told = account(of.sends, of.polls, of.logs, drain=of.drain, whole=True)
    for cases in record_cases(of, told, Question(Path(), of.where)):
        for place, value in enumerate(cases.values.tolist()):
            producer, seq = of.names.name(value)
            yield {"anomaly": cases.anomaly, "producer_id": producer, "seq": seq, **cases.example(place)}


def of_logs(history: History) -> Iterator[tuple[str, tuple[int, int]]]:
    """What the checks of records against the logs say: (invariant, (checked, violations))."""
    of = evidence_of(history)
    found = {
        "I15": log_content.i15_durability(of, dict.fromkeys(final_isr(history), 0)),
        "I16": log_content.i16_no_phantom_read(of, history.leader, 0),
        "I28": log_content.i28_enough_replicas(of, list(short_isrs(history))),
    }
    for name, checks in found.items():
        if checks.checked:
            yield name, (checks.checked, checks.violated_ns.size)


def final_isr(history: History) -> list[int]:
    """Members that every observer's last view of the newest epoch names."""
    newest = max(view["leader_epoch"] for view in history.views)
    last = {view["observer"]: view for view in history.views if view["leader_epoch"] == newest}
    return sorted(set.intersection(*(set(view["isr"]) for view in last.values())))


def short_isrs(history: History) -> Iterator[ShortIsr]:
    """The stretches below min.insync.replicas, and since when the leader has known."""
    for row in short_rows(WHERE, facts(history)):
        own = [
            view["received_ns"]
            for view in history.views
            if (view["observer"], view["leader_epoch"]) == (str(row["broker_id"]), row["leader_epoch"])
            and sorted(view["isr"]) == row["isr"]
            and row["from_ns"] <= view["sent_ns"]
            and view["received_ns"] <= row["until_ns"]
        ]
        if own:
            since_ns = min(own) + UNFENCED_NS
            yield ShortIsr(row["broker_id"], row["leader_epoch"], tuple(row["isr"]), since_ns, row["until_ns"])
