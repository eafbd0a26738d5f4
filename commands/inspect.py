"""A broker's disk, by replica."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from commands.outcome import Outcome, say
from history.exit_codes import FAIL, PASS
from history.words import counted
from kafka_files.inspection import inspect, is_open
from kafka_files.replicas import MOST_ALIKE, Finding, Replica, span

MOST_SHOWN = 20  # per replica


def inspect_logs(paths: Sequence[Path]) -> Outcome:
    """Print each replica once read; fail if there is a problem; raise BadInput for a path without segments."""
    replicas, open_folders = [], set[Path]()
    for replica in inspect(paths):
        folder = replica.folder.parent
        if is_open(folder) and folder not in open_folders:
            open_folders.add(folder)
            say(f"A broker has {folder} open: it may be writing the last batch of each replica.")
        for line in _lines(replica):
            say(line)
        replicas.append(replica)
    problems, notes = (sum(getattr(replica, each) for replica in replicas) for each in ("problems", "notes"))
    facts = {"replicas": [_facts(replica) for replica in replicas], "problems": problems, "notes": notes}
    counts = [(len(replicas), "replica"), (problems, "problem"), (notes, "note")]
    end = f"{', '.join(counted(*each) for each in counts)}."
    return Outcome(FAIL if problems else PASS, ["", end], facts)


def _facts(replica: Replica) -> dict[str, Any]:
    listed = ("epochs", "open_transactions", "findings")
    return {
        **asdict(replica),
        "folder": str(replica.folder),
        **{name: [each._asdict() for each in getattr(replica, name)] for name in listed},
    }


def _lines(replica: Replica) -> Iterator[str]:
    offsets = "empty"
    if replica.first_offset is not None and replica.end_offset is not None:
        offsets = span(replica.first_offset, replica.end_offset - 1)
    counts = [counted(replica.segments, "segment"), counted(replica.size_bytes, "byte")]
    counts += [counted(replica.batches, "batch", "batches"), counted(replica.records, "record")]
    yield f"{replica.folder.name}: {', '.join(counts)}, {offsets}"
    for title, text in _details(replica):
        yield f"  {title:<15}{text}"
    yield from _findings(replica)


def _findings(replica: Replica) -> Iterator[str]:
    shown: Counter[str] = Counter()
    for finding in replica.findings:
        shown[finding.kind] += 1
        if shown[finding.kind] <= MOST_ALIKE:
            yield f"  {'PROBLEM' if finding.is_problem else 'note':<15}{_place(finding)}: {finding.text}"
        elif shown[finding.kind] == MOST_ALIKE + 1:
            yield f"  {'':<15}and {replica.kinds[finding.kind] - MOST_ALIKE:,} more of this kind"


def _details(replica: Replica) -> Iterator[tuple[str, str]]:
    if replica.epochs:
        shown = [f"{each.epoch} from {each.first_offset:,}" for each in replica.epochs[-MOST_SHOWN:]]
        yield "leader epochs", ", ".join([*(["…"] if len(replica.epochs) > MOST_SHOWN else []), *shown])
    if replica.checkpoints:
        yield "checkpoints", ", ".join(f"{name} {offset:,}" for name, offset in replica.checkpoints.items())
    if set(replica.formats) - {2}:
        formats = [f"{count:,} in format {magic}" for magic, count in sorted(replica.formats.items())]
        old = "; the records of formats 0 and 1 are counted, not read" if {0, 1} & set(replica.formats) else ""
        yield "formats", f"{', '.join(formats)}{old}"
    if replica.commits or replica.aborts or replica.open_transactions:
        open_now = [f"producer id {each.producer_id} from {each.first_offset:,}" for each in replica.open_transactions]
        shown = [
            *open_now[:MOST_SHOWN],
            *([f"{len(open_now) - MOST_SHOWN:,} more"] if len(open_now) > MOST_SHOWN else []),
        ]
        ended = f"{counted(replica.commits, 'commit marker')}, {counted(replica.aborts, 'abort marker')}"
        yield "transactions", f"{ended}, open: {'; '.join(shown) or 'none'}"


def _place(finding: Finding) -> str:
    at = [finding.file]
    if finding.position is not None:
        at.append(f"byte {finding.position:,}")
        if finding.offset is not None:
            at.append(f"offset {finding.offset:,}")
    return ", ".join(at)
