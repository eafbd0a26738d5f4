"""The page's tables: what stands in which cell, and which cells deserve a second look."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from history.metrics import RECOVERY
from reports.cells import DASH, Cell, Table, cells, count, milliseconds, percent
from reports.run_data import Row, RunData
from reports.story import TOLD, Span, faults, phases, told

STORIES = 200
DETAIL_CHARACTERS = 240


def partition_name(row: Row) -> str:
    """``orders-0``."""
    return f"{row['topic']}-{row['partition']}"


# --- delivery ------------------------------------------------------------------------------------

MEANING = {
    "sent": "Sends that the open loop was due to make.",
    "acked": "The broker answered with success.",
    "indeterminate": "No certain answer; the record may be in the log or not. Never counted as lost.",
    "failed": "Definitely not written, or in a transaction that was aborted.",
    "read": "Distinct sent records that the final drain saw.",
    "lost": "Acknowledged, below what the drain read, and not among it.",
    "unseen": "Acknowledged, above all that the drain read; split below.",
    "truncated_ack": "Unseen: no live replica holds it at its acknowledged offset.",
    "invisible_ack": "Unseen: on a replica, but not below the high watermark or the last stable offset.",
    "undrained": "Unseen: readable, but the drain stopped early. The test is incomplete, nothing is lost by it.",
    "unknown_offset_ack": "Unseen: acknowledged without an offset, and in no replica's log.",
    "duplicated": "Records that stand at more than one offset.",
    "duplicate_copies": "Copies beyond the first.",
    "phantom": "Read, but never sent.",
    "corrupt": "Read with a wrong checksum.",
    "aborted_read": "Read, although its send had failed.",
}


def delivery(run: RunData) -> Table:
    """What became of the records: all partitions together, one figure a row."""
    rows = run.rows("delivery")
    totals = {name: sum(row[name] for row in rows) for name in MEANING}
    shown: list[tuple[Cell, ...]] = [
        (Cell(name.replace("_", " ")), Cell(count(totals[name]), _delivery_mark(name, totals[name])), Cell(meaning))
        for name, meaning in MEANING.items()
    ]
    return Table(
        "Records of all partitions, counted once each.", ("figure", "records", "meaning"), shown, frozenset({1})
    )


def _delivery_mark(name: str, total: int) -> str:
    watched = ("lost", "truncated_ack", "unknown_offset_ack", "phantom", "corrupt", "aborted_read")
    if total and name in watched:
        return "differs"
    return "quiet" if total == 0 else ""


def delivery_by_partition(run: RunData) -> Table:
    """The same by partition, with the loss interval of each."""
    names = ("sent", "acked", "indeterminate", "failed", "read", "lost", "unseen", "duplicated")
    rows = [
        cells(
            partition_name(row), *(row[name] for name in names), _interval(row["loss_rate_low"], row["loss_rate_high"])
        )
        for row in run.rows("delivery")
    ]
    columns = ("partition", *(name.replace("_", " ") for name in names), "loss rate")
    return Table("Delivery by partition.", columns, rows, frozenset(range(1, len(columns))))


def _interval(low: float | None, high: float | None) -> str:
    return DASH if low is None else f"[{percent(low)}, {percent(high)}]"


def loss_sentences(run: RunData) -> list[str]:
    """Loss and duplication in words: the interval, what is unknown in it, and what finding none means."""
    rows = run.rows("delivery")
    acked, lost, unseen, copies = (
        sum(row[name] for row in rows) for name in ("acked", "lost", "unseen", "duplicate_copies")
    )
    if not rows:
        return []
    if not acked:
        return ["Nothing was acknowledged, so nothing could be lost: this run shows nothing about loss."]
    low, high = lost / acked, (lost + unseen) / acked
    under = "under what was staged" if faults(run) else "without a fault"
    said = [
        f"Loss rate {under}: {_interval(low, high)} of {acked:,} acknowledged records. "
        f"{f'{lost:,}' if lost else 'None'} {'are' if lost > 1 else 'is'} lost for certain; "
        + (f"the upper end counts those unseen: {_unseen_parts(rows)}." if unseen else "none is left unseen.")
    ]
    if not lost and not unseen:
        said.append(
            "None was found lost, in one run. 0 of 1 runs with a loss still allows a true rate of up to 95 % (at 95 % "
            "confidence): the records of one run are no separate trials, so only more runs narrow this."
        )
    said.append(
        f"{copies:,} duplicate {'copy was' if copies == 1 else 'copies were'} found in the log."
        if copies
        else "No record was found at more than one offset."
    )
    return said


def _unseen_parts(rows: list[Row]) -> str:
    words = {
        "truncated_ack": "on no live replica",
        "invisible_ack": "on a replica, but not for readers to see",
        "undrained": "not reached by the drain",
        "unknown_offset_ack": "acknowledged without an offset and in no log",
    }
    totals = {name: sum(row[name] for row in rows) for name in words}
    parts = [f"{total:,} {words[name]}" for name, total in totals.items() if total]
    return ", ".join(parts) or "read by nobody"


# --- anomalies -----------------------------------------------------------------------------------


def anomalies(run: RunData) -> Table:
    """Cases by kind, and whether this configuration permits them."""
    cases = Counter(
        (row["anomaly"], row["severity"], row["allowed"], row["allowed_why"]) for row in run.rows("anomalies")
    )
    rows = [
        cells(
            kind.replace("_", " "),
            severity,
            number,
            Cell("yes", "quiet") if allowed else Cell("no", "fail"),
            why or "This configuration and these faults do not permit it.",
        )
        for (kind, severity, allowed, why), number in sorted(cases.items(), key=lambda item: (item[0][2], item[0][:2]))
    ]
    columns = ("anomaly", "severity", "cases", "permitted", "why")
    return Table("Every kind of anomaly that was found.", columns, rows, frozenset({2}))


# A reader looks for records that are gone, then for those that are there twice; the rest follows from these.
_FIRST = ("lost_write", "truncated_ack", "unknown_offset_ack", "duplicate")


def ordered_cases(run: RunData) -> list[dict[str, Any]]:
    """All cases: those that nothing permits first, then by how much a reader cares, then by place."""
    return sorted(
        run.rows("anomalies"),
        key=lambda row: (
            row["allowed"],
            _FIRST.index(row["anomaly"]) if row["anomaly"] in _FIRST else len(_FIRST),
            row["severity"],
            row["anomaly"],
            partition_name(row),
            row["offset"] is None,
            row["offset"] or 0,
        ),
    )


def stories(run: RunData) -> Table:
    """The first cases one by one."""
    ordered = ordered_cases(run)
    rows = [
        cells(
            row["anomaly"].replace("_", " "),
            partition_name(row),
            row["offset"],
            Cell("yes" if row["allowed"] else "no"),
            row["story"],
            Cell(_evidence(row["evidence"]), "quiet"),
        )
        for row in ordered[:STORIES]
    ]
    total = len(ordered)
    caption = f"The first {STORIES:,} of {total:,} cases." if total > STORIES else f"All {total:,} cases."
    columns = ("anomaly", "partition", "offset", "permitted", "story", "evidence")
    return Table(caption, columns, rows, frozenset({2}))


def _evidence(text: str | None) -> str:
    """A JSON object as ``name value`` pairs; what is no object is shown as it is."""
    try:
        values = json.loads(text or "{}")
    except ValueError:
        return text or ""
    return told(values) if isinstance(values, Mapping) else str(values)


# --- invariants ----------------------------------------------------------------------------------


def invariants(run: RunData) -> Table:
    """Every invariant that was considered: failed ones first, then unknown ones."""
    urgency = {"fail": 0, "unknown": 1, "pass": 2}
    ordered = sorted(
        run.rows("invariants"), key=lambda row: (urgency.get(row["verdict"], 1), _number(row["invariant"]))
    )
    rows = [
        cells(
            row["invariant"],
            Cell(row["verdict"], row["verdict"]),
            row["title"],
            row["checked"],
            row["violations"],
            _reason(row),
            row["severity"],
        )
        for row in ordered
    ]
    columns = ("id", "verdict", "invariant", "checked", "violations", "reason", "severity")
    return Table("What must hold of the replicas.", columns, rows, frozenset({3, 4}))


def _number(invariant: str) -> tuple[int, str]:
    digits = "".join(filter(str.isdigit, invariant))
    return (int(digits) if digits else 0, invariant)


def _reason(row: Row) -> str:
    if row["verdict"] == "fail" and row["evidence"]:
        return "; ".join(filter(None, (row["reason"], _evidence(row["evidence"]))))
    return row["reason"] or ""


# --- offsets at the captures ---------------------------------------------------------------------

COMPARED = ("high_watermark", "log_end_offset", "leader_epoch", "log_start_offset")


def offsets(run: RunData) -> Table:
    """Every replica at every capture; at ``after``, values on which the replicas of a partition disagree are marked."""
    order = _capture_order(run.rows("offsets"))
    ordered = sorted(
        run.rows("offsets"), key=lambda row: (row["topic"], row["partition"], order[row["capture"]], row["broker_id"])
    )
    differing = disagreements(ordered)
    rows = [_offset_row(row, differing) for row in ordered]
    notes = [
        f"{partition}: the replicas disagree on {', '.join(name.replace('_', ' ') for name in names)} at the end."
        for partition, names in differing.items()
        if names
    ]
    if not notes and "after" in order:
        notes = ["At the end the replicas of every partition agree."]
    columns = (
        "capture",
        "broker",
        "high watermark",
        "log end",
        "leader epoch",
        "log start",
        "checkpointed high watermark",
        "partition",
    )
    return Table("Every replica's offsets at each capture.", columns, rows, frozenset(range(1, 7)), notes)


def _capture_order(rows: list[Row]) -> dict[str, int]:
    first: dict[str, int] = {}
    for row in rows:
        first[row["capture"]] = min(first.get(row["capture"], row["received_ns"]), row["received_ns"])
    ends = {"before": -1, "after": 1}
    names = sorted(first, key=lambda name: (ends.get(name, 0), first[name]))
    return {name: index for index, name in enumerate(names)}


def disagreements(rows: Iterable[Row]) -> dict[str, list[str]]:
    """Per partition, the values on which replicas disagree at ``after``; one that did not answer has no say."""
    seen: dict[str, dict[str, set[int]]] = {}
    for row in rows:
        if row["capture"] == "after":
            values = seen.setdefault(partition_name(row), {name: set() for name in COMPARED})
            for name in COMPARED:
                if row[name] is not None:
                    values[name].add(row[name])
    return {partition: [name for name in COMPARED if len(values[name]) > 1] for partition, values in seen.items()}


def _offset_row(row: Row, differing: dict[str, list[str]]) -> tuple[Cell, ...]:
    marked = differing.get(partition_name(row), []) if row["capture"] == "after" else []

    def cell(name: str) -> Cell:
        if row[name] is None:
            return Cell(row["error"] or DASH, "quiet")
        return Cell(f"≠ {row[name]:,}", "differs") if name in marked else Cell(f"{row[name]:,}")

    named = (row["capture"], Cell(str(row["broker_id"])))
    return cells(*named, *map(cell, COMPARED), row["checkpoint_high_watermark"], partition_name(row))


# --- times ---------------------------------------------------------------------------------------


def recovery(run: RunData) -> Table:
    """Measured times; censored ones stay in as lower bounds, and what leaders' metadata showed as upper bounds."""
    ordered = sorted(run.rows("recovery"), key=lambda row: (row["from_ns"], row["metric"]))
    rows = [
        cells(
            f"{row['metric']}: {RECOVERY[row['metric']]}",
            _time(row),
            row["fault"] or "whole phase",
            row["phase"],
            partition_name(row),
            f"{run.seconds(row['from_ns']):,.1f} s",
            row["source"],
            row["samples"],
            row["note"],
        )
        for row in ordered
    ]
    columns = ("time", "value", "fault", "phase", "partition", "counted from", "source", "samples", "note")
    caption = (
        "≥: the observation ended first, so the true time is longer. ≤: the controller's history is missing, and its "
        "leaders' metadata showed it by then."
    )
    return Table(caption, columns, rows, frozenset({1, 5, 7}))


