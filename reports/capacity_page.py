"""The page of one capacity plan: the answer, its curves, and its limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from history.results.capacity import (
    At,
    CapacityResult,
    CatchUp,
    CatchUpPoint,
    Demand,
    Interval,
    Knee,
    LeftOut,
    Option,
    PartitionCost,
    Partitions,
    PlanLine,
    Reserve,
)
from reports.cells import DASH, Cell, Column, Table, plain, table
from reports.page import Block, Listing, Page, Plot, Section, Words
from reports.page import render as render_page
from reports.plots import PALETTE

Links = Mapping[str, str]
HEALTHY, DEGRADED = PALETTE[0], PALETTE[1]
QUIET = "rgba(128, 140, 152, 0.75)"
LOAD_TITLE = "write load, MB/s"
_VERDICTS = {  # a word, and its meaning
    "right": ("enough", "The number of brokers is right"),
    "under": ("too few", "There are too few brokers"),
    "over": ("more than needed", "There are more brokers than needed"),
    "unknown": ("unknown", "The runs do not show whether there are enough brokers"),
}


def render(result: CapacityResult, links: Links) -> str:
    """Render a plan's result as HTML."""
    page = Page(
        title="Capacity plan",
        kind="one capacity plan",
        sentence=result.sentence,
        state=result.state,
        state_word=_VERDICTS[result.recommendation.verdict][0],
        meaning=_meaning(result),
        above=_question(result),
        facts=_facts(result),
        sections=[section for section in _sections(result, links) if section.blocks],
        footer="The figures of brokers on one host compare with each other; measure again on the machines of the plan.",
    )
    return render_page(page)


def _meaning(result: CapacityResult) -> str:
    meaning = _VERDICTS[result.recommendation.verdict][1]
    return f"{meaning}, unless a doubt below applies." if result.plan and result.unsure else f"{meaning}."


def _sections(result: CapacityResult, links: Links) -> Iterator[Section]:
    yield Section("plan", "The plan", [*_plan(result)], "Plan")
    yield Section("latency", "Load and latency", [*_latency(result, links)], "Latency")
    yield Section("catch_up", "Catching up", [*_catch_up(result.catch_up, links)], "Catch-up")
    yield Section("check", "Check of the model", [*_check(result, links)], "Check")
    yield Section("downtime", "How long may a broker stay away?", [*_downtime(result)], "Downtime")
    yield Section("demand", "Demand and limits", [*_demand(result)], "Demand")
    yield Section("disk", "Disk", [*_disk(result)], "Disk")
    yield Section("partitions", "Partitions", [*_partitions(result, links)], "Partitions")
    yield Section("headroom", "How the headroom is used", [*_headroom(result)], "Headroom")
    yield Section("throttle", "Replication throttle", [*_throttle(result)], "Throttle")
    yield Section("limits", "Limits", [*_limits(result, links)])


# --- the head --------------------------------------------------------------------------------------


def _question(result: CapacityResult) -> str:
    asked = result.question
    return (
        f"Question: {asked.write_mb_per_s:g} MB/s on {asked.brokers} brokers, RF {asked.replication_factor}, "
        f"p99 within {asked.target_p99_ms:g} ms, recovery within {asked.target_recovery_s:g} s. "
        f"Measured on {_versions(result)} in {result.runs.count} runs."
    )


def _versions(result: CapacityResult) -> str:
    return f"Kafka {', '.join(result.runs.kafka) or result.kafka}"


def _facts(result: CapacityResult) -> list[tuple[str, str]]:
    resource_limits = ", ".join(
        f"{name} {_allowed(name, value)}" for name, value in result.resource_limits.items() if value
    )
    facts = [
        ("Kafka", ", ".join(result.runs.kafka) or result.kafka),
        ("Resource limits of each broker", resource_limits.replace("_", " ")),
        ("Workload", f"{result.question.record_bytes} B records, {result.question.partitions} partitions"),
        ("Runs", f"{result.runs.count} of {result.runs.planned}"),
        ("Measured", _from_to(result.runs.first, result.runs.last)),
        ("Confidence", result.recommendation.confidence),
    ]
    return [(name, value) for name, value in facts if value]


