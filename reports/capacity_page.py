"""The page of one capacity plan: the answer, the curves it rests on, and what it does not say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from reports.cells import DASH, Cell, Table, cells
from reports.plots import PALETTE
from reports.site import Block, Listing, Page, Plot, Section, Words
from reports.site import render as render_page

Told = Mapping[str, Any]
State = Literal["pass", "fail", "unknown"]
HEALTHY, DEGRADED = PALETTE[0], PALETTE[1]
QUIET = "rgba(128, 140, 152, 0.75)"
LOAD_TITLE = "write load, MB/s"
_ROLES = {"knee": "healthy", "degraded": "one broker away"}
_VERDICTS = {
    "right": "the number of brokers is right",
    "under": "too few brokers",
    "over": "more brokers than needed",
    "unknown": "not enough was measured",
}


def render(result: Told, links: Mapping[str, str]) -> str:
    """The page of a plan's result; ``links`` maps run ids to the addresses of their pages."""
    recommendation = result["recommendation"]
    page = Page(
        title="Capacity plan",
        kind="one capacity plan",
        sentence=result["sentence"],
        state=result["state"],
        state_word=recommendation["verdict"],
        meaning=_meaning(result),
        above=_question(result),
        facts=_facts(result),
        sections=[section for section in _sections(result, links) if section.blocks],
        footer="Figures of brokers on one host hold against each other; measure again on the machines of the plan.",
    )
    return render_page(page)


def _meaning(result: Told) -> str:
    said = _VERDICTS[result["recommendation"]["verdict"]]
    return f"{said}, if the doubts do not hold" if result["plan"] and result["unsure"] else said


def _sections(result: Told, links: Mapping[str, str]) -> Iterator[Section]:
    yield Section("plan", "The plan", [*_plan(result)], "Plan")
    yield Section("latency", "Load and latency", [*_latency(result, links)], "Latency")
    yield Section("catch_up", "Catching up", [*_catch_up(result, links)], "Catch-up")
    yield Section("check", "Was the model right?", [*_check(result, links)], "Check")
    yield Section("downtime", "How long may a broker stay away?", [*_downtime(result)], "Downtime")
    yield Section("demand", "Demand and limits", [*_demand(result)], "Demand")
    yield Section("headroom", "Where the headroom goes", [*_headroom(result)], "Headroom")
    yield Section("throttle", "Replication throttle", [*_throttle(result)], "Throttle")
    yield Section("limits", "What this plan does not say", [*_limits(result, links)], "Limits")


# --- the head --------------------------------------------------------------------------------------


def _question(result: Told) -> str:
    asked = result["settings"]["question"]
    return (
        f"{asked['write_mb_per_s']:g} MB/s on {asked['brokers']} brokers, RF {asked['replication_factor']}, "
        f"p99 within {asked['target_p99_ms']:g} ms, recovery within {asked['target_recovery_s']:g} s"
    )


def _facts(result: Told) -> list[tuple[str, str]]:
    runs, asked, measured = result["runs"], result["settings"]["question"], result["settings"]["measurement"]
    allowance = ", ".join(f"{name} {_allowed(name, value)}" for name, value in measured["allowance"].items() if value)
    facts = [
        ("Kafka", ", ".join(runs["kafka"]) or measured["kafka"]),
        ("Each broker may use", allowance.replace("_", " ")),
        ("Workload", f"{asked['record_bytes']} B records, {asked['partitions']} partitions"),
        ("Runs", f"{runs['count']} of {runs['planned']}"),
        ("Measured", _from_to(runs)),
        ("Confidence", result["recommendation"].get("confidence", "")),
    ]
    return [(name, value) for name, value in facts if value]


def _allowed(name: str, value: Any) -> str:
    return f"{value / 1e6:g} MB/s" if name in {"network", "disk_read"} else f"{value}"


def _from_to(runs: Told) -> str:
    if not runs["first"]:
        return ""
    first, last = (runs[name][:16].replace("T", " ") for name in ("first", "last"))
    return f"{first} to {last} UTC"


# --- the plan --------------------------------------------------------------------------------------


def _plan(result: Told) -> Iterator[Block]:
    if result["plan"] is None:
        yield Words(result["missing"] or ["No run of this plan is in the archive yet."], "absent")
        return
    yield Words(result["words"]["recommendation"], "lead")
    if result["recommendation"]["doubts"]:
        yield Words("What keeps the confidence down:")
        yield Words(result["recommendation"]["doubts"])
    rows = [cells(row["what"], row["value"], row["interval"], row["from"]) for row in result["plan_table"]]
    yield Listing("plan", Table("The plan, at the peak load", ("what", "value", "interval", "from"), rows))
    yield Listing("options", _options(result["options"]))
    yield Words([f"{option['brokers']} brokers: {option['why']}." for option in result["options"]])


