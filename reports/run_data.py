"""The data of one run's page; missing data is reported by name."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from evidence.run import read_clients, readable
from evidence.tables import read_rows, read_rows_of
from history.errors import EvidenceError
from history.events import Event, read_events
from history.folder import RunFolder
from history.manifest import Manifest, read_manifest
from history.partition import TopicPartition
from history.tables import JUDGED, OFFSETS, RECORDED, USAGE
from reports.shown import MOST_SHOWN, first_topic, partitions_of, shown_of

Row = dict[str, Any]

SERIES = "timeline_replicas"
GROUP = ("rebalances", "commits")
SHARE = ("share_reads", "share_acks")
SERVERS = ("broker", "controller", "zookeeper")
READ = ("manifest.json", "events.jsonl", "clients", "offsets", "usage", *GROUP, *SHARE)
NOT_JUDGED = "This run has not been judged yet, so nothing is said about it."


@dataclass(frozen=True)
class RunData:
    """The data of one run's page.

    Unreadable tables have a sentence in ``missing``. ``origin_ns``, the start of the first phase, is second 0. Of very
    many partitions, only those in ``shown`` have figures and rows.
    """

    folder: RunFolder
    manifest: Manifest
    events: list[Event]
    verdict: dict[str, Any]
    tables: dict[str, list[Row]]
    missing: list[str]

    @cached_property
    def clients(self) -> list[dict[str, Any]]:
        try:
            return read_clients(self.folder)
        except EvidenceError:
            return []

    @cached_property
    def server_events(self) -> list[Event]:
        return [
            event
            for event in self.events
            if event.kind == "server_exited"
            or (
                event.kind == "node_started" and event.detail.get("role") in SERVERS and event.detail["incarnation"] > 1
            )
        ]

    @cached_property
    def origin_ns(self) -> int:
        return next((event.t_ns for event in self.events if event.kind == "phase_started"), self.manifest.started_ns)

    @cached_property
    def shown(self) -> frozenset[TopicPartition]:
        return shown_of(self.tables)

    @cached_property
    def first_topic(self) -> str:
        return first_topic(self.tables)

    def place(self, row: Row) -> tuple[bool, str, int]:
        """Sort a partition's row: the first topic first, then by name."""
        return (row["topic"] != self.first_topic, row["topic"], row["partition"])

    @cached_property
    def partitions(self) -> frozenset[TopicPartition]:
        return partitions_of(self.tables)

    @cached_property
    def drawn_s(self) -> tuple[float, float] | None:
        seen = [row["t_ns"] for name in (SERIES, "timeline_isr") for row in self.rows_shown(name)]
        starts = [row["t_ns"] for row in self.rows("timeline_sends")]
        seen += [*starts, *(t_ns + 1_000_000_000 for t_ns in starts)]
        return (self.seconds(min(seen)), self.seconds(max(seen))) if seen else None

    def seconds(self, t_ns: int) -> float:
        return round((t_ns - self.origin_ns) / 1e9, 3)

    def rows(self, table: str) -> list[Row]:
        return self.tables.get(table, [])

    def rows_shown(self, table: str) -> list[Row]:
        """Return the rows of the shown partitions, and those without one."""
        return [row for row in self.rows(table) if row["topic"] is None or TopicPartition.of(row) in self.shown]


def read_run(path: Path) -> RunData:
    """Read a run folder; if a file changed after sealing, the verdict is unknown.

    Raises:
        EvidenceError: the folder has no manifest of this format.
    """
    folder = RunFolder(path)
    manifest = read_manifest(folder.manifest)
    missing: list[str] = []
    tables: dict[str, list[Row]] = {}
    # the page draws the tables of the metrics
    judged = {name: (folder.judged(name), schema) for name, schema in JUDGED.items() if name != "metrics"}
    captured = {} if manifest.watched else {"offsets": (folder.table("offsets"), OFFSETS)}
    wanted = {**captured, **judged}
    if (usage := folder.table("usage")).exists():  # imported histories have no usage
        wanted["usage"] = (usage, USAGE)
    if manifest.group:
        wanted |= {name: (folder.table(name), RECORDED[name]) for name in (SHARE if manifest.shares else GROUP)}
    wanted[SERIES] = wanted.pop(SERIES)  # last: the other tables decide which of its partitions are read
    for name, (place, schema) in wanted.items():
        files, problems = readable(place, schema)
        missing += problems if files or problems else [f"{place.relative_to(path)}: the table was not written"]
        if files and not problems:
            some = name == SERIES and len(partitions_of(tables)) > MOST_SHOWN
            rows = read_rows_of(files, schema, shown_of(tables)) if some else read_rows(files, schema)
            tables[name] = [{column: _finite(value) for column, value in row.items()} for row in rows]
    verdict = _altered(folder) or _read_verdict(folder, missing)
    return RunData(folder, manifest, _read_events(folder, missing), verdict, tables, missing)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _read_events(folder: RunFolder, missing: list[str]) -> list[Event]:
    try:
        return sorted(read_events(folder.events), key=lambda event: event.t_ns)
    except (OSError, EvidenceError) as error:
        missing.append(f"events.jsonl: {_one_line(error)}")
        return []


def _altered(folder: RunFolder) -> dict[str, Any] | None:
    try:
        if folder.is_sealed:
            folder.require_intact(*READ)
    except EvidenceError as error:
        return {"verdict": "unknown", "sentence": str(error)}
    return None


def _read_verdict(folder: RunFolder, missing: list[str]) -> dict[str, Any]:
    try:
        read = json.loads(folder.verdict_file.read_text())
        verdict: dict[str, Any] = read if isinstance(read, dict) else {"verdict": read}
    except FileNotFoundError:
        missing.append("verdict/verdict.json: the run was not judged")
        return {"verdict": "unknown", "sentence": NOT_JUDGED}
    except (ValueError, RecursionError) as error:
        missing.append(f"verdict/verdict.json: {_one_line(error)}")
        return {"verdict": "unknown", "sentence": "The verdict of this run cannot be read."}
    if verdict.get("verdict") not in ("pass", "fail", "unknown"):
        missing.append(f"verdict/verdict.json: {verdict.get('verdict')!r} is no verdict")
        verdict["verdict"] = "unknown"
    return verdict


def _one_line(error: Exception) -> str:
    """Return at most 200 characters, without local paths."""
    if isinstance(error, FileNotFoundError):
        return "the file is missing"
    return " ".join(str(error).split())[:200]