def _allowed(name: str, value: float) -> str:
    return f"{value / 1e6:g} MB/s" if name in {"network", "disk_read"} else f"{value}"


def _from_to(first: str | None, last: str | None) -> str:
    return f"{_minute(first)} to {_minute(last)} UTC" if first and last else ""


def _minute(at: str) -> str:
    return at[:16].replace("T", " ")


# --- the plan --------------------------------------------------------------------------------------

_PLAN: list[Column[PlanLine]] = [
    Column("what", lambda line: line.what),
    Column("value", lambda line: line.value, "name"),
    Column("interval", lambda line: line.interval, "name"),
    Column("from", lambda line: line.source),
]


def _plan(result: CapacityResult) -> Iterator[Block]:
    if result.plan is None:
        yield Words(result.missing or ["The archive has no runs of this plan yet."], "absent")
        return
    yield Words(result.words.recommendation, "lead")
    if result.recommendation.undecided:
        yield Words("What the runs leave open, and what would decide it:")
        yield Words(result.recommendation.undecided)
    if result.recommendation.doubts:
        yield Words("What lowers the confidence:")
        yield Words(result.recommendation.doubts)
    yield Listing("plan", table("The plan, at the peak load", _PLAN, result.plan_table), whole=True)
    yield Listing("options", table("Numbers of brokers that were considered", _OPTIONS, result.options))
    yield Words([f"{option.brokers} brokers: {option.why}." for option in result.options])


_OPTIONS: list[Column[Option]] = [
    Column("brokers", lambda option: option.brokers, "number"),
    Column("safe by latency, MB/s", lambda option: _number(option.safe_latency_mb_per_s), "number"),
    Column("safe by recovery, MB/s", lambda option: _number(option.safe_recovery_mb_per_s), "number"),
    Column("longest downtime, s", lambda option: _number(option.longest_down_s.low), "number"),
    Column("partitions on each", lambda option: _number(option.partitions_on_each), "number"),
    Column("stored at the end, GB", lambda option: _number(option.disk_gb), "number"),
    Column("choice", lambda option: Cell("chosen", "pass") if option.chosen else Cell("rejected", "quiet")),
]


# --- load and latency --------------------------------------------------------------------------------


def _latency(result: CapacityResult, links: Links) -> Iterator[Block]:
    knees = _knees(result)
    if not knees:
        yield Words("No load step can be used, so there is no curve.", "absent")
        return
    target_ms = result.question.target_p99_ms
    yield Plot(
        "latency",
        {"data": _latency_traces(knees, target_ms), "layout": _latency_layout(target_ms)},
        "p99 latency against the offered load, healthy and with one broker away, with intervals and the target",
        "Lines are means of ln p99 over the runs, bands their 90 % intervals, dots single runs. A load that was missed "
        "has no latency and ends its line. The dashed line is the target; a knee (cross) is where a line crosses it, "
        "and its interval lies between the crossings of the band.",
        _latency_table(knees, target_ms, links),
    )
    yield Listing("knees", table("The largest load whose p99 stays within the target", _KNEES, knees.items()))


def _knees(result: CapacityResult) -> dict[str, Knee]:
    named = {"healthy": result.knees.knee, "one broker away": result.knees.degraded}
    return {name: knee for name, knee in named.items() if knee}


def _latency_traces(knees: Mapping[str, Knee], target_ms: float) -> list[dict[str, Any]]:
    traces: list[dict[str, Any]] = []
    for (name, knee), colour in zip(knees.items(), (HEALTHY, DEGRADED), strict=False):
        traces += _band(knee.curve, [point.load for point in knee.curve], name, colour, dots=True)
        points = [point for point in knee.points if point.p99_ms is not None]
        traces.append(
            {
                **_trace(f"runs, {name}", [point.load for point in points], [point.p99_ms for point in points]),
                "mode": "markers",
                "marker": {"color": colour, "size": 7, "symbol": "circle-open"},
            }
        )
        if knee.load.estimate is not None:
            marker = {"color": colour, "size": 12, "symbol": "x-thin", "line": {"width": 3, "color": colour}}
            at = _trace(f"knee, {name}", [knee.load.estimate], [target_ms])
            traces.append({**at, "mode": "markers", "marker": marker})
    return traces


