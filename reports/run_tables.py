"""Tables of a run's page, and sentences about loss."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from evidence.exits import explanation
from history import words
from history.anomalies import LOST
from history.events import Event
from history.metrics import RECOVERY
from history.partition import TopicPartition
from reports.cells import DASH, Cell, Column, Table, milliseconds, percent, table
from reports.run_data import Row, RunData
from reports.shown import COMPARED, MOST_SHOWN, disagreements
from reports.timeline import SHOWN, Span, faults, in_words, phases

CASES = 200
DETAIL_CHARACTERS = 240


def partition_name(row: Row) -> str:
    """Return ``topic-partition``, such as ``orders-0``."""
    return f"{row['topic']}-{row['partition']}"


def _value(name: str, heading: str = "", **look: Any) -> Column[Row]:
    return Column(heading or name.replace("_", " "), lambda row: row[name], **look)


def of_shown(run: RunData) -> str:
    """Return `` of 24 of 1,000 partitions``, or nothing."""
    shown, there = len(run.shown), len(run.partitions)
    return f" of {shown:,} of {there:,} partitions" if shown < there else ""


_PARTITION: Column[Row] = Column("partition", partition_name, "name")

# --- delivery ------------------------------------------------------------------------------------

MEANING = {
    "sent": "Sends that were due in the open loop.",
    "acked": "The broker answered with success.",
    "indeterminate": "No certain answer; the record may be in the log or not. Never counted as lost.",
    "failed": "Definitely not written, or in a transaction that was aborted.",
    "read": "Distinct sent records that the final drain read.",
    "lost": "Acknowledged, at an offset below what the drain read, and not among it.",
    "unseen": "Acknowledged, at an offset above all that the drain read; split below.",
    "truncated_ack": "Unseen: no live replica holds it at its acknowledged offset.",
    "invisible_ack": "Unseen: on a replica, but not below the high watermark or the last stable offset.",
    "undrained": "Unseen: readable, but the drain stopped early. The test is incomplete; this is no loss.",
    "unknown_offset_ack": "Unseen: acknowledged without an offset, and in no replica's log.",
    "duplicated": "Records that are in the log at more than one offset.",
    "duplicate_copies": "Copies beyond the first.",
    "phantom": "Read, but never sent.",
    "corrupt": "Read with a wrong checksum.",
    "aborted_read": "Read, although its send had failed.",
}
_WATCHED = ("lost", "truncated_ack", "unknown_offset_ack", "phantom", "corrupt", "aborted_read")


def delivery(run: RunData) -> Table:
    """Tabulate the fates of records over all partitions."""
    rows = run.rows("delivery")
    totals = {name: sum(row[name] for row in rows) for name in MEANING}

    def mark(name: str) -> str:
        return "quiet" if not totals[name] else "differs" if name in _WATCHED else ""

    columns: list[Column[str]] = [
        Column("count", lambda name: name.replace("_", " "), "name"),
        Column("records", lambda name: Cell(f"{totals[name]:,}", mark(name)), "number"),
        Column("meaning", MEANING.get, "text"),
    ]
    return table("Records of all partitions, counted once each.", columns, MEANING)


def delivery_by_partition(run: RunData) -> Table:
    """Tabulate the fates per partition, with loss intervals."""
    names = ("sent", "acked", "indeterminate", "failed", "read", "lost", "unseen", "duplicated")
    columns = [
        _PARTITION,
        *(_value(name, kind="number", help=MEANING[name]) for name in names),
        Column("loss rate", lambda row: _interval(row["loss_rate_low"], row["loss_rate_high"]), "number"),
    ]
    return table(f"Delivery by partition{of_shown(run)}.", columns, run.rows_shown("delivery"))


def _interval(low: float | None, high: float | None) -> str:
    return DASH if low is None else f"[{percent(low)}, {percent(high)}]"


def loss_sentences(run: RunData) -> list[str]:
    """Describe loss and duplication, and what zero losses prove."""
    rows = run.rows("delivery")
    acked, lost, unseen, copies = (
        sum(row[name] for row in rows) for name in ("acked", "lost", "unseen", "duplicate_copies")
    )
    if not rows:
        return []
    if not acked:
        return ["Nothing was acknowledged, so nothing could be lost: this run shows nothing about loss."]
    low, high = lost / acked, (lost + unseen) / acked
    under = "under the injected faults" if faults(run) else "without a fault"
    sentences = [
        f"Loss rate {under}: {_interval(low, high)} of {acked:,} acknowledged records. "
        f"{f'{lost:,}' if lost else 'None'} {'are' if lost > 1 else 'is'} lost for certain; "
        + (f"the upper end also counts the unseen ones: {_unseen_parts(rows)}." if unseen else "none is unseen.")
    ]
    if not lost and not unseen:
        sentences.append(
            "One run without a loss proves little: 0 of 1 runs leaves a true rate of up to 95 % of runs possible (at "
            "95 % confidence). Records of one run are not independent trials; only more runs narrow this."
        )
    sentences.append(
        f"{copies:,} duplicate {'copy was' if copies == 1 else 'copies were'} found in the log."
        if copies
        else "All records were found at one offset at most."
    )
    return sentences


def _unseen_parts(rows: list[Row]) -> str:
    words = {
        "truncated_ack": "on no live replica",
        "invisible_ack": "on a replica, but not visible to readers",
        "undrained": "not reached by the drain",
        "unknown_offset_ack": "acknowledged without an offset and in no log",
    }
    totals = {name: sum(row[name] for row in rows) for name in words}
    parts = [f"{total:,} {words[name]}" for name, total in totals.items() if total]
    return ", ".join(parts) or "read by nobody"


# --- anomalies -----------------------------------------------------------------------------------


_PERMITTED = (False, None, True)
_SHOWN_AS = {False: "fail", None: "unknown", True: "quiet"}


def _permitted(row: Row) -> str:
    return {True: "yes", False: "no"}.get(row["allowed"], "unknown")


def _why(kind: Row) -> str:
    return kind["allowed_why"] or kind.get("undecided") or ""


def anomalies(run: RunData) -> Table:
    """Tabulate cases by kind, and whether the configuration allows them."""
    kinds = sorted(
        run.rows("anomaly_counts"),
        key=lambda kind: (_PERMITTED.index(kind["allowed"]), kind["anomaly"], kind["severity"], _why(kind)),
    )
    columns: list[Column[Row]] = [
        Column("anomaly", lambda kind: kind["anomaly"].replace("_", " "), "name"),
        Column("severity", lambda kind: kind["severity"]),
        Column("cases", lambda kind: kind["cases"], "number"),
        Column("permitted", lambda kind: Cell(_permitted(kind), _SHOWN_AS[kind["allowed"]])),
        Column("why", lambda kind: _why(kind) or "This configuration and these faults do not permit it.", "text"),
    ]
    return table("Every kind of anomaly that was found.", columns, kinds)


def total_cases(run: RunData) -> int:
    """Count all cases; the table holds only a frequent kind's first."""
    return sum(kind["cases"] for kind in run.rows("anomaly_counts"))


