"""How long each fault was felt: detection, election, ISR, writes, high watermark; and latency by phase.

Times count from the moment of injection (or of the heal, for ``isr_full``) on the host's monotonic clock, as seen
in ISR views and acknowledgements. What was not seen before its phase ended is censored: at least that long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that Spark's own pages use

from history.events import Event
from history.manifest import Manifest
from history.tables import LATENCY, RECOVERY
from spark.tables import PARTITION, rows


class Span(NamedTuple):
    """A phase, from its first event to its last."""

    phase: str
    from_ns: int
    to_ns: int


def phases(events: Iterable[Event]) -> list[Span]:
    """The run's phases in order; one that never ended lasts to the last event."""
    known = list(events)
    ended = {event.phase: event.t_ns for event in known if event.kind == "phase_ended"}
    return [
        Span(event.phase, event.t_ns, ended.get(event.phase, known[-1].t_ns))
        for event in known
        if event.kind == "phase_started"
    ]


def recovery(
    spark: SparkSession, manifest: Manifest, events: list[Event], changes: DataFrame, stalls: DataFrame
) -> DataFrame:
    """The recovery table: ISR times per fault and partition, write and HW stalls per phase.

    ``changes`` (the partition's states in order) is small and collected; ``stalls`` comes from ``longest_stalls``.
    """
    states: dict[tuple[str, int], list[Row]] = {}
    for row in changes.orderBy("received_ns").collect():
        states.setdefault((row["topic"], row["partition"]), []).append(row)
    spans = phases(events)
    measured = [
        row
        for fault in (event for event in events if event.kind == "injected")
        for partition, seen in states.items()
        for row in _of_fault(fault, events, spans, manifest, (*partition, seen))
    ]
    return rows(spark, RECOVERY, measured).union(stalls.select(*RECOVERY.names))


def _of_fault(
    fault: Event, events: list[Event], spans: list[Span], manifest: Manifest, where: tuple[str, int, list[Row]]
) -> Iterator[dict[str, Any]]:
    topic, partition, seen = where
    limit_ns = next((span.to_ns for span in spans if span.phase == fault.phase), events[-1].t_ns)
    from_ns = max((e.t_ns for e in events if e.kind == "inject" and _same(e, fault)), default=fault.t_ns)
    targets = {n.node_id for n in manifest.brokers if n.name in fault.target.replace(",", " ").split()}
    before = [row for row in seen if row["received_ns"] <= from_ns]
    after = [row for row in seen if row["received_ns"] > from_ns]
    assigned = set(manifest.topics[topic].assignment[partition]) if topic in manifest.topics else set()
    if not before or not targets & assigned:
        return

    def measure(metric: str, start_ns: int, found: Iterable[Row], note: str | None = None) -> dict[str, Any]:
        first_ns = next((row["received_ns"] for row in found), None)
        end_ns = max(limit_ns, start_ns) if first_ns is None else first_ns
        return {
            "phase": fault.phase,
            "fault": f"{fault.step} {fault.target}",
            "topic": topic,
            "partition": partition,
            "metric": metric,
            "from_ns": start_ns,
            "value_ms": (end_ns - start_ns) / 1e6,
            "censored": first_ns is None,
            "samples": len(seen),
            "note": note,
        }

    last = before[-1]
    if last["leader"] in targets and fault.step in {"kill", "stop", "pause"}:
        yield measure("detect", from_ns, (r for r in after if r["leader"] != last["leader"]))
        elected = (r for r in after if r["leader"] >= 0 and r["leader_epoch"] > last["leader_epoch"])
        yield measure("elect", from_ns, elected)
    if targets & set(last["isr"]):
        yield measure("isr_shrink", from_ns, (r for r in after if not targets <= set(r["isr"])))
    healed = [e.t_ns for e in events if e.kind == "healed" and e.t_ns >= fault.t_ns and e.target == fault.target]
    if healed:
        full = [r for r in seen if r["received_ns"] > healed[0] and set(r["isr"]) >= assigned]
        at_heal = [r for r in seen if r["received_ns"] <= healed[0]]
        if at_heal and set(at_heal[-1]["isr"]) >= assigned:
            yield {
                **measure("isr_full", healed[0], [], "the ISR was full at the heal"),
                "value_ms": 0.0,
                "censored": False,
            }
        else:
            yield measure("isr_full", healed[0], full)


def _same(inject: Event, injected: Event) -> bool:
    return (inject.step, inject.target) == (injected.step, injected.target) and inject.t_ns <= injected.t_ns


def longest_stalls(sends: DataFrame, samples: DataFrame, spans: DataFrame) -> DataFrame:
    """Per phase and partition: the longest time without an acknowledgement, and without the HW growing.

    ``spans`` is (phase, from_ns, to_ns). The stretch to the phase's end counts and is censored.
    """
    acks = sends.filter("outcome = 'ok' AND done_ns IS NOT NULL").select(*PARTITION, F.col("done_ns").alias("t_ns"))
    so_far = Window.partitionBy(*PARTITION).orderBy("received_ns").rowsBetween(Window.unboundedPreceding, -1)
    grown = samples.withColumn("top", F.max("high_watermark").over(so_far)).filter(
        F.col("top").isNull() | (F.col("high_watermark") > F.col("top"))
    )
    growth = grown.select(*PARTITION, F.col("received_ns").alias("t_ns"))
    return _longest_gap(acks, spans, "write_unavailable").union(_longest_gap(growth, spans, "hw_stall"))


def _longest_gap(moments: DataFrame, spans: DataFrame, metric: str) -> DataFrame:
    in_order = Window.partitionBy("phase", *PARTITION).orderBy("t_ns")
    within = moments.join(F.broadcast(spans), F.col("t_ns").between(F.col("from_ns"), F.col("to_ns")), how="inner")
    next_ns = F.lead("t_ns").over(in_order)
    gaps = within.withColumns({"gap_ns": F.coalesce(next_ns, "to_ns") - F.col("t_ns"), "open": next_ns.isNull()})
    longest = F.max(F.struct("gap_ns", "t_ns", "open"))
    return (
        gaps.groupBy("phase", *PARTITION)
        .agg(longest.alias("longest"), F.count("*").alias("samples"))
        .select(
            "phase",
            F.lit("").alias("fault"),
            *PARTITION,
            F.lit(metric).alias("metric"),
            F.col("longest.t_ns").alias("from_ns"),
            (F.col("longest.gap_ns") / 1e6).alias("value_ms"),
            F.col("longest.open").alias("censored"),
            "samples",
            F.lit(None).cast("string").alias("note"),
        )
    )


def latency(sends: DataFrame, spans: DataFrame) -> DataFrame:
    """Latency of acknowledged sends by the phase in which they were due, counted from the due time."""
    acked = sends.filter("outcome = 'ok' AND done_ns IS NOT NULL").join(
        F.broadcast(spans), (F.col("due_ns") >= F.col("from_ns")) & (F.col("due_ns") < F.col("to_ns")), how="inner"
    )
    taken_ms = (F.col("done_ns") - F.col("due_ns")) / 1e6
    quantiles = F.percentile(taken_ms, F.array(F.lit(0.5), F.lit(0.99), F.lit(0.999)))
    return (
        acked.groupBy("phase")
        .agg(F.count("*").alias("acked"), quantiles.alias("q"), F.max(taken_ms).alias("max_ms"))
        .withColumns({"p50_ms": F.col("q")[0], "p99_ms": F.col("q")[1], "p999_ms": F.col("q")[2]})
        .select(*LATENCY.names)
    )