def _latency_layout(target_ms: float) -> dict[str, Any]:
    target = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": target_ms, "y1": target_ms}
    line = {"color": QUIET, "width": 1.5, "dash": "dash"}
    return {**_logarithmic(_layout(LOAD_TITLE, "p99, ms")), "shapes": [{**target, "line": line}]}


class _P99(NamedTuple):
    """A row of the latency table."""

    state: str
    load: float
    of: Cell
    p99_ms: float | None
    low: float | None = None
    high: float | None = None


def _latency_table(knees: Mapping[str, Knee], target_ms: float, links: Links) -> Table:
    rows: list[_P99] = []
    for name, knee in knees.items():
        rows += [_P99(name, each.load, Cell("mean"), each.estimate, each.low, each.high) for each in knee.curve]
        rows += [_P99(name, each.load, _run(each.run_id, links), each.p99_ms) for each in knee.points]
        if knee.load.estimate is not None:
            rows.append(_P99(name, knee.load.estimate, Cell("knee"), target_ms))
    columns: list[Column[_P99]] = [
        Column("state", lambda row: row.state, "name"),
        Column("load, MB/s", lambda row: _number(row.load), "number"),
        Column("of", lambda row: row.of),
        Column("p99, ms", lambda row: "load missed" if row.p99_ms is None else _number(row.p99_ms), "number"),
        Column("low", lambda row: _number(row.low), "number"),
        Column("high", lambda row: _number(row.high), "number"),
    ]
    return table("p99 by offered load: means with 90 % intervals, and every run", columns, rows)


_KNEES: list[Column[tuple[str, Knee]]] = [
    Column("state", lambda row: row[0], "name"),
    Column("knee, MB/s", lambda row: _reached(row[1].load.estimate, row[1].offered), "number"),
    Column("low", lambda row: _number(row[1].load.low), "number"),
    Column("high", lambda row: _reached(row[1].load.high, row[1].offered), "number"),
    Column("safe, MB/s", lambda row: _number(row[1].safe), "number"),
    Column("runs per step", lambda row: row[1].runs, "number"),
]


# --- catching up -------------------------------------------------------------------------------------


def _catch_up(measured: CatchUp, links: Links) -> Iterator[Block]:
    if not measured.points:
        yield Words("No run with a broker away can be used.", "absent")
        return
    yield Plot(
        "catch-up",
        {"data": _catch_up_traces(measured), "layout": _logarithmic(_layout(LOAD_TITLE, "time to catch up, s"))},
        "Time to catch up against the write load for each downtime, with the model's prediction intervals",
        "Dots are runs that the model was fitted on, diamonds held-out runs, squares runs whose backlog was read from "
        "disk, triangles runs that were given up: at least so long. Lines are the model's medians; bands are expected "
        "to hold nine of ten new runs. A line that ends has no finite catch-up beyond.",
        _catch_up_table(measured, links),
    )
    if measured.rate:
        yield Listing("model", _model_table(measured))


def _catch_up_traces(measured: CatchUp) -> list[dict[str, Any]]:
    downs = sorted({point.asked_down_s for point in measured.points})
    colours = {down_s: PALETTE[index % len(PALETTE)] for index, down_s in enumerate(downs)}
    traces: list[dict[str, Any]] = []
    for curve in measured.curves:
        loads = [row.write_mb_per_s for row in curve.rows]
        traces += _band(curve.rows, loads, f"down {curve.down_s:g} s", colours[curve.down_s])
    for name, symbol, kind in _KINDS:
        points = [point for point in measured.points if _kind(point) == kind]
        if points:
            marker = {"color": [colours[point.asked_down_s] for point in points], "size": 9, "symbol": symbol}
            xs, ys = [point.write_mb_per_s for point in points], [point.took_s for point in points]
            outlined = {**marker, "line": {"width": 1, "color": QUIET}}
            traces.append({**_trace(name, xs, ys), "mode": "markers", "marker": outlined})
    return traces