# the others follow from these
_FIRST = (*LOST, "duplicate")


def ordered_cases(run: RunData) -> list[Row]:
    """Sort cases: not allowed first, then undecided; by importance and place."""
    return sorted(
        run.rows("anomalies"),
        key=lambda row: (
            _PERMITTED.index(row["allowed"]),
            _FIRST.index(row["anomaly"]) if row["anomaly"] in _FIRST else len(_FIRST),
            row["severity"],
            row["anomaly"],
            partition_name(row),
            row["offset"] is None,
            row["offset"] or 0,
        ),
    )


_CASES: list[Column[Row]] = [
    Column("anomaly", lambda row: row["anomaly"].replace("_", " "), "name"),
    _PARTITION,
    _value("offset", kind="number"),
    Column("permitted", _permitted),
    _value("explanation", "explanation", kind="text"),
]


def cases(run: RunData) -> Table:
    """Tabulate the first cases one by one."""
    total = total_cases(run)
    caption = f"The first {CASES:,} of {total:,} cases." if total > CASES else f"All {total:,} cases."
    evidence: Column[Row] = Column("evidence", lambda row: Cell(_evidence(row, run), "quiet"), "text")
    return table(caption, [*_CASES, evidence], ordered_cases(run)[:CASES])


def _evidence(row: Row, run: RunData) -> str:
    return words.in_words(json.loads(row["evidence"] or "{}"), run.origin_ns)


# --- invariants ----------------------------------------------------------------------------------


def _number(invariant: str) -> tuple[int, str]:
    digits = "".join(filter(str.isdigit, invariant))
    return (int(digits) if digits else 0, invariant)


_URGENCY = {"fail": 0, "unknown": 1, "pass": 2}
_INVARIANTS: list[Column[Row]] = [
    _value("invariant", "id", kind="name"),
    Column("verdict", lambda row: Cell(row["verdict"], row["verdict"])),
    _value("title", "invariant", kind="text"),
    _value("checked", kind="number"),
    _value("violations", kind="number"),
    _value("reason", kind="text"),
    _value("known_bug", "known bug", kind="name"),
    _value("severity"),
]