def _options(options: Sequence[Told]) -> Table:
    rows = [
        cells(
            option["brokers"],
            _number(option["safe_latency_mb_per_s"]),
            _number(option["safe_recovery_mb_per_s"]),
            _number(option["longest_down_s"]["low"]),
            Cell("chosen", "pass") if option["chosen"] else Cell("rejected", "quiet"),
        )
        for option in options
    ]
    columns = ("brokers", "safe by latency, MB/s", "safe by recovery, MB/s", "longest downtime, s", "choice")
    return Table("Numbers of brokers that were considered", columns, rows, frozenset({0, 1, 2, 3}))


# --- load and latency --------------------------------------------------------------------------------


def _latency(result: Told, links: Mapping[str, str]) -> Iterator[Block]:
    knees = {role: knee for role, knee in result["knees"].items() if knee}
    if not knees:
        yield Words("No load step can be used, so there is no curve.", "absent")
        return
    target_ms = result["settings"]["question"]["target_p99_ms"]
    yield Plot(
        "latency",
        {"data": _latency_traces(knees, target_ms), "layout": _latency_layout(target_ms)},
        "p99 latency against the offered load, healthy and with one broker away, with intervals and the target",
        "Lines are means of ln p99 over the runs, bands their 90 % intervals, dots single runs. A load that was missed "
        "has no latency and ends its line. The dashed line is the target; a knee (cross) is where a line crosses it, "
        "and its interval lies between the crossings of the band.",
        _latency_table(knees, target_ms, links),
    )
    yield Listing("knees", _knee_table(knees))


def _latency_traces(knees: Mapping[str, Told], target_ms: float) -> list[dict[str, Any]]:
    traces: list[dict[str, Any]] = []
    for (role, knee), colour in zip(knees.items(), (HEALTHY, DEGRADED), strict=False):
        name = _ROLES[role]
        traces += _band(knee["curve"], "load", name, colour)
        points = [point for point in knee["points"] if point["p99_ms"] is not None]
        traces.append(
            {
                **_trace(f"runs, {name}", [p["load"] for p in points], [p["p99_ms"] for p in points]),
                "mode": "markers",
                "marker": {"color": colour, "size": 7, "symbol": "circle-open"},
            }
        )
        if knee["load"]["estimate"] is not None:
            marker = {"color": colour, "size": 12, "symbol": "x-thin", "line": {"width": 3, "color": colour}}
            at = _trace(f"knee, {name}", [knee["load"]["estimate"]], [target_ms])
            traces.append({**at, "mode": "markers", "marker": marker})
    return traces


def _latency_layout(target_ms: float) -> dict[str, Any]:
    target = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": target_ms, "y1": target_ms}
    line = {"color": QUIET, "width": 1.5, "dash": "dash"}
    return {**_logarithmic(_layout(LOAD_TITLE, "p99, ms")), "shapes": [{**target, "line": line}]}


def _latency_table(knees: Mapping[str, Told], target_ms: float, links: Mapping[str, str]) -> Table:
    rows = []
    for role, knee in knees.items():
        for row in knee["curve"]:
            interval = _number(row["low"]), _number(row["high"])
            rows.append(cells(_ROLES[role], _number(row["load"]), "mean", _missed(row["estimate"]), *interval))
        for point in knee["points"]:
            who = _run(point["run_id"], links)
            rows.append(cells(_ROLES[role], _number(point["load"]), who, _missed(point["p99_ms"]), "", ""))
        if knee["load"]["estimate"] is not None:
            at = _number(knee["load"]["estimate"]), "knee", _number(target_ms)
            rows.append(cells(_ROLES[role], *at, "", ""))
    columns = ("state", "load, MB/s", "of", "p99, ms", "low", "high")
    return Table(
        "p99 by offered load: means with 90 % intervals, and every run", columns, rows, frozenset({1, 3, 4, 5})
    )


def _knee_table(knees: Mapping[str, Told]) -> Table:
    rows = [
        cells(
            _ROLES[role],
            _reached(knee["load"]["estimate"], knee["offered"]),
            _number(knee["load"]["low"]),
            _reached(knee["load"]["high"], knee["offered"]),
            _number(knee["safe"]),
            knee["runs"],
        )
        for role, knee in knees.items()
    ]
    columns = ("state", "knee, MB/s", "low", "high", "safe, MB/s", "runs per step")
    return Table("The largest load whose p99 stays within the target", columns, rows, frozenset({1, 2, 3, 4, 5}))