Kind = Literal["fitted", "held out", "cold", "given up"]
_KINDS: list[tuple[str, str, Kind]] = [  # name, symbol
    ("fitted runs", "circle", "fitted"),
    ("held-out runs", "diamond", "held out"),
    ("cold runs", "square", "cold"),
    ("given up", "triangle-up", "given up"),
]


def _kind(point: CatchUpPoint) -> Kind:
    if point.censored:
        return "given up"
    return "held out" if point.role == "held_out" else "cold" if point.cold else "fitted"


class _Took(NamedTuple):
    """A row of the catch-up table."""

    run: Cell
    role: str
    load: float
    down_s: float
    took: str
    low: float | None
    high: float | None


_TOOK: list[Column[_Took]] = [
    Column("run", lambda row: row.run),
    Column("role", lambda row: row.role),
    Column("load, MB/s", lambda row: _number(row.load), "number"),
    Column("downtime, s", lambda row: _number(row.down_s), "number"),
    Column("caught up after, s", lambda row: row.took, "number"),
    Column("low", lambda row: _number(row.low), "number"),
    Column("high", lambda row: _number(row.high), "number"),
]


def _catch_up_table(measured: CatchUp, links: Links) -> Table:
    rows = [
        _Took(
            _run(point.run_id, links),
            ("held out" if point.role == "held_out" else "fitted") + (", cold" if point.cold else ""),
            point.write_mb_per_s,
            point.down_s,
            _took(point),
            point.predicted.low if point.predicted else None,
            point.predicted.high if point.predicted else None,
        )
        for point in measured.points
    ]
    rows += [
        _Took(Cell("model"), "", row.write_mb_per_s, curve.down_s, _number(row.estimate), row.low, row.high)
        for curve in measured.curves
        for row in curve.rows
    ]
    return table("Time to catch up: every run with its own prediction interval, then the model's curves", _TOOK, rows)


def _took(point: CatchUpPoint) -> str:
    return f"≥ {_number(point.took_s)}" if point.censored else _number(point.took_s)


class _Fitted(NamedTuple):
    what: str
    value: float | None
    low: str
    high: str
    unit: str


_FITTED: list[Column[_Fitted]] = [
    Column("what", lambda row: row.what),
    Column("estimate", lambda row: _number(row.value), "number"),
    Column("low", lambda row: row.low, "number"),
    Column("high", lambda row: row.high, "number"),
    Column("unit", lambda row: row.unit, "name"),
]


def _model_table(measured: CatchUp) -> Table:
    intervals = [
        (f"R at {_number(measured.largest_load_mb_per_s)} MB/s of load into a broker", measured.rate, "MB/s"),
        ("R lost to each MB/s of load", measured.shared, "MB/s"),
        ("R from disk, at that load", measured.cold_rate, "MB/s"),
        ("T0, from its start until it fetches", measured.start_s, "s"),
    ]
    rows = [_fitted(what, interval, unit) for what, interval, unit in intervals if interval]
    rows += [
        _Fitted("spread of runs about the model", measured.noise, "", "", "of ln T"),
        _Fitted("leadership balanced after the ISR is full, longest", measured.leadership_s, "", "", "s"),
    ]
    caption = f"Fitted on {measured.fitted_runs} runs, {measured.censored_runs} of them given up; 90 % intervals"
    return table(caption, _FITTED, rows)


def _fitted(what: str, interval: Interval, unit: str) -> _Fitted:
    high = _number(interval.high) if interval.high is not None else "not bounded"
    return _Fitted(what, interval.estimate, _number(interval.low), high, unit)


def _check(result: CapacityResult, links: Links) -> Iterator[Block]:
    yield Words(result.words.model_check, "lead")
    held_out = [point for point in result.catch_up.points if point.role == "held_out"]
    columns: list[Column[CatchUpPoint]] = [
        Column("run", lambda point: _run(point.run_id, links)),
        Column("load, MB/s", lambda point: _number(point.write_mb_per_s), "number"),
        Column("downtime, s", lambda point: _number(point.down_s), "number"),
        Column("measured, s", _took, "number"),
        Column("predicted, s", _predicted(lambda interval: interval.estimate), "number"),
        Column("low", _predicted(lambda interval: interval.low), "number"),
        Column("high", _predicted(lambda interval: interval.high), "number"),
        Column("where it lies", _where, "name"),
    ]
    if held_out:
        yield Listing("held-out", table("Runs outside the fitted grid, which no fit has used", columns, held_out))


