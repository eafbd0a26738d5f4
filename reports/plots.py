"""A run's figures.

The page's selector uses each trace's ``meta.partition``. A null is a gap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby, pairwise
from typing import Any

from reports.figures import BLUE, GREEN, PALETTE, QUIET, RED, VIOLET, YELLOW, Figure, Trace, note, upright
from reports.run_data import Row, RunData
from reports.run_tables import partition_name
from reports.timeline import Span, end_of_run, faults, phases

OK, FAILED, UNKNOWN = BLUE, RED, YELLOW
BAND = "rgba(217, 122, 22, 0.13)"
BAND_EDGE = "rgba(217, 122, 22, 0.55)"
POINTS = 24_000  # in all; keeps a page below 2 MB
LABEL_LINE = 15  # pixels
LETTERS = 150  # that fit across a figure, roughly
MOST_LINES = 6  # of labels above a figure
TIME_TITLE = "seconds since the first phase began"


def figures(run: RunData) -> dict[str, Figure]:
    """Return the figures that this run has data for."""
    built = {"replicas": replicas_figure(run), "isr": isr_figure(run), "sends": sends_figure(run)}
    return {name: figure for name, figure in built.items() if figure["data"]}


def colour_of(broker_ids: Iterable[int]) -> dict[int, str]:
    """Return a colour per broker id."""
    return {broker: PALETTE[index % len(PALETTE)] for index, broker in enumerate(sorted(broker_ids))}


def brokers_of(run: RunData) -> list[int]:
    """Return all brokers of the manifest or the timeline."""
    known = {node.node_id for node in run.manifest.brokers if node.node_id is not None}
    return sorted(known | {row["broker_id"] for row in run.rows("timeline_replicas")})


def _by_partition(run: RunData, rows: list[Row]) -> dict[str, list[Row]]:
    ordered = sorted(rows, key=lambda row: (run.place(row), row["t_ns"]))
    return {name: list(group) for name, group in groupby(ordered, key=partition_name)}


# --- what all figures share ----------------------------------------------------------------------


def time_range(run: RunData) -> list[float]:
    """Return the first and the last second of any figure."""
    spans = phases(run)
    seen = [*(run.drawn_s or ()), *(span.start_s for span in spans), *(span.end_s for span in spans)]
    return [min(seen), max(seen)] if seen else [0.0, max(1.0, end_of_run(run))]


def run_layout(run: RunData, height: int, headings: dict[str, float], **axes: Any) -> dict[str, Any]:
    """Return the shared layout, with fault labels above the plot."""
    found = faults(run)
    placed = _placed(found, time_range(run))
    lines = 1 + max((line for _, _, line in placed), default=-1)
    margin = {"l": 64, "r": 16, "t": 26 + LABEL_LINE * lines, "b": 44}
    drawn_height = height - margin["t"] - margin["b"]
    labels = [
        note(f"<b>{text}</b>", 0, top, size=13, above=2 + LABEL_LINE * lines * (top == 1))
        for text, top in headings.items()
    ]
    below = {"orientation": "h", "x": 0, "xanchor": "left", "y": -56 / drawn_height, "yanchor": "top"}
    lowest = "y2" if "yaxis2" in axes else "y"
    return {
        "height": height,
        "margin": margin,
        "hovermode": "x unified",
        "hoverlabel": {"namelength": -1},
        "showlegend": True,
        "legend": {**below, "traceorder": "normal"},
        "xaxis": {
            "range": time_range(run),
            "title": {"text": TIME_TITLE, "standoff": 6},
            "hoverformat": ".2f",
            "unifiedhovertitle": {"text": "%{x} s"},
            "anchor": lowest,
        },
        "shapes": [upright(phase.start_s, width=1, dash="dot") for phase in phases(run)]
        + [_band(fault) for fault in found],
        "annotations": labels
        + [note(text, start_s, 1, size=11, above=LABEL_LINE * line - 2, xref="x") for start_s, text, line in placed],
        **axes,
    }


def _band(fault: Span) -> dict[str, Any]:
    where = {**upright(fault.start_s, color=BAND_EDGE, width=1), "x1": fault.end_s}
    return {**where, "type": "rect", "fillcolor": BAND, "layer": "below"}


def _placed(found: list[Span], shown_s: list[float]) -> list[tuple[float, str, int]]:
    """Labels that need too many lines become numbers, or none."""
    for label in ("F{0.number} {0.label}", "F{0.number}"):
        placed = _on_lines([(fault.start_s, label.format(fault)) for fault in found], shown_s)
        if all(line < MOST_LINES for _, _, line in placed):
            return placed
    return []


def _on_lines(labels: list[tuple[float, str]], shown_s: list[float]) -> list[tuple[float, str, int]]:
    letter_s = (shown_s[1] - shown_s[0]) / LETTERS
    ends_s: list[float] = []
    placed = []
    for start_s, text in sorted(labels):
        line = next((line for line, end_s in enumerate(ends_s) if end_s <= start_s), len(ends_s))
        ends_s[line : line + 1] = [start_s + letter_s * (len(text) + 1)]
        placed.append((start_s, text, line))
    return placed


def _uncovered(labels: list[tuple[float, str]], shown_s: list[float]) -> list[str]:
    return [text if line == 0 else "" for _, text, line in _on_lines(labels, shown_s)]


# --- HW and LEO ----------------------------------------------------------------------------------


def replicas_figure(run: RunData) -> Figure:
    """Draw HW and LEO of every replica, as offsets and behind the furthest LEO."""
    partitions = _by_partition(run, run.rows_shown("timeline_replicas"))
    colours = colour_of(brokers_of(run))
    data = [
        trace
        for partition, rows in partitions.items()
        for trace in _partition_traces(run, partition, rows, colours, POINTS // max(1, len(partitions)))
    ]
    layout = run_layout(
        run,
        660,
        {"Offset": 1, "Records behind the furthest LEO": 0.44},
        yaxis={"domain": [0.53, 1], "tickformat": ",~f", "rangemode": "tozero"},
        yaxis2={"domain": [0, 0.44], "tickformat": ",~f", "autorange": "reversed", "zeroline": True},
    )
    return {"data": data, "layout": layout, "partitions": list(partitions)}


def _partition_traces(
    run: RunData, partition: str, rows: list[Row], colours: dict[int, str], points: int
) -> list[Trace]:
    brokers = sorted({row["broker_id"] for row in rows})
    rows = with_distance(rows)
    traces: list[Trace] = []
    for index, broker in enumerate(brokers):
        # replicas mostly have equal offsets: the first line is the widest, so that all stay visible
        width = 1.6 + min(1.4 * (len(brokers) - 1 - index), 4.2)
        own = thin([row for row in rows if row["broker_id"] == broker], points // len(brokers))
        seconds = [run.seconds(row["t_ns"]) for row in own]
        for short, column, dash in (("LEO", "log_end_offset", "solid"), ("HW", "high_watermark", "dot")):
            look = {"color": colours[broker], "width": width, "dash": dash, "shape": "hv"}
            common = {
                "type": "scatter",
                "mode": "lines",
                "connectgaps": False,
                "x": seconds,
                "line": look,
                "legendgroup": f"{broker} {short}",
                "legendrank": 1 if short == "LEO" else 2,
                "hovertemplate": "%{y:,d}",
            }
            name = f"broker {broker} {short}"
            meta = {"partition": partition, "broker": broker, "series": short}
            for view, axis, key in (("offset", "y", column), ("behind", "y2", f"{column}_behind")):
                drawn = {"y": [row[key] for row in own], "yaxis": axis, "showlegend": view == "offset"}
                traces.append({**common, **drawn, "name": name, "meta": {**meta, "view": view}})
    # where they are equal, LEO over HW is enough
    traces.sort(key=lambda trace: trace["meta"]["series"] == "LEO")
    return traces + _lone_points(traces) + _epoch_markers(run, partition, rows)


def with_distance(rows: list[Row]) -> list[Row]:
    """Add how many records HW and LEO are behind the furthest LEO of any replica.

    ``rows`` are of one partition. A replica that could not answer is left out.
    """
    latest: dict[int, int] = {}
    out: list[Row] = []
    for _, moment in groupby(sorted(rows, key=lambda row: row["t_ns"]), key=lambda row: row["t_ns"]):
        group = list(moment)
        for row in group:
            if row["log_end_offset"] is None:
                latest.pop(row["broker_id"], None)
            else:
                latest[row["broker_id"]] = row["log_end_offset"]
        furthest = max(latest.values(), default=None)
        for row in group:
            behind = {
                f"{name}_behind": None if row[name] is None or furthest is None else furthest - row[name]
                for name in ("high_watermark", "log_end_offset")
            }
            out.append({**row, **behind})
    return out


def thin(rows: list[Row], most: int) -> list[Row]:
    """Drop rows evenly, but keep both sides of every gap and decrease."""
    stride = -(-len(rows) // max(1, most))
    if stride <= 1:
        return rows
    breaks = {i for i, (before, after) in enumerate(pairwise(rows)) if _is_break(before, after)}
    kept = {*range(0, len(rows), stride), *breaks, *(i + 1 for i in breaks), len(rows) - 1}
    return [rows[i] for i in sorted(kept)]


def _is_break(before: Row, after: Row) -> bool:
    pairs = [(before[name], after[name]) for name in ("log_end_offset", "high_watermark")]
    gap = (before["log_end_offset"] is None) != (after["log_end_offset"] is None)
    return gap or any(None not in pair and pair[1] < pair[0] for pair in pairs)


def _lone_points(traces: list[Trace]) -> list[Trace]:
    """No line passes through samples between two gaps."""
    dots = []
    for trace in traces:
        y = [None, *trace["y"], None]
        alone = [i for i in range(len(trace["y"])) if y[i + 1] is not None and y[i] is None and y[i + 2] is None]
        if alone:
            marker = {"size": 5, "color": trace["line"]["color"]}
            points = {"x": [trace["x"][i] for i in alone], "y": [trace["y"][i] for i in alone]}
            meta = {**trace["meta"], "alone": True}
            dots.append({**trace, **points, "meta": meta, "mode": "markers", "marker": marker, "showlegend": False})
    return dots


def _epoch_markers(run: RunData, partition: str, rows: list[Row]) -> list[Trace]:
    """Mark the first sight of each higher leader epoch."""
    highest: int | None = None
    first_seen: list[Row] = []
    for row in rows:
        epoch = row["leader_epoch"]
        if epoch is None or row["log_end_offset"] is None or (highest is not None and epoch <= highest):
            continue
        if highest is not None:
            first_seen.append(row)
        highest = epoch
    if not first_seen:
        return []
    seconds = [run.seconds(row["t_ns"]) for row in first_seen]
    epochs = [f"epoch {row['leader_epoch']}" for row in first_seen]
    common = {
        "type": "scatter",
        "mode": "markers+text",
        "name": "new leader epoch",
        "legendgroup": "epoch",
        "legendrank": 3,
        "x": seconds,
        "text": _uncovered(list(zip(seconds, epochs, strict=True)), time_range(run)),
        "textposition": "bottom right",
        "textfont": {"size": 11},
        "marker": {"symbol": "diamond", "size": 10, "color": QUIET, "line": {"width": 1}},
        "hovertemplate": "leader %{customdata[0]}, first seen on broker %{customdata[1]}",
        "customdata": [[epoch, row["broker_id"]] for epoch, row in zip(epochs, first_seen, strict=True)],
    }
    views = (("offset", "y", "log_end_offset"), ("behind", "y2", "log_end_offset_behind"))
    return [
        {
            **common,
            "y": [row[column] for row in first_seen],
            "yaxis": axis,
            "meta": {"partition": partition, "series": "epoch", "view": view},
            "showlegend": view == "offset",
        }
        for view, axis, column in views
    ]


# --- ISR -----------------------------------------------------------------------------------------

LANES: dict[str, dict[str, Any]] = {
    "leads": {"width": 16},
    "in the ISR": {"width": 7},
    "out of the ISR": {"width": 2, "dash": "dot"},
}


def authoritative(views: list[Row]) -> list[Row]:
    """Return the ISR views to show, in order of time.

    The controller decides the ISR: without its views, show each leader's at the newest epoch.
    """
    views = sorted(views, key=lambda row: row["t_ns"])
    own = [row for row in views if row["observer"] == "controller"]
    if own:
        return own
    kept: list[Row] = []
    newest = -1
    for row in views:
        earlier, newest = newest, max(newest, row["leader_epoch"] or 0)
        own = row["observer"] == str(row["leader"]) and row["leader_epoch"] == newest
        if own or (row["leader"] == -1 and newest > earlier):
            kept.append(row)
    return kept


def isr_figure(run: RunData) -> Figure:
    """Draw a lane per broker: leader, in the ISR, or out of it."""
    brokers = brokers_of(run)
    colours = colour_of(brokers)
    partitions = _by_partition(run, run.rows_shown("timeline_isr"))
    data: list[Trace] = []
    for partition, rows in partitions.items():
        views = authoritative(rows)
        for lane, broker in enumerate(brokers):
            data += _lane(run, broker, views, {"partition": partition, "colour": colours[broker], "lane": lane})
        data.append(_leader_labels(run, partition, views, brokers))
    names = {"tickvals": list(range(len(brokers))), "ticktext": [f"broker {broker}" for broker in brokers]}
    lanes = {**names, "range": [len(brokers) - 0.6, -0.8], "showgrid": False, "zeroline": False}
    layout = run_layout(run, 120 + 56 * len(brokers), {}, yaxis=lanes)
    layout |= {"hovermode": "closest", "showlegend": False}
    table = {name: _isr_table(run, rows) for name, rows in partitions.items()}
    return {"data": data, "layout": layout, "partitions": list(partitions), "table": table}


def _isr_table(run: RunData, rows: list[Row]) -> dict[str, Any]:
    head = ["time (s)", "observer", "leader", "leader epoch", "ISR"]
    lines = [
        [run.seconds(row["t_ns"]), row["observer"], row["leader"], row["leader_epoch"], _isr_text(row)] for row in rows
    ]
    return {"head": head, "rows": lines}


def _isr_text(row: Row) -> str:
    return "not known" if row["isr"] is None else ", ".join(map(str, row["isr"])) or "empty"


def _state(broker: int, view: Row) -> str | None:
    if view["isr"] is None:
        return None
    if view["leader"] == broker:
        return "leads"
    return "in the ISR" if broker in view["isr"] else "out of the ISR"


def _lane(run: RunData, broker: int, views: list[Row], look: dict[str, Any]) -> list[Trace]:
    ends = [run.seconds(view["t_ns"]) for view in views[1:]] + [time_range(run)[1]]
    traces = []
    for state, stroke in LANES.items():
        x: list[float | None] = []
        text: list[str | None] = []
        for view, until in zip(views, ends, strict=True):
            if _state(broker, view) == state:
                start = run.seconds(view["t_ns"])
                hover = f"epoch {view['leader_epoch']}, ISR {_isr_text(view)}"
                if x and x[-2] == start:
                    x[-1:], text[-2:] = [until, None], [hover, hover, None]
                else:
                    x += [start, until, None]
                    text += [hover, hover, None]
        trace = {
            "type": "scatter",
            "mode": "lines",
            "connectgaps": False,
            "name": f"broker {broker} {state}",
            "x": x,
            "y": [None if second is None else look["lane"] for second in x],
            "text": text,
            "line": {"color": QUIET if state == "out of the ISR" else look["colour"], **stroke},
            "hovertemplate": f"broker {broker} {state}<br>%{{text}}<extra></extra>",
            "meta": {"partition": look["partition"], "broker": broker, "state": state},
        }
        if x:
            traces.append(trace)
    return traces


def _leader_labels(run: RunData, partition: str, views: list[Row], brokers: list[int]) -> Trace:
    before: list[Row | None] = [None, *views]
    starts = [
        view
        for earlier, view in zip(before, views, strict=False)
        if view["leader"] in brokers and (earlier is None or _reign(earlier) != _reign(view))
    ]
    labels = [(run.seconds(view["t_ns"]), f"leads, epoch {view['leader_epoch']}") for view in starts]
    of_lane = [
        [label for label, view in zip(labels, starts, strict=True) if view["leader"] == broker] for broker in brokers
    ]
    return {
        "type": "scatter",
        "mode": "text",
        "name": "leader",
        "x": [second for labels in of_lane for second, _ in labels],
        "y": [lane - 0.34 for lane, labels in enumerate(of_lane) for _ in labels],
        "text": [text for labels in of_lane for text in _uncovered(labels, time_range(run))],
        "textposition": "middle right",
        "textfont": {"size": 11},
        "hoverinfo": "skip",
        "meta": {"partition": partition, "state": "label"},
    }


def _reign(view: Row) -> tuple[int | None, int | None]:
    return view["leader"], view["leader_epoch"]


# --- sends ---------------------------------------------------------------------------------------


OUTCOMES = (  # name, column, colour, pattern
    ("acknowledged", "acked", OK, ""),
    ("failed", "failed", FAILED, "/"),
    ("unknown", "indeterminate", UNKNOWN, "x"),
)
PERCENTILES = (  # name, column, colour, dash, symbol
    ("p50", "p50_ms", GREEN, "solid", "circle"),
    ("p99", "p99_ms", VIOLET, "dot", "square"),
)


def sends_figure(run: RunData) -> Figure:
    """Draw sends by outcome and due second, and acknowledged sends' latency."""
    rows = sorted(run.rows("timeline_sends"), key=lambda row: row["t_ns"])
    layout = run_layout(
        run,
        540,
        {"Sends per second": 1, "Latency from the due time in ms (log scale)": 0.43},
        yaxis={"domain": [0.53, 1], "tickformat": ",~f", "rangemode": "tozero"},
        yaxis2={"domain": [0, 0.43], "type": "log", "tickformat": ",~r", "dtick": 1},
        barmode="stack",
        bargap=0,
    )
    middle = [run.seconds(row["t_ns"]) + 0.5 for row in rows]
    data = [*_outcome_bars(rows, middle), *_latency_lines(rows, middle)] if rows else []
    return {"data": data, "layout": layout, "partitions": []}


def _outcome_bars(rows: list[Row], middle: list[float]) -> Iterator[Trace]:
    for name, column, colour, pattern in OUTCOMES:
        look = {"color": colour, "opacity": 0.55 if column == "acked" else 1, "line": {"width": 0}}
        yield {
            "type": "bar",
            "name": name,
            "x": middle,
            "y": [row[column] for row in rows],
            "width": 1,
            "marker": {**look, "pattern": {"shape": pattern, "fillmode": "overlay", "size": 5}},
            "hovertemplate": "%{y:,d}",
            "meta": {"outcome": column},
        }


def _latency_lines(rows: list[Row], middle: list[float]) -> Iterator[Trace]:
    for short, column, colour, dash, symbol in PERCENTILES:
        yield {
            "type": "scatter",
            "mode": "lines+markers",
            "connectgaps": False,
            "name": f"latency {short}",
            "x": middle,
            "y": [row[column] for row in rows],
            "yaxis": "y2",
            "line": {"color": colour, "width": 2, "dash": dash},
            "marker": {"size": 4, "symbol": symbol},
            "hovertemplate": "%{y:,.1f} ms",
            "meta": {"latency": short},
        }