# --- catching up -------------------------------------------------------------------------------------


def _catch_up(result: Told, links: Mapping[str, str]) -> Iterator[Block]:
    told = result["catch_up"]
    if not told["points"]:
        yield Words("No run with a broker away can be used.", "absent")
        return
    yield Plot(
        "catch-up",
        {"data": _catch_up_traces(told), "layout": _logarithmic(_layout(LOAD_TITLE, "time to catch up, s"))},
        "Time to catch up against the write load for each downtime, with the model's prediction intervals",
        "Dots are runs that the model was fitted on, diamonds held-out runs, squares runs whose backlog was read from "
        "disk, triangles runs that were given up: at least so long. Lines are the model's medians, bands hold nine of "
        "ten new runs. A line that ends has no finite catch-up beyond.",
        _catch_up_table(told, links),
    )
    if told["rate"]:
        yield Listing("model", _model_table(told))


def _catch_up_traces(told: Told) -> list[dict[str, Any]]:
    downs = sorted({point["asked_down_s"] for point in told["points"]})
    colours = {down_s: PALETTE[index % len(PALETTE)] for index, down_s in enumerate(downs)}
    traces: list[dict[str, Any]] = []
    for curve in told["curves"]:
        traces += _band(curve["rows"], "write_mb_per_s", f"down {curve['down_s']:g} s", colours[curve["down_s"]])
    for name, symbol, kept in _kinds():
        points = [point for point in told["points"] if kept(point)]
        if points:
            marker = {"color": [colours[point["asked_down_s"]] for point in points], "size": 9, "symbol": symbol}
            xs, ys = [point["write_mb_per_s"] for point in points], [point["took_s"] for point in points]
            outlined = {**marker, "line": {"width": 1, "color": QUIET}}
            traces.append({**_trace(name, xs, ys), "mode": "markers", "marker": outlined})
    return traces


def _kinds() -> list[tuple[str, str, Any]]:
    """Name and symbol of each kind of point, and which points are of it."""
    return [
        ("fitted runs", "circle", lambda point: _kind(point) == "fitted"),
        ("held-out runs", "diamond", lambda point: _kind(point) == "held out"),
        ("cold runs", "square", lambda point: _kind(point) == "cold"),
        ("given up", "triangle-up", lambda point: _kind(point) == "given up"),
    ]


def _kind(point: Told) -> str:
    if point["censored"]:
        return "given up"
    return "held out" if point["role"] == "held_out" else "cold" if point["cold"] else "fitted"


def _catch_up_table(told: Told, links: Mapping[str, str]) -> Table:
    rows = []
    for point in told["points"]:
        predicted = point["predicted"] or {}
        took = f"≥ {_number(point['took_s'])}" if point["censored"] else _number(point["took_s"])
        rows.append(
            cells(
                _run(point["run_id"], links),
                ("held out" if point["role"] == "held_out" else "fitted") + (", cold" if point["cold"] else ""),
                _number(point["write_mb_per_s"]),
                _number(point["down_s"]),
                took,
                *(_number(predicted.get(name)) for name in ("low", "high")),
            )
        )
    for curve in told["curves"]:
        for row in curve["rows"]:
            values = (_number(row[name]) for name in ("estimate", "low", "high"))
            rows.append(cells("model", "", _number(row["write_mb_per_s"]), _number(curve["down_s"]), *values))
    columns = ("run", "role", "load, MB/s", "downtime, s", "caught up after, s", "low", "high")
    caption = "Time to catch up: every run with its own prediction interval, then the model's curves"
    return Table(caption, columns, rows, frozenset({2, 3, 4, 5, 6}))


def _model_table(told: Told) -> Table:
    def row(what: str, interval: Told, unit: str) -> tuple[Cell, ...]:
        high = _number(interval["high"]) if interval["high"] is not None else "not bounded"
        return cells(what, _number(interval["estimate"]), _number(interval["low"]), high, unit)

    rows = [
        row(f"R at {_number(told['largest_load_mb_per_s'])} MB/s of load into a broker", told["rate"], "MB/s"),
        row("R lost to each MB/s of load", told["shared"], "MB/s"),
        row("T0, from its start until it fetches", told["start_s"], "s"),
        cells("spread of runs about the model", _number(told["noise"]), "", "", "of ln T"),
        cells("leadership balanced after the ISR is full, longest", _number(told["leadership_s"]), "", "", "s"),
    ]
    if told["cold_rate"]:
        rows.insert(2, row("R from disk, at that load", told["cold_rate"], "MB/s"))
    caption = f"Fitted on {told['fitted_runs']} runs, {told['censored_runs']} of them given up; 90 % intervals"
    return Table(caption, ("what", "estimate", "low", "high", "unit"), rows, frozenset({1, 2, 3}))