def _where(point: CatchUpPoint) -> Cell:
    """An interval without an upper end proves nothing."""
    if point.predicted and point.predicted.high is None:
        return Cell("no upper end", "unknown")
    return Cell("inside", "pass") if point.inside else Cell("outside", "fail")


def _predicted(of: Callable[[Interval], float | None]) -> Callable[[CatchUpPoint], str]:
    def shown(point: CatchUpPoint) -> str:
        value = of(point.predicted) if point.predicted else None
        return DASH if point.predicted is None else "never" if value is None else _number(value)

    return shown


# --- downtime, demand, headroom ------------------------------------------------------------------------

_LONGEST: list[Column[At]] = [
    Column("load, MB/s", lambda row: _number(row.write_mb_per_s), "number"),
    Column("estimate, s", lambda row: _number(row.estimate), "number"),
    Column("low, s", lambda row: _number(row.low), "number"),
    Column("high, s", lambda row: _number(row.high), "number"),
]


def _downtime(result: CapacityResult) -> Iterator[Block]:
    if result.plan is None:
        return
    rows = result.longest_down
    layout = _logarithmic(_layout(LOAD_TITLE, "longest downtime, s"))
    loads = [row.write_mb_per_s for row in rows]
    yield Plot(
        "longest-down",
        {"data": _band(_above_zero(rows), loads, "longest downtime", HEALTHY), "layout": layout},
        "The longest downtime after which recovery stays within its target, against the write load",
        "The lower edge is the safe value: after such a downtime, recovery stays within its target in 19 of 20 runs. "
        "Where a line ends, recovery takes too long however soon the broker is back.",
        table("Longest tolerable downtime, with 90 % bounds", _LONGEST, rows),
    )


def _above_zero(rows: Sequence[At]) -> list[Interval]:
    """A logarithmic axis cannot show zeros."""
    return [Interval(estimate=row.estimate or None, low=row.low or None, high=row.high or None) for row in rows]


_DEMANDS: list[Column[Demand]] = [
    Column("resource", lambda row: row.words),
    Column("rule", lambda row: row.rule),
    Column("measured / rule", lambda row: _number(row.measured_over_rule), "number"),
    Column("healthy", lambda row: _number(row.healthy), "number"),
    Column("one away", lambda row: _number(row.degraded), "number"),
    Column("limit", lambda row: _number(row.limit) if row.limit is not None else "not limited", "number"),
    Column("use", lambda row: f"{100 * row.use:.0f} %" if row.use is not None else DASH, "number"),
    Column("unit", lambda row: row.unit, "name"),
]


_RACK_AWAY: Column[Demand] = Column("a rack away", lambda row: _number(row.rack_away), "number")


def _demand(result: CapacityResult) -> Iterator[Block]:
    if result.plan is None:
        return
    yield Words(result.words.bottleneck, "lead")
    caption = "What each broker needs at the peak load, healthy and with another one away"
    columns = [*_DEMANDS[:5], *([_RACK_AWAY] if result.question.racks else []), *_DEMANDS[5:]]
    yield Listing("demands", table(caption, columns, result.demands))


def _disk(result: CapacityResult) -> Iterator[Block]:
    if result.plan is None:
        return
    yield Words(result.words.disk, "lead")
    disk = result.plan.disk
    rows = [
        ("kept by retention", disk.retained_gb),
        ("unfinished segments, at most", disk.segments_gb),
        ("with one broker away", disk.away_gb),
        ("with a rack away", disk.rack_gb),
        (f"in {result.question.horizon_months} months, with one away", disk.later_gb),
        ("the disk", disk.disk_gb),
    ]
    known = [(what, _number(gb)) for what, gb in rows if gb is not None]
    yield Listing("disk", table("GB on each broker, at the mean load", plain("what", "GB"), known))


