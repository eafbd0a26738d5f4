"""A run folder opened: its small files as Python values, and which files of its tables can be read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from history.errors import EvidenceError
from history.events import Event, read_events
from history.folder import RunFolder
from history.manifest import Manifest, read_manifest
from history.partition import TopicPartition
from history.tables import LATER, RECORDED


@dataclass(frozen=True)
class Run:
    """What a run folder holds beside its tables. ``files`` are the readable files of each recorded table; ``problems``
    says of each other file why it cannot be read, in one sentence.
    """

    folder: RunFolder
    manifest: Manifest
    events: list[Event]
    clients: list[dict[str, Any]]
    files: Mapping[str, list[Path]]
    problems: list[str]


def open_folder(folder: RunFolder) -> Run:
    """Read the small files of a run folder, and the schemas of its tables.

    Raises:
        EvidenceError: the manifest, the events or a client's file cannot be read.
    """
    manifest = read_manifest(folder.manifest)
    files, problems = {}, []
    for name, schema in RECORDED.items():
        files[name], unreadable = readable(folder.table(name), schema)
        problems += unreadable
    return Run(folder, manifest, _read_events(folder), _read_clients(folder), files, problems)


def readable(folder: Path, schema: pa.Schema) -> tuple[list[Path], list[str]]:
    """The files of a table that have its schema, and one sentence for each of the others."""
    problems = {file: _problem(file, schema) for file in sorted(folder.glob("*.parquet"))}
    return (
        [file for file, problem in problems.items() if problem is None],
        [problem for problem in problems.values() if problem is not None],
    )


def _problem(file: Path, schema: pa.Schema) -> str | None:
    name = f"{file.parent.name}/{file.name}"
    try:
        found = pq.read_schema(file)
    except (pa.ArrowException, OSError) as error:
        return f"{name} cannot be read as Parquet: {' '.join(str(error).split())[:160].rstrip('.')}."
    types = {field.name: field.type for field in found}
    owed = [field for field in schema if field.name in types or field.name not in LATER]
    wrong = [field.name for field in owed if not _compatible(types.get(field.name), field.type)]
    return f"{name} is no table of this format: column {wrong[0]} is missing or of another type." if wrong else None


def _compatible(found: pa.DataType | None, wanted: pa.DataType) -> bool:
    # A list's element field may be called item or element, as its writer likes.
    if found is not None and pa.types.is_list(wanted):
        return pa.types.is_list(found) and bool(found.value_type == wanted.value_type)
    return bool(found == wanted)


def _read_events(folder: RunFolder) -> list[Event]:
    try:
        return sorted(read_events(folder.events), key=lambda event: event.t_ns)
    except (OSError, ValueError, TypeError) as error:
        raise EvidenceError(f"{folder.events} cannot be read as events: {error}.") from error


def _read_clients(folder: RunFolder) -> list[dict[str, Any]]:
    clients = []
    for file in sorted(folder.clients.glob("*.json")):
        try:
            client = json.loads(file.read_text())
            clients.append({"client_id": file.stem, "role": "", **client})
        except (OSError, ValueError, TypeError) as error:
            raise EvidenceError(f"{file} cannot be read as a client's last words: {error}.") from error
    return clients


def producers(run: Run) -> list[dict[str, Any]]:
    """Each producer and whether it ended cleanly (producer_id, clean); an imported one does by its nature."""
    ended = {client["client_id"]: client.get("clean") is True for client in run.clients}
    return [
        {"producer_id": p.producer_id, "clean": ended.get(p.producer_id, p.engine == "foreign")}
        for p in run.manifest.producers
    ]


def drains(clients: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The furthest complete drain of each partition: (topic, partition, position, end_offset, complete)."""
    best: dict[TopicPartition, dict[str, Any]] = {}
    for client in clients:
        for key, reached in (client.get("partitions") or {}).items() if client["role"] == "drain" else ():
            where = TopicPartition.parse(key)
            row = {
                **where._asdict(),
                "position": reached.get("position"),
                "end_offset": reached.get("end_offset"),
                "complete": reached.get("complete") is True and client.get("clean") is True,
            }
            known = best.get(where)
            if known is None or _reach(row) > _reach(known):
                best[where] = row
    return list(best.values())


def _reach(drain: Mapping[str, Any]) -> tuple[bool, int]:
    return drain["complete"], drain["position"] or 0
