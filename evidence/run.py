"""Open a run folder; read its small files, broker logs and controller history once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from evidence.facts import Drain, Replica, Span
from evidence.faults import FaultSpan, fault_spans, phases
from evidence.profiles import Profile, profile_of
from evidence.reader import problem_of
from evidence.tables import read_table
from expectations.tallies import WHOLE
from history.errors import EvidenceError
from history.events import Event, read_events
from history.folder import RunFolder
from history.manifest import Manifest, read_manifest
from history.partition import TopicPartition
from history.tables import RECORDED
from kafka_files.broker_log import read_broker_logs
from kafka_files.checkpoints import LEADER_EPOCHS, read_epochs
from kafka_files.clock import Clock, read_clock
from kafka_files.metadata_log import read_metadata_log
from kafka_files.segments import segment_files
from kafka_files.states import History, State, by_partition
from kafka_files.znodes import read_znodes

_RETENTION = ("retention.ms", "retention.bytes")


@dataclass(frozen=True)
class Run:
    """A run folder without its tables; ``problems`` has a sentence per unreadable file."""

    folder: RunFolder
    manifest: Manifest
    events: list[Event]
    clients: list[dict[str, Any]]
    files: Mapping[str, list[Path]]
    problems: Mapping[str, list[str]]

    @cached_property
    def profile(self) -> Profile:
        return profile_of(self.manifest)

    @cached_property
    def clock(self) -> Clock:
        return read_clock(self.folder.path / "clock.jsonl")

    @cached_property
    def phases(self) -> list[Span]:
        return phases(self.events)

    @cached_property
    def faults(self) -> list[FaultSpan]:
        return fault_spans(self.events)

    @cached_property
    def history(self) -> History:
        if not self.profile.allows({"history"}):
            return History([])
        read = read_znodes if self.manifest.mode == "zookeeper" else read_metadata_log
        return read(self.folder.brokers, self.clock)

    @cached_property
    def states(self) -> dict[TopicPartition, list[State]]:
        return by_partition([state for state in self.history.states if state.topic in self.manifest.topics])

    @cached_property
    def lines(self) -> list[dict[str, Any]]:
        logged = self.profile.allows({"server logs"})
        return list(read_broker_logs(self.folder.brokers, self.manifest, self.clock)) if logged else []

    @cached_property
    def whole(self) -> dict[str, pa.Table]:
        return {name: read_table(self.files[name], RECORDED[name]) for name in WHOLE}

    @cached_property
    def captures(self) -> list[dict[str, Any]]:
        return [row for row in self.whole["offsets"].to_pylist() if row["error"] is None]

    @cached_property
    def usage(self) -> list[dict[str, Any]]:
        return self.whole["usage"].to_pylist()  # type: ignore[no-any-return]

    @cached_property
    def replicas(self) -> dict[TopicPartition, tuple[Replica, ...]]:
        ends = {(TopicPartition.of(row), row["broker_id"]): row for row in self.captures if row["capture"] == "after"}
        broker_ids = {node.name: node.node_id for node in self.manifest.brokers if node.node_id is not None}
        files: dict[tuple[TopicPartition, int], list[Path]] = {}
        for file in segment_files(self.folder.brokers) if self.profile.allows({"segments"}) else ():
            where, node = TopicPartition.parse(file.parent.name), file.relative_to(self.folder.brokers).parts[0]
            if node in broker_ids:
                files.setdefault((where, broker_ids[node]), []).append(file)
        found: dict[TopicPartition, tuple[Replica, ...]] = {}
        for (where, broker_id), segments in sorted(files.items()):
            end = ends.get((where, broker_id), {})
            replica = Replica(
                broker_id,
                segments,
                read_epochs(segments[0].parent / LEADER_EPOCHS) if where.topic in self.manifest.topics else None,
                self._starts_at(where.topic, end.get("log_start_offset"), segments),
                end.get("high_watermark"),
                end.get("log_end_offset"),
            )
            found[where] = (*found.get(where, ()), replica)
        return found

    def _starts_at(self, topic: str, captured: int | None, segments: Sequence[Path]) -> int | None:
        """Return a log's start: captured, or its first segment after retention."""
        return max(captured or 0, int(segments[0].stem)) if self.expires(topic) else captured

    def expires(self, topic: str) -> bool:
        """Return whether the scenario set a retention; runs are shorter than the default."""
        return any(self.manifest.topic_settings(topic, name, "") - {"", "-1"} for name in _RETENTION)

    @property
    def partitions(self) -> list[TopicPartition]:
        topics = self.manifest.topics.items()
        return [TopicPartition(name, number) for name, topic in topics for number in topic.assignment]

    @property
    def requires_history(self) -> bool:
        named = any(node.role in {"controller", "zookeeper"} for node in self.manifest.nodes)
        return named and self.profile.allows({"history"})

    @property
    def requires_checks(self) -> bool:
        """Return whether an invariant ``WITH_HISTORY`` must be checked."""
        limited = self.profile.only is not None
        return self.profile.allows({"sends"}) if limited else self.requires_history


def open_folder(folder: RunFolder) -> Run:
    """Read a run folder's small files and its tables' schemas.

    Raises: EvidenceError.
    """
    manifest = read_manifest(folder.manifest)
    files, problems = {}, {}
    for name, schema in RECORDED.items():
        files[name], problems[name] = readable(folder.table(name), schema)
    return Run(folder, manifest, _read_events(folder), read_clients(folder), files, problems)


def readable(folder: Path, schema: pa.Schema) -> tuple[list[Path], list[str]]:
    """Return the files that match the schema, and a sentence per other file."""
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


def read_clients(folder: RunFolder) -> list[dict[str, Any]]:
    """Return each client's final report.

    Raises: EvidenceError.
    """
    clients = []
    for file in sorted(folder.clients.glob("*.json")):
        try:
            client = json.loads(file.read_text())
            clients.append({"client_id": file.stem, "role": "", **client})
        except (OSError, ValueError, TypeError) as error:
            raise EvidenceError(f"{file} is not a readable final report of a client: {error}.") from error
    return clients


def producers(run: Run) -> list[dict[str, Any]]:
    """Return producers and whether each ended cleanly."""
    ended = {client["client_id"]: client.get("clean") is True for client in run.clients}
    return [
        {"producer_id": p.producer_id, "clean": ended.get(p.producer_id, p.engine == "foreign")}
        for p in run.manifest.producers
        if p.engine != "copier"  # its input determines its records
    ]


def drains(clients: Iterable[Mapping[str, Any]]) -> dict[TopicPartition, Drain]:
    """Return each partition's furthest drain, complete ones first."""
    best: dict[TopicPartition, Drain] = {}
    for client in clients:
        for key, reached in (client.get("partitions") or {}).items() if client["role"] == "drain" else ():
            where, complete = TopicPartition.parse(key), reached.get("complete") is True and client.get("clean") is True
            drain = Drain(reached.get("position"), reached.get("end_offset"), complete, reached.get("start_offset"))
            if where not in best or _reach(drain) > _reach(best[where]):
                best[where] = drain
    return best


def _reach(drain: Drain) -> tuple[bool, int]:
    return drain.complete, drain.position or 0
