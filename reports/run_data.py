"""Reads what the page of one run shows; what is not there is named, never guessed."""

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
GROUP = ("rebalances", "commits")  # tables of a run with a consumer group
SHARE = ("share_reads", "share_acks")  # and with a share group
SERVERS = ("broker", "controller", "zookeeper")  # roles of nodes
READ = ("manifest.json", "events.jsonl", "clients", "offsets", "usage", *GROUP, *SHARE)  # of what was recorded
NOT_JUDGED = "This run has not been judged yet, so nothing is said about it."


@dataclass(frozen=True)
class RunData:
    """One run as the page needs it.

    ``tables`` holds the judged tables, ``offsets``, ``usage``, and those of its group where there is one; one that
    could not be read is not a key of it and has a sentence in ``missing``. ``origin_ns`` is the start of the first
    phase, from which the page counts its seconds. Of a run with very many partitions figures and tables show some
    (``shown``), and of the others ``timeline_replicas`` may have no rows here.
    """

    folder: RunFolder
    manifest: Manifest
    events: list[Event]
    verdict: dict[str, Any]
    tables: dict[str, list[Row]]
    missing: list[str]

    @cached_property
    def clients(self) -> list[dict[str, Any]]:
        """What each client said of itself in the end; nothing where that cannot be read."""
        try:
            return read_clients(self.folder)
        except EvidenceError:
            return []

    @cached_property
    def server_events(self) -> list[Event]:
        """The exits of servers, and their starts after the first."""
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
        """The partitions that the page shows one by one."""
        return shown_of(self.tables)

    @cached_property
    def first_topic(self) -> str:
        """The topic that the page shows first."""
        return first_topic(self.tables)

    def place(self, row: Row) -> tuple[bool, str, int]:
        """By which rows of partitions are sorted: the topic with most to tell first, the others by their names."""
        return (row["topic"] != self.first_topic, row["topic"], row["partition"])

    @cached_property
    def partitions(self) -> frozenset[TopicPartition]:
        """All of the run's partitions."""
        return partitions_of(self.tables)

    @cached_property
    def drawn_s(self) -> tuple[float, float] | None:
        """First and last second of the series that are drawn."""
        seen = [row["t_ns"] for name in (SERIES, "timeline_isr") for row in self.rows_shown(name)]
        starts = [row["t_ns"] for row in self.rows("timeline_sends")]
        seen += [*starts, *(t_ns + 1_000_000_000 for t_ns in starts)]
        return (self.seconds(min(seen)), self.seconds(max(seen))) if seen else None

    def seconds(self, t_ns: int) -> float:
        """Seconds since the start of the first phase, to the millisecond."""
        return round((t_ns - self.origin_ns) / 1e9, 3)

    def rows(self, table: str) -> list[Row]:
        return self.tables.get(table, [])

    def rows_shown(self, table: str) -> list[Row]:
        """Rows of the partitions that are shown, and those that are of no partition."""
        return [row for row in self.rows(table) if row["topic"] is None or TopicPartition.of(row) in self.shown]


def read_run(path: Path) -> RunData:
    """Read a run folder, judged or not; one of which something was altered after sealing has the verdict unknown.

    Raises:
        EvidenceError: it holds no manifest of this format, so it is no run folder.
    """
    folder = RunFolder(path)
    manifest = read_manifest(folder.manifest)
    missing: list[str] = []
    tables: dict[str, list[Row]] = {}
    # Metrics are for comparisons; the page draws on the tables that they were made of.
    judged = {name: (folder.judged(name), schema) for name, schema in JUDGED.items() if name != "metrics"}
    wanted = {"offsets": (folder.table("offsets"), OFFSETS), **judged}
    if (usage := folder.table("usage")).exists():  # an imported history has none
        wanted["usage"] = (usage, USAGE)
    if manifest.group:
        wanted |= {name: (folder.table(name), RECORDED[name]) for name in (SHARE if manifest.shares else GROUP)}
    wanted[SERIES] = wanted.pop(SERIES)  # at the end: which of its partitions are read, the others say
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
    """The judge's verdict on a record that is not what was sealed; None where what is read here is."""
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
    """What went wrong in words, without the machine's paths."""
    if isinstance(error, FileNotFoundError):
        return "the file is missing"
    return " ".join(str(error).split())[:200]