def _check(result: Told, links: Mapping[str, str]) -> Iterator[Block]:
    yield Words(result["words"]["model_check"], "lead")
    held_out = [point for point in result["catch_up"]["points"] if point["role"] == "held_out"]
    if held_out:
        yield Listing("held-out", _held_out_table(held_out, links))


def _held_out_table(held_out: Iterable[Told], links: Mapping[str, str]) -> Table:
    rows = [
        cells(
            _run(point["run_id"], links),
            _number(point["write_mb_per_s"]),
            _number(point["down_s"]),
            f"≥ {_number(point['took_s'])}" if point["censored"] else _number(point["took_s"]),
            *_predicted(point["predicted"]),
            _where(point),
        )
        for point in held_out
    ]
    columns = ("run", "load, MB/s", "downtime, s", "measured, s", "predicted, s", "low", "high", "where it lies")
    return Table("Runs outside the fitted grid, which no fit has seen", columns, rows, frozenset(range(1, 7)))


def _where(point: Told) -> Cell:
    """An interval without an upper end holds everything, and proves nothing."""
    if point["predicted"] and point["predicted"]["high"] is None:
        return Cell("no upper end", "unknown")
    return Cell("inside", "pass") if point["inside"] else Cell("outside", "fail")


def _predicted(interval: Told | None) -> list[str]:
    if interval is None:
        return [DASH] * 3
    return [_number(interval[name]) if interval[name] is not None else "never" for name in ("estimate", "low", "high")]


# --- downtime, demand, headroom ------------------------------------------------------------------------


def _downtime(result: Told) -> Iterator[Block]:
    if result["plan"] is None:
        return
    rows = result["longest_down"]
    layout = _logarithmic(_layout(LOAD_TITLE, "longest downtime, s"))
    yield Plot(
        "longest-down",
        {"data": _band(_above_zero(rows), "write_mb_per_s", "longest downtime", HEALTHY), "layout": layout},
        "The longest downtime after which recovery stays within its target, against the write load",
        "The lower edge is what may be counted on: after such a downtime, recovery stays within its target in 19 of 20 "
        "runs. Where a line ends, recovery takes too long however soon the broker is back.",
        _longest_table(rows),
    )


def _above_zero(rows: Sequence[Told]) -> list[dict[str, Any]]:
    """A logarithmic axis has no zero."""
    return [{name: value or None for name, value in row.items()} for row in rows]


def _longest_table(rows: Sequence[Told]) -> Table:
    told = [cells(*(_number(row[name]) for name in ("write_mb_per_s", "estimate", "low", "high"))) for row in rows]
    columns = ("load, MB/s", "estimate, s", "low, s", "high, s")
    return Table("Longest tolerable downtime, with 90 % bounds", columns, told, frozenset(range(4)))


def _demand(result: Told) -> Iterator[Block]:
    if result["plan"] is None:
        return
    yield Words(result["words"]["bottleneck"], "lead")
    rows = [
        cells(
            row["words"],
            row["rule"],
            _number(row["measured_over_rule"]),
            _number(row["healthy"]),
            _number(row["degraded"]),
            _number(row["limit"]) if row["limit"] is not None else "not limited",
            f"{100 * row['use']:.0f} %" if row["use"] is not None else DASH,
            row["unit"],
        )
        for row in result["demands"]
    ]
    columns = ("resource", "rule", "measured / rule", "healthy", "one away", "limit", "use", "unit")
    caption = "What each broker needs at the peak load, healthy and with another one away"
    yield Listing("demands", Table(caption, columns, rows, frozenset({2, 3, 4, 5, 6})))


def _headroom(result: Told) -> Iterator[Block]:
    if result["plan"] is None:
        return
    lines = result["ledger"]
    rows = [cells(line["item"], _number(line["amount"]), _number(line["left"])) for line in lines]
    yield Plot(
        "ledger",
        {"data": _ledger_traces(lines), "layout": _ledger_layout(lines)},
        "From the healthy knee down to what is left: each reserve as a bar",
        "What every reserve leaves of the healthy knee, from top to bottom. A last bar below zero: the brokers are too "
        "few for all of them.",
        Table("Headroom ledger, MB/s of write load", ("item", "takes", "left after it"), rows, frozenset({1, 2})),
    )
    yield Words(result["words"]["exhaustion"])


