"""Wait until every reader has read to the end, and record their positions."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from clusters.clients.nodes import CONSUMER, DRAIN, member_names, summary_of
from clusters.live.world import World
from clusters.scenario.durations import catch_up_s
from clusters.scenario.groups import Group
from clusters.waiting import wait_until
from history.errors import WaitTimeout
from history.partition import TopicPartition
from history.readers import CATCH_UP
from history.tables import POSITIONS
from history.words import some_of

Positions = Mapping[str, int | None]  # None: nothing fetched yet
REPORT_S = 2.0  # readers report once per second
PROGRESS_LIMIT_S = 45.0


def catch_up(world: World) -> None:
    """Wait for all readers after the final drain, and write ``positions``.

    The wait ends early if no reader moves.
    """
    ends = drained_to(world)
    if not ends or not _running(world):
        return
    started, still_ns = time.monotonic(), [time.monotonic_ns()]
    last: list[dict[str, Any]] = [_reports(world)]
    patience_s = catch_up_s(world.scenario) + REPORT_S

    def is_over() -> bool:
        reports = _reports(world)
        if _positions(reports) != _positions(last[0]) or None in _positions(reports).values():
            still_ns[0] = time.monotonic_ns()
        last[0] = reports
        return not _behind(world, reports, ends) or time.monotonic_ns() - still_ns[0] >= patience_s * 1e9

    condition = "every reader to be at the end"
    with suppress(WaitTimeout):
        wait_until(is_over, limit_s=patience_s + PROGRESS_LIMIT_S, every_s=0.25, what=condition)
    _write(world, last[0])
    behind = _behind(world, last[0], ends)
    world.events.add(
        "wait_timed_out" if behind else "step",
        step=CATCH_UP,
        condition=condition,
        waited_ms=round((time.monotonic() - started) * 1000),
        last_seen=some_of(behind) if behind else None,
        still_since_ns=still_ns[0],
        told={name: report["t_ns"] for name, report in last[0].items() if "positions" in report},
    )


def drained_to(world: World) -> dict[str, int]:
    """Return the drain's end offset of each completely read partition."""
    drained: dict[str, Any] = summary_of(world, DRAIN).get("partitions", {})
    return {where: reached["end_offset"] for where, reached in drained.items() if reached["complete"]}


def _running(world: World) -> list[str]:
    members = member_names(world) if isinstance(world.scenario.group, Group) else []
    return [name for name in (CONSUMER, *members) if world.runtime.state(name) == "running"]


def _reports(world: World) -> dict[str, Any]:
    """Return running readers' last reports; a busy one lacks ``positions``."""
    summaries = (summary_of(world, name) for name in _running(world))
    return {each["client_id"]: each["so_far"] for each in summaries if "so_far" in each}


def _positions(reports: Mapping[str, Any]) -> dict[str, Positions | None]:
    return {reader: report.get("positions") for reader, report in reports.items()}


def _behind(world: World, reports: Mapping[str, Any], ends: Mapping[str, int]) -> list[str]:
    positions = {reader: found or {} for reader, found in _positions(reports).items()}
    return [*_short(positions, ends), *_unassigned(world, positions, ends)]


def _short(positions: Mapping[str, Positions], ends: Mapping[str, int]) -> Iterator[str]:
    for reader, own in positions.items():
        for where in ends if reader == CONSUMER else own.keys() & ends.keys():
            position = own.get(where)
            if position is None or position < ends[where]:
                yield f"{reader} at {position} of {ends[where]} in {where}"


def _unassigned(world: World, positions: Mapping[str, Positions], ends: Mapping[str, int]) -> Iterator[str]:
    members = {reader: own for reader, own in positions.items() if reader != CONSUMER}
    load = world.scenario.grouped
    if load is None or not members:
        return
    owned = {where for own in members.values() for where in own}
    for where in ends:
        if TopicPartition.parse(where).topic == load.topic and where not in owned:
            yield f"no member has {where}"


def _write(world: World, reports: Mapping[str, Any]) -> None:
    rows = [
        {"reader": reader, **TopicPartition.parse(where)._asdict(), "position": position, "told_ns": report["t_ns"]}
        for reader, report in reports.items()
        for where, position in report.get("positions", {}).items()
    ]
    rows.sort(key=lambda row: (row["topic"], row["partition"], row["reader"]))
    folder = world.folder.table("positions")
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, POSITIONS), folder / "positions.parquet")