# --- partitions ----------------------------------------------------------------------------------------


class _Measure(NamedTuple):
    name: str
    unit: str
    of: Callable[[PartitionCost], float | None]


_MEASURES = [
    _Measure("CPU", "s per MB", lambda cost: cost.cpu_s_per_mb),
    _Measure("p99", "ms", lambda cost: cost.p99_ms),
    _Measure("recovery", "s", lambda cost: cost.recovery_s),
]


def _partitions(result: CapacityResult, links: Links) -> Iterator[Block]:
    found = result.partitions
    if found is None:
        return
    yield Words(result.words.partitions, "lead" if found.curve else "absent")
    if not found.curve:
        return
    yield Plot(
        "partitions",
        {"data": _partition_traces(found), "layout": _layout("replicas on each broker", "multiple of the fewest")},
        "CPU, p99 and recovery against the number of replicas on each broker, as multiples of what the fewest take",
        f"At {found.write_mb_per_s:g} MB/s: CPU and p99 of a steady load, and the time from the start of a broker that "
        f"was away for {found.down_s:g} s after a kill until every ISR is full. Lines join medians; there is none "
        "beyond what was run.",
        _partition_table(found, links),
    )


def _partition_traces(found: Partitions) -> list[dict[str, Any]]:
    return [
        {
            **_trace(
                name, [cost.partitions for cost in found.curve], [_multiple(found, of, row) for row in found.curve]
            ),
            "mode": "lines+markers",
            "line": {"color": colour, "width": 2},
        }
        for (name, _, of), colour in zip(_MEASURES, PALETTE, strict=False)
    ]


def _multiple(found: Partitions, of: Callable[[PartitionCost], float | None], row: PartitionCost) -> float | None:
    """The reference is the cost at the fewest partitions."""
    value, fewest = of(row), of(found.curve[0])
    return value / fewest if value is not None and fewest else None


def _partition_table(found: Partitions, links: Links) -> Table:
    columns: list[Column[PartitionCost]] = [
        Column("replicas", lambda row: _number(row.partitions), "number"),
        Column("of", lambda row: _run(row.run_id, links) if row.run_id else Cell("median")),
        Column("runs", lambda row: row.runs, "number"),
        *(column for measure in _MEASURES for column in _measured(found, measure)),
    ]
    return table("What partitions cost: medians, and every run", columns, [*found.curve, *found.points])


def _measured(found: Partitions, measure: _Measure) -> list[Column[PartitionCost]]:
    return [
        Column(f"{measure.name}, {measure.unit}", lambda row: _number(measure.of(row)), "number"),
        Column("×", lambda row: _number(_multiple(found, measure.of, row)), "number"),
    ]


_RESERVES: list[Column[Reserve]] = [
    Column("item", lambda line: line.item),
    Column("takes", lambda line: _number(line.amount), "number"),
    Column("left after it", lambda line: _number(line.left), "number"),
]


def _headroom(result: CapacityResult) -> Iterator[Block]:
    if result.plan is None:
        return
    lines = result.ledger
    yield Plot(
        "ledger",
        {"data": _ledger_traces(lines), "layout": _ledger_layout(lines)},
        "From the healthy knee down to what is left: each reserve as a bar",
        "What every reserve leaves of the healthy knee, from top to bottom. A last bar below zero: there are too few "
        "brokers for all of them.",
        table("Headroom, MB/s of write load", _RESERVES, lines),
    )
    yield Words(result.words.exhaustion)


def _ledger_traces(lines: Sequence[Reserve]) -> list[dict[str, Any]]:
    bars = {
        "type": "bar",
        "name": "left after it",
        "orientation": "h",
        "x": [_rounded(line.left) for line in lines],
        "y": [line.item for line in lines],
    }
    return [{**bars, "marker": {"color": HEALTHY}, "hovertemplate": "%{x:.3g} MB/s<extra>%{y}</extra>"}]


def _ledger_layout(lines: Sequence[Reserve]) -> dict[str, Any]:
    layout = _layout("left, MB/s", "")
    axis = {"autorange": "reversed", "automargin": True}
    return {**layout, "height": 90 + 34 * len(lines), "yaxis": axis, "showlegend": False, "hovermode": "closest"}