def _ledger_traces(lines: Sequence[Told]) -> list[dict[str, Any]]:
    left = [_rounded(line["left"]) for line in lines]
    bars = {
        "type": "bar",
        "name": "left after it",
        "orientation": "h",
        "x": left,
        "y": [line["item"] for line in lines],
    }
    return [{**bars, "marker": {"color": HEALTHY}, "hovertemplate": "%{x:.3g} MB/s<extra>%{y}</extra>"}]


def _ledger_layout(lines: Sequence[Told]) -> dict[str, Any]:
    layout = _layout("left, MB/s", "")
    axis = {"autorange": "reversed", "automargin": True}
    return {**layout, "height": 90 + 34 * len(lines), "yaxis": axis, "showlegend": False, "hovermode": "closest"}


def _throttle(result: Told) -> Iterator[Block]:
    if result["plan"] is None:
        return
    yield Words(result["words"]["throttle"], "lead")
    yield Words(
        "The upper bound is cautious: it takes a byte that is sent for catching up to cost the peers as much as a byte "
        "of live traffic. Kafka throttles replicas outside the ISR only (KIP-73), and only those that are listed.",
        "note",
    )


# --- limits and what lies behind -------------------------------------------------------------------


def _limits(result: Told, links: Mapping[str, str]) -> Iterator[Block]:
    yield Words(result["limits"])
    if result["missing"]:
        yield Words("Missing:")
        yield Words(result["missing"])
    if result["left_out"]:
        rows = [cells(_run(row["run_id"], links), row["phase"], row["why"]) for row in result["left_out"]]
        yield Listing("left-out", Table("Measured, but left out", ("run", "phase", "why"), rows))
    asked = result["settings"]["question"]
    inputs = [cells(name.replace("_", " "), _said(value)) for name, value in asked.items()]
    yield Listing("inputs", Table("The question, as it was asked", ("input", "value"), inputs), folded=True)


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
    """The same with a logarithmic y axis that is labelled at 1, 2 and 5."""
    ticks = [step * 10**power for power in range(-2, 6) for step in (1, 2, 5)]
    axis = {"title": layout["yaxis"]["title"], "automargin": True, "type": "log", "tickvals": ticks}
    return {**layout, "yaxis": axis}


def _trace(name: str, xs: Iterable[float | None], ys: Iterable[float | None]) -> dict[str, Any]:
    return {"type": "scatter", "name": name, "x": [_rounded(x) for x in xs], "y": [_rounded(y) for y in ys]}


def _band(rows: Sequence[Told], x: str, name: str, colour: str) -> list[dict[str, Any]]:
    """An estimate with its interval; where there is no finite value, there is nothing drawn."""
    finite = [row for row in rows if row["estimate"] is not None]
    whole = [row for row in finite if row["low"] is not None and row["high"] is not None]
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    edge = {"mode": "lines", "line": {"width": 0}, "showlegend": False, "legendgroup": name, "hoverinfo": "skip"}
    xs = [row[x] for row in whole]
    fill = {"fill": "tonexty", "fillcolor": f"rgba({red}, {green}, {blue}, 0.15)"}
    return [
        {**_trace(f"{name}, low", xs, [row["low"] for row in whole]), **edge},
        {**_trace(f"{name}, high", xs, [row["high"] for row in whole]), **edge, **fill},
        {
            **_trace(name, [row[x] for row in finite], [row["estimate"] for row in finite]),
            "mode": "lines+markers" if x == "load" else "lines",
            "line": {"color": colour, "width": 2},
            "legendgroup": name,
        },
    ]


def _rounded(value: float | None) -> float | None:
    """What the tables show, so that figures hold the same."""
    return None if value is None else float(f"{value:.4g}")


def _number(value: float | None) -> str:
    return DASH if value is None else f"{_rounded(value):,.10g}"


def _missed(value: float | None) -> str:
    return "load missed" if value is None else _number(value)


def _reached(value: float | None, offered: float) -> str:
    """A knee that was not reached lies above every load that was offered."""
    return f"above {_number(offered)}" if value is None else _number(value)


def _run(run_id: str, links: Mapping[str, str]) -> Cell:
    return Cell(run_id, link=links.get(run_id, ""))
