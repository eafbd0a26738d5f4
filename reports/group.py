"""What a run's page shows of its consumer group: how far it was behind, and its rebalances."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate, groupby
from typing import NamedTuple

from reports.cells import Column, Table, table
from reports.plots import OK, Figure, run_layout
from reports.run_data import SERIES, Row, RunData
from reports.run_tables import partition_name


class Rebalance(NamedTuple):
    """What a member was told at one moment."""

    changed_ns: int
    member: str
    change: str
    partitions: list[str]


class _Growth(NamedTuple):
    """An offset that only grows: when it was seen, and the largest so far."""

    seen_ns: list[int]
    offset: list[int]

    def at(self, t_ns: int) -> int:
        place = bisect_right(self.seen_ns, t_ns)
        return self.offset[place - 1] if place else 0


def rebalances(run: RunData) -> list[Rebalance]:
    """The rebalances by time, a member's partitions together."""

    def moment(row: Row) -> tuple[int, str, str]:
        return row["changed_ns"], row["member"], row["change"]

    in_order = sorted(run.rows("rebalances"), key=lambda row: (*moment(row), row["topic"], row["partition"]))
    return [Rebalance(*of, [partition_name(row) for row in rows]) for of, rows in groupby(in_order, key=moment)]


def rebalance_table(run: RunData) -> Table:
    """Who was given which partitions when, and who gave them up."""
    columns: list[Column[Rebalance]] = [
        Column("time", lambda of: f"{run.seconds(of.changed_ns):,.1f} s", "number"),
        Column("member", lambda of: of.member, "name"),
        Column("change", lambda of: of.change, "name"),
        Column("partitions", lambda of: ", ".join(of.partitions), "text"),
    ]
    return table("Rebalances, as the members' libraries told them.", columns, rebalances(run))


def lag_figure(run: RunData) -> Figure:
    """Records between the committed offsets and the high watermarks, over the partitions that the page shows."""
    taken = [row for row in run.rows_shown("commits") if row["answered_ns"] is not None and row["error"] is None]
    shown = [row for row in run.rows_shown(SERIES) if row["high_watermark"] is not None]
    committed = _growths(taken, "answered_ns", "offset")
    watermarks = _growths(shown, "t_ns", "high_watermark")
    seen = [t_ns for growth in committed.values() for t_ns in growth.seen_ns]
    if not seen:
        return {"data": [], "layout": {}}
    seconds = range(int(run.seconds(min(seen))), int(run.seconds(max(seen))) + 2)
    lag = [
        sum(
            max(0, watermarks[name].at(t_ns) - committed[name].at(t_ns)) if name in watermarks else 0
            for name in committed
        )
        for t_ns in (run.origin_ns + second * 1_000_000_000 for second in seconds)
    ]
    line = {
        "type": "scatter",
        "mode": "lines",
        "name": "lag of the group",
        "x": list(seconds),
        "y": lag,
        "line": {"color": OK, "width": 2},
        "hovertemplate": "%{y:,d} records",
        "meta": {"group": "lag"},
    }
    return {
        "data": [line],
        "layout": run_layout(run, 260, {}, yaxis={"title": {"text": "records"}, "rangemode": "tozero"}),
    }


def _growths(rows: list[Row], when: str, what: str) -> dict[str, _Growth]:
    ordered = sorted(rows, key=lambda row: (partition_name(row), row[when]))
    found = {}
    for name, of_partition in groupby(ordered, key=partition_name):
        own = list(of_partition)
        found[name] = _Growth([row[when] for row in own], list(accumulate((row[what] for row in own), max)))
    return found
