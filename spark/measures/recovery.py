"""The impact duration of each fault: detection, election, ISR, writes, high watermark; and latency by phase.

Times count from the order to inject (``catch_up``: from the order to heal) on the host's monotonic clock, until the
controller decided, as its own history says. ``rebalanced``: from the order to heal until the ISR is full and the
preferred leader, who led before, leads again. What did not come before the fault or its phase ended is censored: at
least that long. An ISR that never lost a target has nothing to make full.

Where the controller's history is missing or has no good times, leaders' own metadata gives upper bounds
(``spark.folder.recorded.isr_changes``), and what it did not show has no value: it may have come and gone between two
views.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that Spark's own pages use

from history.events import Event
from history.manifest import Manifest
from history.tables import LATENCY, RECOVERY
from history.traits import Trait
from spark.folder.recorded import CONTROLLER
from spark.folder.tables import PARTITION, rows

ABORTED = "transaction_aborted"  # the error of every record of a transaction that ended so (clusters/clients/ledger.py)
QUANTILES = ("p50_ms", "p99_ms", "p999_ms")
SETTLING_NS = 1_000_000_000  # of a phase's end: what is due then may still be under way
_NO_HISTORY = "the controller's history is missing or has no good times, and leaders' metadata is all there is"


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


def load_spans(events: Iterable[Event]) -> list[Span]:
    """The phases, each from the last load that it offers itself, if any.

    A load that is offered while a fault is active is a step of the degraded cluster: it ends as the heal is ordered.
    """
    known = list(events)
    return [_load_span(span, [event for event in known if event.phase == span.phase]) for span in phases(known)]


def _load_span(span: Span, events: list[Event]) -> Span:
    offered = next((event for event in reversed(events) if event.kind == "rate_set"), None)
    if offered is None:
        return span
    from_ns = int(offered.detail.get("from_ns", offered.t_ns))
    faults = [event for event in events if event.kind == "injected" and event.t_ns < from_ns]
    heals = (_first_after(fault, "heal", events) for fault in faults)
    ends = [heal_ns for heal_ns in heals if heal_ns is not None and heal_ns > from_ns]
    return Span(span.phase, from_ns, min([span.to_ns, *ends]))


def recovery(
    spark: SparkSession, manifest: Manifest, events: list[Event], changes: DataFrame, stalls: DataFrame
) -> DataFrame:
    """The recovery table: ISR times per fault and partition, write and HW stalls per phase.

    ``changes`` (``Sources.changes``) is small and collected; ``stalls`` comes from ``longest_stalls``.
    """
    states = changes.orderBy("received_ns").collect()
    return rows(spark, RECOVERY, fault_times(manifest, events, states)).union(stalls.select(*RECOVERY.names))


def fault_times(manifest: Manifest, events: list[Event], states: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Rows of the recovery table for each fault and partition; ``states`` are rows of ``Sources.changes`` in order."""
    seen: dict[tuple[str, int], list[Any]] = {}
    for row in states:
        seen.setdefault((row["topic"], row["partition"]), []).append(row)
    spans = phases(events)
    for fault in (e for e in events if e.kind == "injected" and manifest.has(e.step, Trait.RECOVERY_EXPECTED)):
        for partition, of_partition in seen.items():
            yield from _of_fault(fault, events, spans, manifest, (*partition, of_partition))