def invariants(run: RunData) -> Table:
    """Tabulate every evaluated invariant: failed first, then unknown."""
    ordered = sorted(
        run.rows("invariants"), key=lambda row: (_URGENCY.get(row["verdict"], 1), _number(row["invariant"]))
    )
    return table("What must hold on the replicas.", _INVARIANTS, ordered)


# --- offsets at the captures ---------------------------------------------------------------------


def offsets(run: RunData) -> Table:
    """Tabulate replicas at captures; mark disagreement at ``after``."""
    order = _capture_order(run.rows("offsets"))
    ordered = sorted(
        run.rows_shown("offsets"),
        key=lambda row: (run.place(row), order[row["capture"]], row["broker_id"]),
    )
    differing = disagreements(run.rows("offsets"))
    apart = {where: names for where, names in sorted(differing.items()) if names}
    notes = [
        f"{where}: the replicas disagree on {', '.join(name.replace('_', ' ') for name in names)} at the end."
        for where, names in list(apart.items())[:MOST_SHOWN]
    ]
    if len(apart) > MOST_SHOWN:
        notes.append(f"So do those of {len(apart) - MOST_SHOWN:,} other partitions.")
    if not notes and "after" in order:
        notes = ["At the end the replicas of every partition agree."]

    def compared(name: str) -> Column[Row]:
        return Column(name.replace("_", " "), lambda row: _compared(row, name, differing), "number")

    columns = [
        _value("capture"),
        Column("broker", lambda row: str(row["broker_id"]), "number"),
        *map(compared, COMPARED),
        _value("checkpoint_high_watermark", "checkpointed high watermark", kind="number"),
        _PARTITION,
    ]
    return table(f"Every replica's offsets at each capture{of_shown(run)}.", columns, ordered, notes)


def _capture_order(rows: list[Row]) -> dict[str, int]:
    first: dict[str, int] = {}
    for row in rows:
        first[row["capture"]] = min(first.get(row["capture"], row["received_ns"]), row["received_ns"])
    ends = {"before": -1, "after": 1}
    names = sorted(first, key=lambda name: (ends.get(name, 0), first[name]))
    return {name: index for index, name in enumerate(names)}


def _compared(row: Row, name: str, differing: Mapping[TopicPartition, list[str]]) -> Cell:
    if row[name] is None:
        return Cell(row["error"] or DASH, "quiet")
    differs = row["capture"] == "after" and name in differing.get(TopicPartition.of(row), [])
    return Cell(f"≠ {row[name]:,}", "differs") if differs else Cell(f"{row[name]:,}")


# --- times ---------------------------------------------------------------------------------------


def recovery(run: RunData) -> Table:
    """Tabulate times; censored ones are lower bounds, those from leaders' metadata upper bounds."""
    columns: list[Column[Row]] = [
        Column("time", lambda row: f"{row['metric']}: {RECOVERY[row['metric']]}", "text"),
        Column("value", _time, "number"),
        Column("fault", lambda row: row["fault"] or "whole phase", "name"),
        _value("phase", kind="name"),
        _PARTITION,
        Column("counted from", lambda row: f"{run.seconds(row['from_ns']):,.1f} s", "number"),
        _value("source", kind="name"),
        _value("samples", kind="number"),
        _value("note"),
    ]
    ordered = sorted(run.rows_shown("recovery"), key=lambda row: (row["from_ns"], row["metric"]))
    caption = (
        "≥: the observation ended first, so the true time is longer. ≤: the controller's history is missing, and its "
        "leaders' metadata showed it by then."
    )
    if some := of_shown(run):
        caption += f" Times{some}."
    return table(caption, columns, ordered)


def _time(row: Row) -> str:
    shown = milliseconds(row["value_ms"], censored=row["censored"])
    return f"≤ {shown}" if row["source"] == "metadata" and row["value_ms"] is not None else shown


def _per_second(name: str) -> Callable[[Row], str]:
    return lambda row: f"{row[name] / row['seconds']:,.0f}/s"


def _milliseconds(name: str, heading: str) -> Column[Row]:
    return Column(heading, lambda row: milliseconds(row[name]), "number")