def _throttle(result: CapacityResult) -> Iterator[Block]:
    if result.plan is None:
        return
    yield Words(result.words.throttle, "lead")
    yield Words(
        "The upper bound is cautious: it assumes that a byte sent for catching up costs the peers as much as a byte "
        "of live traffic. Kafka throttles replicas outside the ISR only (KIP-73), and only those that are listed.",
        "note",
    )


# --- limits and what lies behind -------------------------------------------------------------------


def _limits(result: CapacityResult, links: Links) -> Iterator[Block]:
    yield Words(result.limits)
    if result.missing:
        yield Words("Missing:")
        yield Words(result.missing)
    if result.left_out:
        columns: list[Column[LeftOut]] = [
            Column("run", lambda row: _run(row.run_id, links)),
            Column("phase", lambda row: row.phase),
            Column("why", lambda row: row.why, "text"),
        ]
        yield Listing("left-out", table("Measured, but left out", columns, result.left_out))
    inputs = [(name.replace("_", " "), _said(value)) for name, value in result.question]
    yield Listing("inputs", table("The question", plain("input", "value"), inputs), folded=True)


def _said(value: Any) -> str:
    if isinstance(value, list | tuple):
        return " to ".join(f"{each:g}" for each in value)
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


# --- what the figures share ------------------------------------------------------------------------


def _layout(x_title: str, y_title: str) -> dict[str, Any]:
    return {
        "height": 420,
        "margin": {"l": 64, "r": 16, "t": 16, "b": 52},
        "hovermode": "closest",
        "hoverlabel": {"namelength": -1},
        "showlegend": True,
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": -0.2, "yanchor": "top"},
        "xaxis": {"title": {"text": x_title, "standoff": 6}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": y_title}, "rangemode": "tozero", "automargin": True},
    }


def _logarithmic(layout: dict[str, Any]) -> dict[str, Any]:
    ticks = [step * 10**power for power in range(-2, 6) for step in (1, 2, 5)]
    axis = {"title": layout["yaxis"]["title"], "automargin": True, "type": "log", "tickvals": ticks}
    return {**layout, "yaxis": axis}


def _trace(name: str, xs: Iterable[float | None], ys: Iterable[float | None]) -> dict[str, Any]:
    return {"type": "scatter", "name": name, "x": [_rounded(x) for x in xs], "y": [_rounded(y) for y in ys]}


def _band(
    rows: Sequence[Interval], xs: Sequence[float], name: str, colour: str, *, dots: bool = False
) -> list[dict[str, Any]]:
    finite = [(x, row.estimate) for x, row in zip(xs, rows, strict=True) if row.estimate is not None]
    whole = [
        (x, row.low, row.high)
        for x, row in zip(xs, rows, strict=True)
        if row.estimate is not None and row.low is not None and row.high is not None
    ]
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    edge = {"mode": "lines", "line": {"width": 0}, "showlegend": False, "legendgroup": name, "hoverinfo": "skip"}
    fill = {"fill": "tonexty", "fillcolor": f"rgba({red}, {green}, {blue}, 0.15)"}
    return [
        {**_trace(f"{name}, low", [x for x, _, _ in whole], [low for _, low, _ in whole]), **edge},
        {**_trace(f"{name}, high", [x for x, _, _ in whole], [high for _, _, high in whole]), **edge, **fill},
        {
            **_trace(name, [x for x, _ in finite], [estimate for _, estimate in finite]),
            "mode": "lines+markers" if dots else "lines",
            "line": {"color": colour, "width": 2},
            "legendgroup": name,
        },
    ]


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def _number(value: float | None) -> str:
    return DASH if value is None else f"{_rounded(value):,.10g}"


def _reached(value: float | None, offered: float) -> str:
    """A knee that was not reached is above every offered load."""
    return f"above {_number(offered)}" if value is None else _number(value)


def _run(run_id: str, links: Links) -> Cell:
    return Cell(run_id, link=links.get(run_id, ""))
