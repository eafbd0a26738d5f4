"""A run folder opened: its small files as Python values, and which files of its tables can be read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from history.errors import EvidenceError
from history.events import Event, read_events
from history.folder import RunFolder
from history.manifest import Manifest, read_manifest
from history.partition import TopicPartition
from history.tables import RECORDED
from spark.evidence.partition import Drain
from spark.evidence.reader import problem_of


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
    problems = {file: problem_of(file, schema) for file in sorted(folder.glob("*.parquet"))}
    return (
        [file for file, problem in problems.items() if problem is None],
        [problem for problem in problems.values() if problem is not None],
    )


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


def drains(clients: Iterable[Mapping[str, Any]]) -> dict[TopicPartition, Drain]:
    """The furthest complete drain of each partition."""
    best: dict[TopicPartition, Drain] = {}
    for client in clients:
        for key, reached in (client.get("partitions") or {}).items() if client["role"] == "drain" else ():
            where, complete = TopicPartition.parse(key), reached.get("complete") is True and client.get("clean") is True
            drain = Drain(reached.get("position"), reached.get("end_offset"), complete)
            if where not in best or _reach(drain) > _reach(best[where]):
                best[where] = drain
    return best


def _reach(drain: Drain) -> tuple[bool, int]:
    return drain.complete, drain.position or 0