def _of_fault(
    fault: Event, events: list[Event], spans: list[Span], manifest: Manifest, where: tuple[str, int, list[Any]]
) -> Iterator[dict[str, Any]]:
    """The times of one fault on one partition; a fault that is over can cause no more: there its times are censored."""
    topic, partition, seen = where
    decided = all(row["observer"] == CONTROLLER for row in seen)
    phase_ends = next((span.to_ns for span in spans if span.phase == fault.phase), events[-1].t_ns)
    from_ns = max((e.t_ns for e in events if e.kind == "inject" and _same(e, fault)), default=fault.t_ns)
    over_ns = _first_after(fault, "healed", events) or phase_ends
    targets = {n.node_id for n in manifest.brokers if n.name in fault.target.replace(",", " ").split()}
    before = [row for row in seen if row["received_ns"] <= from_ns]
    assigned = set(manifest.topics[topic].assignment[partition]) if topic in manifest.topics else set()
    if not before or not targets & assigned:
        return

    def measure(metric: str, start_ns: int, found: Iterable[Any], limit_ns: int) -> dict[str, Any]:
        first_ns = next((row["received_ns"] for row in found), None)
        what = "the fault" if limit_ns == over_ns != phase_ends else "the phase"
        end_ns = max(limit_ns, start_ns) if first_ns is None else first_ns
        value_ms = (end_ns - start_ns) / 1e6
        if decided:
            note = None if first_ns is not None else f"not seen before {what} ended"
        elif first_ns is not None:
            note = f"at most: {_NO_HISTORY}"
        else:
            value_ms, note = None, f"not seen before {what} ended: {_NO_HISTORY}"
        return {
            "phase": fault.phase,
            "fault": f"{fault.step} {fault.target}",
            "topic": topic,
            "partition": partition,
            "metric": metric,
            "from_ns": start_ns,
            "value_ms": value_ms,
            "censored": decided and first_ns is None,
            "source": "controller" if decided else "metadata",
            "note": note,
        }

    last, after = before[-1], [row for row in seen if row["received_ns"] > from_ns]
    during = [row for row in after if row["received_ns"] <= over_ns]
    if last["leader"] in targets and manifest.has(fault.step, Trait.UNREACHABLE):
        yield measure("detect", from_ns, (r for r in during if r["leader"] != last["leader"]), over_ns)
        elected = (r for r in during if r["leader"] >= 0 and r["leader_epoch"] > last["leader_epoch"])
        yield measure("elect", from_ns, elected, over_ns)
    if targets & set(last["isr"]):
        yield measure("isr_shrink", from_ns, (r for r in during if not targets <= set(r["isr"])), over_ns)
    shrunk_ns = next((row["received_ns"] for row in [last, *during] if not targets <= set(row["isr"])), None)
    if shrunk_ns is not None:
        full = [row for row in after if row["received_ns"] > shrunk_ns and set(row["isr"]) >= assigned]
        yield measure("isr_full", from_ns, full, phase_ends)
        ordered_ns = _first_after(fault, "heal", events)
        if ordered_ns is not None and not any(row["received_ns"] <= ordered_ns for row in full):
            yield measure("catch_up", ordered_ns, full, phase_ends)
            preferred = manifest.topics[topic].assignment[partition][0]
            if last["leader"] == preferred and any(row["leader"] != preferred for row in during):
                yield measure("rebalanced", ordered_ns, (r for r in full if r["leader"] == preferred), phase_ends)


def _same(inject: Event, injected: Event) -> bool:
    return (inject.step, inject.target) == (injected.step, injected.target) and inject.t_ns <= injected.t_ns


def _first_after(fault: Event, kind: str, events: list[Event]) -> int | None:
    """When this fault's heal was ordered (``heal``) or proven (``healed``)."""
    own = (e for e in events if e.kind == kind and (e.step, e.target) == (fault.step, fault.target))
    return next((e.t_ns for e in own if e.t_ns >= fault.t_ns), None)


def longest_stalls(sends: DataFrame, samples: DataFrame, spans: DataFrame) -> DataFrame:
    """Per phase and partition: the longest time without an acknowledgement, and without the HW growing.

    ``spans`` is (phase, from_ns, to_ns), ``sends`` those of open loops, which never pause by themselves. The
    stretches from the phase's start and to its end count; the one to the end is censored.
    """
    acked = F.when((F.col("outcome") == "ok"), F.col("done_ns"))
    acks = sends.select(*PARTITION, acked.alias("t_ns"))
    samples = samples.join(F.broadcast(sends.select(*PARTITION).distinct()), PARTITION, how="left_semi")
    so_far = Window.partitionBy(*PARTITION).orderBy("received_ns").rowsBetween(Window.unboundedPreceding, -1)
    grown = samples.withColumn("top", F.max("high_watermark").over(so_far)).filter(
        F.col("top").isNull() | (F.col("high_watermark") > F.col("top"))
    )
    growth = grown.select(*PARTITION, F.col("received_ns").alias("t_ns"))
    writes = _longest_gap(acks, spans, "write_unavailable", "sends")
    return writes.union(_longest_gap(growth, spans, "hw_stall", "replicas"))


