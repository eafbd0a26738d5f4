"""Reads what the page of one run shows; what is not there is named, never guessed."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from history.events import Event, read_events
from history.folder import RunFolder
from history.manifest import Manifest, read_manifest
from history.remote import parquet_file
from history.tables import JUDGED, OFFSETS

Row = dict[str, Any]

NOT_JUDGED = "This run has not been judged yet, so nothing is said about it."


@dataclass(frozen=True)
class RunData:
    """One run as the page needs it.

    ``tables`` holds the judged tables and ``offsets``; a table that could not be read is not a key of it
    and has a sentence in ``missing``. ``origin_ns`` is the start of the first phase, from which the page
    counts its seconds.
    """

    folder: RunFolder
    manifest: Manifest
    events: list[Event]
    verdict: dict[str, Any]
    tables: dict[str, list[Row]]
    missing: list[str]

    @property
    def origin_ns(self) -> int:
        return next((event.t_ns for event in self.events if event.kind == "phase_started"), self.manifest.started_ns)

    def seconds(self, t_ns: int) -> float:
        """Seconds since the start of the first phase, to the millisecond."""
        return round((t_ns - self.origin_ns) / 1e9, 3)

    def rows(self, table: str) -> list[Row]:
        return self.tables.get(table, [])


def read_run(path: Path) -> RunData:
    """Read a run folder, judged or not.

    Raises:
        EvidenceError: it holds no manifest of this format, so it is no run folder.
    """
    folder = RunFolder(path)
    manifest = read_manifest(folder.manifest)
    missing: list[str] = []
    tables: dict[str, list[Row]] = {}
    # Metrics are for comparisons; the page draws on the tables that they were made of.
    wanted = {name: (folder.judged(name), schema) for name, schema in JUDGED.items() if name != "metrics"}
    for name, (place, schema) in {"offsets": (folder.table("offsets"), OFFSETS), **wanted}.items():
        try:
            tables[name] = _read_table(place, schema)
        except (OSError, pa.ArrowException, KeyError) as error:
            missing.append(f"{place.relative_to(path)}: {_one_line(error)}")
    return RunData(folder, manifest, _read_events(folder, missing), _read_verdict(folder, missing), tables, missing)


def _read_table(place: Path, schema: pa.Schema) -> list[Row]:
    """Rows of all Parquet files in a folder; an empty folder is an empty table only if its writer says it finished."""
    files = sorted(place.glob("*.parquet"))
    if not files and not (place / "_SUCCESS").is_file():
        raise FileNotFoundError("the table was not written")
    rows: list[Row] = []
    for file in files:
        # ParquetFile reads this one file as it is; read_table would look for Hive partitions in its path.
        rows += _columns(parquet_file(file), file.name, schema).to_pylist()
    return [{name: _finite(value) for name, value in row.items()} for row in rows]


def _columns(file: pq.ParquetFile, name: str, schema: pa.Schema) -> pa.Table:
    absent = set(schema.names) - set(file.schema_arrow.names)
    if absent:
        raise KeyError(f"{name} lacks the column {min(absent)}")
    return file.read(columns=schema.names)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _read_events(folder: RunFolder, missing: list[str]) -> list[Event]:
    try:
        return sorted(read_events(folder.events), key=lambda event: event.t_ns)
    except (OSError, ValueError, TypeError) as error:
        missing.append(f"events.jsonl: {_one_line(error)}")
        return []


def _read_verdict(folder: RunFolder, missing: list[str]) -> dict[str, Any]:
    try:
        verdict: dict[str, Any] = json.loads(folder.verdict_file.read_text())
    except FileNotFoundError:
        missing.append("verdict/verdict.json: the run was not judged")
        return {"verdict": "unknown", "sentence": NOT_JUDGED}
    except ValueError as error:
        missing.append(f"verdict/verdict.json: {_one_line(error)}")
        return {"verdict": "unknown", "sentence": "The verdict of this run cannot be read."}
    if verdict.get("verdict") not in {"pass", "fail", "unknown"}:
        missing.append(f"verdict/verdict.json: {verdict.get('verdict')!r} is no verdict")
        verdict["verdict"] = "unknown"
    return verdict


def _one_line(error: Exception) -> str:
    """What went wrong in words, without the machine's paths."""
    if isinstance(error, FileNotFoundError):
        return str(error) if error.filename is None else "the file is missing"
    if isinstance(error, KeyError):
        return str(error.args[0])
    return " ".join(str(error).split())[:200]
