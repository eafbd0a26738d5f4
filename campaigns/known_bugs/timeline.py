"""The replicas of a partition between the actions of a run, from its events and samples."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from history.events import Event, read_events
from history.folder import RunFolder
from history.manifest import read_manifest
from history.remote import read_parquet
from history.results.known_bugs import Arm, Moment, Timeline
from reports.timeline import SHOWN, in_words

KINDS = {"step", "injected", "healed", "condition_met", "wait_timed_out", "precondition"}
LOOKS = ("wait", "require")  # steps that add nothing to the next event
OLD_NS = 500_000_000  # the broker of an older sample does not answer
SAMPLE = ["broker_id", "topic", "partition", "received_ns", "leader_epoch", "high_watermark", "log_end_offset"]


def timelines(arms: Sequence[Arm], folders: Iterable[Path]) -> list[Timeline]:
    """Return the first run of each bug that found it and still has its folder."""
    by_id, found = {folder.name: folder for folder in folders}, dict[str, Timeline]()
    for arm, run in ((each, run) for each in arms for run in each.runs):
        if run.outcome == "found" and run.run_id in by_id and arm.bug not in found:
            found[arm.bug] = timeline(arm, by_id[run.run_id])
    return list(found.values())


def timeline(arm: Arm, run: Path) -> Timeline:
    """Return the timeline of partition 0 of a run's first topic."""
    folder = RunFolder(run)
    topic = next(iter(read_manifest(folder.manifest).topics))
    moments = list(_moments(folder, topic))
    return Timeline(issue=arm.issue, version=arm.version, run_id=run.name, partition=f"{topic}-0", moments=moments)


def _moments(folder: RunFolder, topic: str) -> Iterator[Moment]:
    """Yield actions and observations, with each replica's state before them."""
    events = list(read_events(folder.events))
    start_ns = next(event.t_ns for event in events if event.kind == "phase_started")
    samples = _samples(folder, topic)
    for event in events:
        if event.kind in KINDS and event.phase and not (event.kind == "step" and event.step in LOOKS):
            replicas = {str(broker): _state(own, event.t_ns) for broker, own in samples.items()}
            yield Moment(s=round((event.t_ns - start_ns) / 1e9, 1), what=_words(event), replicas=replicas)


def _samples(folder: RunFolder, topic: str) -> dict[int, list[dict[str, Any]]]:
    table = read_parquet(folder.table("replicas"), columns=SAMPLE).sort_by("received_ns")
    found: dict[int, list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        if (row["topic"], row["partition"]) == (topic, 0) and row["log_end_offset"] is not None:
            found.setdefault(row["broker_id"], []).append(row)
    return dict(sorted(found.items()))


def _state(samples: Sequence[Mapping[str, Any]], t_ns: int) -> str:
    at = bisect(samples, t_ns, key=lambda row: int(row["received_ns"]))
    if not at or t_ns - samples[at - 1]["received_ns"] > OLD_NS:
        return "silent"
    row = samples[at - 1]
    return f"{row['high_watermark']}/{row['log_end_offset']} e{row['leader_epoch']}"


def _words(event: Event) -> str:
    about = " ".join(filter(None, [SHOWN[event.kind], event.step, event.target]))
    return ": ".join(filter(None, [about, in_words(event)]))