def _time(row: Row) -> str:
    shown = milliseconds(row["value_ms"], censored=row["censored"])
    return f"≤ {shown}" if row["source"] == "metadata" and row["value_ms"] is not None else shown


def latency(run: RunData) -> Table:
    """Open-loop load and latency by phase."""
    times = ("p50_ms", "p99_ms", "p999_ms", "max_ms")
    order = {phase.label: index for index, phase in enumerate(phases(run))}
    ordered = sorted(run.rows("latency"), key=lambda row: order.get(row["phase"], len(order)))
    rows = [
        cells(
            row["phase"],
            f"{row['due'] / row['seconds']:,.0f}/s",
            f"{row['arrived'] / row['seconds']:,.0f}/s",
            row["acked"],
            *(milliseconds(row[name]) for name in times),
        )
        for row in ordered
    ]
    columns = ("phase", "offered", "acknowledged", "of them acknowledged at all", "p50", "p99", "p99.9", "max")
    caption = "Load and latency of sends by the phase in which they were due; latency counts from the due time "
    caption += "and has no percentile where so many sends were never acknowledged."
    return Table(caption, columns, rows, frozenset(range(1, 8)))


# --- the story -----------------------------------------------------------------------------------


def fault_table(run: RunData) -> Table:
    """The faults by number, with what proved that they bit and how long they lasted."""
    rows = [
        cells(
            Cell(f"F{fault.number}"),
            fault.label,
            fault.target,
            fault.asked,
            fault.phase,
            f"{fault.start_s:,.1f} s",
            f"{fault.end_s - fault.start_s:,.1f} s",
            _proof(fault),
            Cell("yes") if fault.healed else Cell("no proof", "differs"),
        )
        for fault in faults(run)
    ]
    columns = ("no.", "fault", "node", "the scenario's step", "phase", "from", "lasted", "seen to bite", "gone again")
    return Table("The faults, in order.", columns, rows, frozenset({5, 6}))


def _proof(fault: Span) -> Cell:
    if fault.bit:
        return Cell(f"yes: {fault.proof}" if fault.proof else "yes")
    return Cell(f"no: {fault.proof}" if fault.proof else "no proof", "differs")


def event_table(run: RunData) -> Table:
    """What was done and seen, in order."""
    rows = [
        cells(
            f"{run.seconds(event.t_ns):,.1f} s",
            event.kind.replace("_", " "),
            event.phase,
            " ".join(filter(None, (event.step, event.target))),
            _shortened(told(event.detail)),
        )
        for event in run.events
        if event.kind in TOLD
    ]
    columns = ("time", "event", "phase", "step", "detail")
    return Table("Times are relative to the start of the first phase.", columns, rows, frozenset({0}))


def _shortened(text: str) -> str:
    return text if len(text) <= DETAIL_CHARACTERS else f"{text[:DETAIL_CHARACTERS]} …"
