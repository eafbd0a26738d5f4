"""A run's group on its page: lag, rebalances, and a share group's deliveries."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import accumulate, groupby
from operator import add, itemgetter
from typing import NamedTuple

from reports.cells import Column, Table, table
from reports.figures import Figure, scatter
from reports.plots import OK, run_layout
from reports.run_data import SERIES, Row, RunData
from reports.run_tables import partition_name


class Rebalance(NamedTuple):
    """A change of one member's assignment."""

    changed_ns: int
    member: str
    change: str
    partitions: list[str]


class _Growth(NamedTuple):
    """Times of an offset that only grows, with the largest value at each."""

    seen_ns: list[int]
    offset: list[int]

    def at(self, t_ns: int) -> int:
        place = bisect_right(self.seen_ns, t_ns)
        return self.offset[place - 1] if place else 0


def rebalances(run: RunData) -> list[Rebalance]:
    """Return the rebalances in order of time."""

    def moment(row: Row) -> tuple[int, str, str]:
        return row["changed_ns"], row["member"], row["change"]

    in_order = sorted(run.rows("rebalances"), key=lambda row: (*moment(row), row["topic"], row["partition"]))
    return [Rebalance(*of, [partition_name(row) for row in rows]) for of, rows in groupby(in_order, key=moment)]


def rebalance_table(run: RunData) -> Table:
    """Tabulate which partitions each member received or gave up."""
    columns: list[Column[Rebalance]] = [
        Column("time", lambda of: f"{run.seconds(of.changed_ns):,.1f} s", "number"),
        Column("member", lambda of: of.member, "name"),
        Column("change", lambda of: of.change, "name"),
        Column("partitions", lambda of: ", ".join(of.partitions), "text"),
    ]
    return table("Rebalances, as the members' libraries reported them.", columns, rebalances(run))


def lag_figure(run: RunData) -> Figure:
    """Draw the shown partitions' lag behind the high watermarks.

    For a share group: the records that no member has accepted.
    """
    taken = [row for row in run.rows_shown("commits") if row["answered_ns"] is not None and row["error"] is None]
    shown = [row for row in run.rows_shown(SERIES) if row["high_watermark"] is not None]
    committed = _accepted(run) if run.manifest.shares else _growths(taken, "answered_ns", itemgetter("offset"), max)
    watermarks = _growths(shown, "t_ns", itemgetter("high_watermark"), max)
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
    look = {"line": {"color": OK, "width": 2}, "hovertemplate": "%{y:,d} records", "meta": {"group": "lag"}}
    return {
        "data": [scatter("lag of the group", seconds, lag, "lines", **look)],
        "layout": run_layout(run, 260, {}, yaxis={"title": {"text": "records"}, "rangemode": "tozero"}),
    }


def _accepted(run: RunData) -> dict[str, _Growth]:
    taken = [row for row in run.rows_shown("share_acks") if _was_accepted(row)]
    return _growths(taken, "answered_ns", _records, add)


def _was_accepted(row: Row) -> bool:
    return row["kind"] == "accept" and row["answered_ns"] is not None and row["error"] is None


def _records(row: Row) -> int:
    return int(row["last_offset"] - row["first_offset"] + 1)


class Shared(NamedTuple):
    """A member's first and repeated deliveries, and its acknowledgements."""

    member: str
    given: int
    again: int
    accepted: int
    released: int
    refused: int


def shared(run: RunData) -> list[Shared]:
    """Count each member's records."""
    counted: dict[str, Counter[str]] = defaultdict(Counter)
    for row in run.rows("share_reads"):
        counted[row["member"]]["again" if (row["delivery_count"] or 1) > 1 else "given"] += _records(row)
    for row in (row for row in run.rows("share_acks") if row["answered_ns"] is not None):
        kind = "refused" if row["error"] else "accepted" if row["kind"] == "accept" else "released"
        counted[row["member"]][kind] += _records(row)
    return [
        Shared(member, *(counts[name] for name in Shared._fields[1:])) for member, counts in sorted(counted.items())
    ]


def shared_table(run: RunData) -> Table:
    """Tabulate each member's records and acknowledgements."""
    columns: list[Column[Shared]] = [
        Column("member", lambda of: of.member, "name"),
        Column("given first", lambda of: of.given, "number"),
        Column("given again", lambda of: of.again, "number"),
        Column("accepted", lambda of: of.accepted, "number"),
        Column("released", lambda of: of.released, "number"),
        Column("refused", lambda of: of.refused, "number"),
    ]
    return table("Records of each member, and the brokers' answers to what it acknowledged.", columns, shared(run))


def _growths(
    rows: list[Row], when: str, value: Callable[[Row], int], join: Callable[[int, int], int]
) -> dict[str, _Growth]:
    ordered = sorted(rows, key=lambda row: (partition_name(row), row[when]))
    found = {}
    for name, of_partition in groupby(ordered, key=partition_name):
        own = list(of_partition)
        found[name] = _Growth([row[when] for row in own], list(accumulate(map(value, own), join)))
    return found