_PERCENTILES = {"p50_ms": "p50", "p99_ms": "p99", "p999_ms": "p99.9", "max_ms": "max"}
_LATENCY: list[Column[Row]] = [
    _value("phase"),
    Column("offered", _per_second("due"), "number", "Sends that were due in the phase, per second."),
    Column("acknowledged", _per_second("arrived"), "number", "Acknowledgements that arrived in the phase, per second."),
    _value(
        "acked",
        "acknowledged in the end",
        kind="number",
        help="Sends due in the phase, also if acknowledged after its end.",
    ),
    *(_milliseconds(name, heading) for name, heading in _PERCENTILES.items()),
    _milliseconds("end_to_end_p50_ms", "end to end p50"),
    _milliseconds("end_to_end_p99_ms", "end to end p99"),
]


def latency(run: RunData) -> Table:
    """Tabulate open-loop load and latency by phase."""
    order = {phase.label: index for index, phase in enumerate(phases(run))}
    ordered = sorted(run.rows("latency"), key=lambda row: order.get(row["phase"], len(order)))
    caption = "Load and latency by the phase in which sends were due. Latency counts from the due time, to the "
    caption += "acknowledgement or, end to end, to the live consumer's receipt; a percentile is missing where too many "
    caption += "sends were never acknowledged, or never received. latency.hlog has both for HdrHistogram's tools."
    return table(caption, _LATENCY, ordered)


# --- the timeline --------------------------------------------------------------------------------


def _proof(fault: Span) -> Cell:
    if fault.took_effect:
        return Cell(f"yes: {fault.proof}" if fault.proof else "yes")
    return Cell(f"no: {fault.proof}" if fault.proof else "not verified", "differs")


_SPAN: list[Column[Span]] = [
    Column("from", lambda span: f"{span.start_s:,.1f} s", "number"),
    Column("lasted", lambda span: f"{span.lasted_s:,.1f} s", "number"),
]
_PHASES: list[Column[Span]] = [
    Column("no.", lambda phase: str(phase.number)),
    Column("phase", lambda phase: phase.label, "name"),
    *_SPAN,
]
_FAULTS: list[Column[Span]] = [
    Column("no.", lambda fault: f"F{fault.number}"),
    Column("fault", lambda fault: fault.label, "name"),
    Column("node", lambda fault: fault.target, "name"),
    Column("step of the scenario", lambda fault: fault.step, "text"),
    Column("phase", lambda fault: fault.phase),
    *_SPAN,
    Column("took effect", _proof, "text", "What verified that the fault took effect."),
    Column("recovery verified", lambda fault: Cell("yes") if fault.cleared else Cell("not verified", "differs")),
]


def phase_table(run: RunData) -> Table:
    """Tabulate the phases by number."""
    return table("The phases, in order.", _PHASES, phases(run))


def fault_table(run: RunData) -> Table:
    """Tabulate faults, with evidence of their effect."""
    return table("The injected faults, in order.", _FAULTS, faults(run))


def server_table(run: RunData) -> Table:
    """Tabulate every unexpected end of a server, and later starts."""
    columns: list[Column[Event]] = [
        Column("time", lambda event: f"{run.seconds(event.t_ns):,.1f} s", "number"),
        Column("server", lambda event: event.target, "name"),
        Column("what happened", lambda event: _server_event(run, event), "text"),
        Column("its log", lambda event: " / ".join(event.detail.get("log", ())), "text"),
    ]
    ends = sum(event.kind == "server_exited" for event in run.server_events)
    caption = f"Servers that ended by themselves: {ends}; starts after the first: {len(run.server_events) - ends}."
    return table(caption, columns, run.server_events)


def _server_event(run: RunData, event: Event) -> Cell:
    number = event.detail.get("incarnation")
    if event.kind == "node_started":
        return Cell(f"started again (start {number})")
    why, status = explanation(event, run.events, run.manifest), event.detail.get("exit_status")
    how = "ended by itself" + ("" if status is None else f" with exit status {status}")
    return Cell(f"{how} (start {number}): {why or 'no fault explains it'}", "" if why else "differs")


def event_table(run: RunData) -> Table:
    """Tabulate steps and observations in order."""
    columns: list[Column[Any]] = [
        Column("time", lambda event: f"{run.seconds(event.t_ns):,.1f} s", "number"),
        Column("event", lambda event: SHOWN[event.kind], "name"),
        Column("phase", lambda event: event.phase, "name"),
        Column("step", lambda event: " ".join(filter(None, (event.step, event.target))), "name"),
        Column("detail", lambda event: _shortened(in_words(event)), "text"),
    ]
    shown = [event for event in run.events if event.kind in SHOWN]
    return table("All steps and observations; seconds since the first phase began.", columns, shown)


def _shortened(text: str) -> str:
    return text if len(text) <= DETAIL_CHARACTERS else f"{text[:DETAIL_CHARACTERS]} …"