def _longest_gap(moments: DataFrame, spans: DataFrame, metric: str, source: str) -> DataFrame:
    in_order = Window.partitionBy("phase", *PARTITION).orderBy("t_ns")
    starts = moments.select(*PARTITION).distinct().crossJoin(F.broadcast(spans))
    inside = F.col("t_ns").between(F.col("from_ns"), F.col("to_ns"))
    within = (
        moments.join(F.broadcast(spans), inside, how="inner")
        .withColumn("seen", F.lit(1))
        .unionByName(starts.withColumns({"t_ns": F.col("from_ns"), "seen": F.lit(0)}))
    )
    next_ns = F.lead("t_ns").over(in_order)
    gaps = within.withColumns({"gap_ns": F.coalesce(next_ns, "to_ns") - F.col("t_ns"), "open": next_ns.isNull()})
    longest = F.max(F.struct("gap_ns", "t_ns", "open"))
    return (
        gaps.groupBy("phase", *PARTITION)
        .agg(longest.alias("longest"), F.sum("seen").alias("samples"))
        .select(
            "phase",
            F.lit("").alias("fault"),
            *PARTITION,
            F.lit(metric).alias("metric"),
            F.col("longest.t_ns").alias("from_ns"),
            (F.col("longest.gap_ns") / 1e6).alias("value_ms"),
            F.col("longest.open").alias("censored"),
            F.lit(source).alias("source"),
            "samples",
            F.lit(None).cast("string").alias("note"),
        )
    )


def latency(sends: DataFrame, spans: DataFrame) -> DataFrame:
    """Load and latency by phase: sends by the phase in which they were due, acknowledgements by that of their arrival.

    Latency counts from the due time, whatever the cluster did then; ``spans`` is (phase, from_ns, to_ns). What was due
    right before the end may still be under way then, and is not owed. What is owed and was never acknowledged took
    longer than anything: a quantile that falls on it has no value.

    A transaction that was aborted was answered, with all its records in the log: most are aborted on purpose.
    """
    settling = F.least(F.lit(SETTLING_NS), ((F.col("to_ns") - F.col("from_ns")) / 2).cast("long"))
    owed = F.col("due_ns") < F.col("to_ns") - settling
    aborted = F.col("error").eqNullSafe(ABORTED) & F.col("done_ns").isNotNull()
    answered = (F.col("outcome") == "ok") | aborted
    kept = owed & answered & (F.col("done_ns") < F.col("to_ns"))
    taken_ms = F.when(answered, (F.col("done_ns") - F.col("due_ns")) / 1e6)
    waited_ms = F.coalesce(taken_ms, F.when(owed, F.lit(math.inf)))
    quantiles = F.percentile(waited_ms, F.array(F.lit(0.5), F.lit(0.99), F.lit(0.999)))
    arrivals = (
        _within(sends.filter("outcome = 'ok'"), "done_ns", spans).groupBy("phase").agg(F.count("*").alias("came"))
    )
    return (
        _within(sends, "due_ns", spans)
        .groupBy("phase", "from_ns", "to_ns")
        .agg(
            F.count("*").alias("due"),
            F.count(taken_ms).alias("acked"),
            F.count_if(owed).alias("owed"),
            F.count_if(kept).alias("kept"),
            quantiles.alias("q"),
            F.max(taken_ms).alias("max_ms"),
        )
        .join(arrivals, "phase", how="left")
        .withColumns({name: F.nullif(F.col("q")[at], F.lit(math.inf)) for at, name in enumerate(QUANTILES)})
        .withColumn("arrived", F.coalesce("came", F.lit(0)))
        .withColumn("seconds", (F.col("to_ns") - F.col("from_ns")) / 1e9)
        .select(*LATENCY.names)
    )


def _within(sends: DataFrame, moment: str, spans: DataFrame) -> DataFrame:
    inside = (F.col(moment) >= F.col("from_ns")) & (F.col(moment) < F.col("to_ns"))
    return sends.join(F.broadcast(spans), inside, how="inner")
