"""The page of one capacity plan: the answer, its curves, and its limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from history.results import capacity as results
from reports import capacity_plots as plots
from reports.cells import DASH, Cell, Column, Kind, Table, linked, minute, plain, table
from reports.page import Block, Listing, Page, Plot, Section, Words
from reports.page import render as render_page

Links = Mapping[str, str]
_VERDICTS = {  # a word, and its meaning
    "right": ("enough", "The number of brokers is right"),
    "under": ("too few", "There are too few brokers"),
    "over": ("more than needed", "There are more brokers than needed"),
    "unknown": ("unknown", "The runs do not show whether there are enough brokers"),
}


def render(result: results.CapacityResult, links: Links) -> str:
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


def _meaning(result: results.CapacityResult) -> str:
    meaning = _VERDICTS[result.recommendation.verdict][1]
    return f"{meaning}, unless a doubt below applies." if result.plan and result.unsure else f"{meaning}."


def _sections(result: results.CapacityResult, links: Links) -> Iterator[Section]:
    yield Section("plan", "The plan", [*_plan(result)], "Plan")
    yield Section("latency", "Load and latency", [*_latency(result, links)], "Latency")
    yield Section("catch_up", "Catching up", [*_catch_up(result.catch_up, links)], "Catch-up")
    yield Section("check", "Check of the model", [*_check(result, links)], "Check")
    if result.plan:
        yield Section("downtime", "How long may a broker stay away?", [*_downtime(result)], "Downtime")
        yield Section("demand", "Demand and limits", [*_demand(result)], "Demand")
        yield Section("disk", "Disk", [*_disk(result, result.plan.disk)], "Disk")
    yield Section("partitions", "Partitions", [*_partitions(result, links)], "Partitions")
    if result.plan:
        yield Section("headroom", "How the headroom is used", [*_headroom(result)], "Headroom")
        yield Section("throttle", "Replication throttle", [*_throttle(result)], "Throttle")
    yield Section("limits", "Limits", [*_limits(result, links)])


# --- the head --------------------------------------------------------------------------------------


def _question(result: results.CapacityResult) -> str:
    question = result.question
    return (
        f"Question: {question.write_mb_per_s:g} MB/s on {question.brokers} brokers, RF {question.replication_factor}, "
        f"p99 within {question.target_p99_ms:g} ms, recovery within {question.target_recovery_s:g} s. "
        f"Measured on {_places(result)} in {result.runs.count} runs."
    )


def _places(result: results.CapacityResult) -> str:
    return ", ".join(result.runs.kafka) or (f"Kafka {result.kafka}" if result.kafka else "a cluster of others")


def _facts(result: results.CapacityResult) -> list[tuple[str, str]]:
    resource_limits = ", ".join(
        f"{name} {_allowed(name, value)}" for name, value in result.resource_limits.items() if value
    )
    facts = [
        ("Measured on", _places(result)),
        ("Resource limits of each broker", resource_limits.replace("_", " ")),
        ("Workload", f"{result.question.record_bytes} B records, {result.question.partitions} partitions"),
        ("Runs", f"{result.runs.count} recorded, {result.runs.planned} planned"),
        ("Measured", _from_to(result.runs.first, result.runs.last)),
        ("Confidence", result.recommendation.confidence),
    ]
    return [(name, value) for name, value in facts if value]


def _allowed(name: str, value: float) -> str:
    return f"{value / 1e6:g} MB/s" if name in {"network", "disk_read"} else f"{value}"


def _from_to(first: str | None, last: str | None) -> str:
    return f"{minute(first)} to {minute(last)} UTC" if first and last else ""


# --- the plan --------------------------------------------------------------------------------------

_PLAN: list[Column[results.PlanLine]] = [
    Column("what", lambda line: line.what),
    Column("value", lambda line: line.value, "name"),
    Column("interval", lambda line: line.interval, "name"),
    Column("from", lambda line: line.source),
]


def _plan(result: results.CapacityResult) -> Iterator[Block]:
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


_OPTIONS: list[Column[results.Option]] = [
    Column("brokers", lambda option: option.brokers, "number"),
    Column("safe by latency, MB/s", lambda option: _number(option.safe_latency_mb_per_s), "number"),
    Column("safe by recovery, MB/s", lambda option: _number(option.safe_recovery_mb_per_s), "number"),
    Column("longest downtime, s", lambda option: _number(option.longest_down_s.low), "number"),
    Column("partitions on each", lambda option: _number(option.partitions_on_each), "number"),
    Column("stored at the end, GB", lambda option: _number(option.disk_gb), "number"),
    Column("choice", lambda option: Cell("chosen", "pass") if option.chosen else Cell("rejected", "quiet")),
]


# --- load and latency --------------------------------------------------------------------------------


def _latency(result: results.CapacityResult, links: Links) -> Iterator[Block]:
    knees = _knees(result)
    if not knees:
        yield Words("No load step can be used, so there is no curve.", "absent")
        return
    target_ms = result.question.target_p99_ms
    yield Plot(
        "latency",
        plots.latency_figure(knees, target_ms),
        "p99 latency against the offered load, healthy and with one broker away, with intervals and the target",
        "Lines are means of ln p99 over the runs, bands their 90 % intervals, dots single runs. A load that was missed "
        "has no latency and ends its line. The dashed line is the target; a knee (cross) is where a line crosses it, "
        "and its interval lies between the crossings of the band.",
        _latency_table(knees, target_ms, links),
    )
    yield Listing("knees", table("The largest load whose p99 stays within the target", _KNEES, knees.items()))


def _knees(result: results.CapacityResult) -> dict[str, results.Knee]:
    named = {"healthy": result.knees.knee, "one broker away": result.knees.degraded}
    return {name: knee for name, knee in named.items() if knee}


def _latency_table(knees: Mapping[str, results.Knee], target_ms: float, links: Links) -> Table:
    rows: list[tuple[Any, ...]] = []
    for name, knee in knees.items():
        curve = [(each.load, "mean", _number(each.estimate), each.low, each.high) for each in knee.curve]
        points = [(each.load, linked(each.run_id, links), _p99(each.p99_ms), None, None) for each in knee.points]
        at = knee.load.estimate
        knees_at = [] if at is None else [(at, "knee", _number(target_ms), None, None)]
        rows += [
            (name, _number(load), of, p99, _number(low), _number(high))
            for load, of, p99, low, high in (*curve, *points, *knees_at)
        ]
    numbers: dict[str, Kind] = dict.fromkeys(("load, MB/s", "p99, ms", "low", "high"), "number")
    columns = plain("state", "load, MB/s", "of", "p99, ms", "low", "high", state="name", **numbers)
    return table("p99 by offered load: means with 90 % intervals, and every run", columns, rows)


def _p99(p99_ms: float | None) -> str:
    return "load missed" if p99_ms is None else _number(p99_ms)


_KNEES: list[Column[tuple[str, results.Knee]]] = [
    Column("state", lambda row: row[0], "name"),
    Column("knee, MB/s", lambda row: _reached(row[1].load.estimate, row[1].offered), "number"),
    Column("low", lambda row: _number(row[1].load.low), "number"),
    Column("high", lambda row: _reached(row[1].load.high, row[1].offered), "number"),
    Column("safe, MB/s", lambda row: _number(row[1].safe), "number"),
    Column("runs per step", lambda row: row[1].runs, "number"),
]


# --- catching up -------------------------------------------------------------------------------------


def _catch_up(measured: results.CatchUp, links: Links) -> Iterator[Block]:
    if not measured.points:
        yield Words("No run with a broker away can be used.", "absent")
        return
    yield Plot(
        "catch-up",
        plots.catch_up_figure(measured),
        "Time to catch up against the write load for each downtime, with the model's prediction intervals",
        "Dots are runs that the model was fitted on, diamonds held-out runs, squares runs whose backlog was read from "
        "disk, triangles runs that were given up: at least so long. Lines are the model's medians; bands are expected "
        "to hold nine of ten new runs. A line that ends has no finite catch-up beyond.",
        _catch_up_table(measured, links),
    )
    if measured.rate:
        yield Listing("model", _model_table(measured))


def _catch_up_table(measured: results.CatchUp, links: Links) -> Table:
    rows = [
        (
            linked(point.run_id, links),
            ("held out" if point.role == "held_out" else "fitted") + (", cold" if point.cold else ""),
            *map(_number, (point.write_mb_per_s, point.down_s)),
            _took(point),
            *map(_number, (point.predicted.low, point.predicted.high) if point.predicted else (None, None)),
        )
        for point in measured.points
    ]
    rows += [
        (Cell("model"), "", *map(_number, (row.write_mb_per_s, curve.down_s, row.estimate, row.low, row.high)))
        for curve in measured.curves
        for row in curve.rows
    ]
    headings = ("run", "role", "load, MB/s", "downtime, s", "caught up after, s", "low", "high")
    numbers: dict[str, Kind] = dict.fromkeys(headings[2:], "number")
    caption = "Time to catch up: every run with its own prediction interval, then the model's curves"
    return table(caption, plain(*headings, **numbers), rows)


def _took(point: results.CatchUpPoint) -> str:
    return f"≥ {_number(point.took_s)}" if point.censored else _number(point.took_s)


def _model_table(measured: results.CatchUp) -> Table:
    intervals = [
        (f"R at {_number(measured.largest_load_mb_per_s)} MB/s of load into a broker", measured.rate, "MB/s"),
        ("R lost to each MB/s of load", measured.shared, "MB/s"),
        ("R from disk, at that load", measured.cold_rate, "MB/s"),
        ("T0, from its start until it fetches", measured.start_s, "s"),
    ]
    rows = [(what, *_ends(interval), unit) for what, interval, unit in intervals if interval]
    rows += [
        ("spread of runs about the model", _number(measured.noise), "", "", "of ln T"),
        ("leadership balanced after the ISR is full, longest", _number(measured.leadership_s), "", "", "s"),
    ]
    caption = f"Fitted on {measured.fitted_runs} runs, {measured.censored_runs} of them given up; 90 % intervals"
    kinds: dict[str, Kind] = {"estimate": "number", "low": "number", "high": "number", "unit": "name"}
    return table(caption, plain("what", *kinds, **kinds), rows)


def _ends(interval: results.Interval) -> tuple[str, str, str]:
    high = "not bounded" if interval.high is None else _number(interval.high)
    return _number(interval.estimate), _number(interval.low), high


def _check(result: results.CapacityResult, links: Links) -> Iterator[Block]:
    yield Words(result.words.model_check, "lead")
    held_out = [point for point in result.catch_up.points if point.role == "held_out"]
    columns: list[Column[results.CatchUpPoint]] = [
        Column("run", lambda point: linked(point.run_id, links)),
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


def _where(point: results.CatchUpPoint) -> Cell:
    """An interval without an upper end proves nothing."""
    if point.predicted and point.predicted.high is None:
        return Cell("no upper end", "unknown")
    return Cell("inside", "pass") if point.inside else Cell("outside", "fail")


def _predicted(of: Callable[[results.Interval], float | None]) -> Callable[[results.CatchUpPoint], str]:
    def shown(point: results.CatchUpPoint) -> str:
        value = of(point.predicted) if point.predicted else None
        return DASH if point.predicted is None else "never" if value is None else _number(value)

    return shown


# --- downtime, demand, headroom ------------------------------------------------------------------------

_LONGEST: list[Column[results.At]] = [
    Column("load, MB/s", lambda row: _number(row.write_mb_per_s), "number"),
    Column("estimate, s", lambda row: _number(row.estimate), "number"),
    Column("low, s", lambda row: _number(row.low), "number"),
    Column("high, s", lambda row: _number(row.high), "number"),
]


def _downtime(result: results.CapacityResult) -> Iterator[Block]:
    rows = result.longest_down
    yield Plot(
        "longest-down",
        plots.longest_down_figure(rows),
        "The longest downtime after which recovery stays within its target, against the write load",
        "The lower edge is the safe value: after such a downtime, recovery stays within its target in 19 of 20 runs. "
        "Where a line ends, recovery takes too long however soon the broker is back.",
        table("Longest tolerable downtime, with 90 % bounds", _LONGEST, rows),
    )


_DEMANDS: list[Column[results.Demand]] = [
    Column("resource", lambda row: row.words),
    Column("rule", lambda row: row.rule),
    Column("measured / rule", lambda row: _number(row.measured_over_rule), "number"),
    Column("healthy", lambda row: _number(row.healthy), "number"),
    Column("one away", lambda row: _number(row.degraded), "number"),
    Column("limit", lambda row: _number(row.limit) if row.limit is not None else "not limited", "number"),
    Column("use", lambda row: f"{100 * row.use:.0f} %" if row.use is not None else DASH, "number"),
    Column("unit", lambda row: row.unit, "name"),
]


_RACK_AWAY: Column[results.Demand] = Column("a rack away", lambda row: _number(row.rack_away), "number")


def _demand(result: results.CapacityResult) -> Iterator[Block]:
    yield Words(result.words.bottleneck, "lead")
    caption = "What each broker needs at the peak load, healthy and with another one away"
    columns = [*_DEMANDS[:5], *([_RACK_AWAY] if result.question.racks else []), *_DEMANDS[5:]]
    yield Listing("demands", table(caption, columns, result.demands))


def _disk(result: results.CapacityResult, disk: results.Disk) -> Iterator[Block]:
    yield Words(result.words.disk, "lead")
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


def _partitions(result: results.CapacityResult, links: Links) -> Iterator[Block]:
    found = result.partitions
    if found is None:
        return
    yield Words(result.words.partitions, "lead" if found.curve else "absent")
    if not found.curve:
        return
    yield Plot(
        "partitions",
        plots.partitions_figure(found),
        "CPU, p99 and recovery against the number of replicas on each broker, as multiples of what the fewest take",
        f"At {found.write_mb_per_s:g} MB/s: CPU and p99 of a steady load, and the time from the start of a broker that "
        f"was away for {found.down_s:g} s after a kill until every ISR is full. Lines join medians; there is none "
        "beyond what was run.",
        _partition_table(found, links),
    )


def _partition_table(found: results.Partitions, links: Links) -> Table:
    columns: list[Column[results.PartitionCost]] = [
        Column("replicas", lambda row: _number(row.partitions), "number"),
        Column("of", lambda row: linked(row.run_id, links, row.run_id or "median")),
        Column("runs", lambda row: row.runs, "number"),
        *(column for measure in plots.MEASURES for column in _measured(found, measure)),
    ]
    return table("What partitions cost: medians, and every run", columns, [*found.curve, *found.points])


def _measured(found: results.Partitions, measure: plots.Measure) -> list[Column[results.PartitionCost]]:
    return [
        Column(f"{measure.name}, {measure.unit}", lambda row: _number(measure.of(row)), "number"),
        Column("×", lambda row: _number(plots.multiple(found, measure.of, row)), "number"),
    ]


_RESERVES: list[Column[results.Reserve]] = [
    Column("item", lambda line: line.item),
    Column("takes", lambda line: _number(line.amount), "number"),
    Column("left after it", lambda line: _number(line.left), "number"),
]


def _headroom(result: results.CapacityResult) -> Iterator[Block]:
    lines = result.ledger
    yield Plot(
        "ledger",
        plots.ledger_figure(lines),
        "From the healthy knee down to what is left: each reserve as a bar",
        "What every reserve leaves of the healthy knee, from top to bottom. A last bar below zero: there are too few "
        "brokers for all of them.",
        table("Headroom, MB/s of write load", _RESERVES, lines),
    )
    yield Words(result.words.exhaustion)


def _throttle(result: results.CapacityResult) -> Iterator[Block]:
    yield Words(result.words.throttle, "lead")
    yield Words(
        "The upper bound is cautious: it assumes that a byte sent for catching up costs the peers as much as a byte "
        "of live traffic. Kafka throttles replicas outside the ISR only (KIP-73), and only those that are listed.",
        "note",
    )


# --- limits and what lies behind -------------------------------------------------------------------


def _limits(result: results.CapacityResult, links: Links) -> Iterator[Block]:
    yield Words(result.limits)
    if result.missing:
        yield Words("Missing:")
        yield Words(result.missing)
    if result.left_out:
        columns: list[Column[results.LeftOut]] = [
            Column("run", lambda row: linked(row.run_id, links)),
            Column("phase", lambda row: row.phase),
            Column("why", lambda row: row.why, "text"),
        ]
        yield Listing("left-out", table("Measured, but left out", columns, result.left_out))
    inputs = [(name.replace("_", " "), _said(value)) for name, value in result.question]
    yield Listing("inputs", table("The question", plain("input", "value"), inputs), folded=True)


def _said(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "; ".join(value) if value and isinstance(value[0], str) else " to ".join(f"{each:g}" for each in value)
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _number(value: float | None) -> str:
    return DASH if value is None else f"{plots.rounded(value):,.10g}"


def _reached(value: float | None, offered: float) -> str:
    """A knee that was not reached is above every offered load."""
    return f"above {_number(offered)}" if value is None else _number(value)
