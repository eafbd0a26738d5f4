"""Delete each piece of evidence of a recorded run in turn and judge the rest.

Pieces are each table's rows by partition and recorder or replica, each file and folder, each client's summary of a
partition, each broker's lines on one.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from evidence.facts import PartitionFacts
from evidence.run import open_folder
from history.errors import EvidenceError
from history.folder import RunFolder
from history.partition import TopicPartition
from history.tables import RECORDED
from judge.checks import anomalies, invariants
from judge.partition import Answer
from judge.run import judge_run, one_by_one
from judge.verdict.decided import decided
from kafka_files.checkpoints import LEADER_EPOCHS
from kafka_files.metadata_log import FOLDER

COUNTED = {"sends": "rows", "polls": "rows", "seeks": "seeks", "replicas": "rows", "isr": "isr_rows"}
OF_PROBER = ("replicas", "isr")  # the first column is not the recording client
Violation = tuple[str, TopicPartition]


class Deletion(NamedTuple):
    """Evidence to delete, with its source (None: not declared by any check) and partition (None: any).

    ``uncounted``: the deletion also lowers the recording client's count.
    """

    words: str
    source: str | None
    where: TopicPartition | None
    delete: Callable[[RunFolder], None]
    uncounted: bool = False


# --- what can be deleted -------------------------------------------------------------------------


def deletions(folder: RunFolder) -> Iterator[Deletion]:
    """Yield every deletion from a run folder."""
    for name in RECORDED:
        yield from _of_table(folder, name)
    for file in sorted(_files(folder)):
        yield _of_path(folder, file)
        yield from _of_partitions(folder, file)


def _of_table(folder: RunFolder, name: str) -> Iterator[Deletion]:
    files = sorted(folder.table(name).glob("*.parquet"))
    rows = pa.concat_tables([pq.read_table(file) for file in files]) if files else RECORDED[name].empty_table()
    if not rows.num_rows:
        return
    keys = (
        [["topic", "partition"], *([owner] for owner in _owners(RECORDED[name]))]
        if "topic" in rows.schema.names
        else []
    )
    for count in range(len(keys) + 1):
        for chosen in combinations(keys, count):
            columns = [column for key in chosen for column in key]
            distinct = rows.select(columns).group_by(columns).aggregate([]).to_pylist() if columns else [{}]
            for values in distinct:
                where = TopicPartition.of(values) if "topic" in values else None
                words = f"{name}: {', '.join(f'{column} {value}' for column, value in values.items()) or 'all rows'}"
                yield Deletion(words, name, where, partial(_without_rows, name, values))
                if name in OF_PROBER:
                    without = partial(_without_rows, name, values, uncounted=True)
                    yield Deletion(f"{words}, uncounted", name, where, without, uncounted=True)


def _owners(schema: pa.Schema) -> list[str]:
    of = (schema.field(name) for name in schema.names[: schema.names.index("topic")])
    return [field.name for field in of if not field.nullable and field.type in {pa.string(), pa.int32()}]


def _files(folder: RunFolder) -> Iterator[Path]:
    left_out = {*RECORDED, "verdict", "report", "sealed.json", "manifest.json", "stages.jsonl"}
    for path in folder.path.rglob("*"):
        parts = path.relative_to(folder.path).parts
        if parts[0] not in left_out and path.suffix not in {".index", ".timeindex", ".txnindex", ".snapshot"}:
            yield path


def _of_path(folder: RunFolder, path: Path) -> Deletion:
    name = str(path.relative_to(folder.path))
    return Deletion(name, _source(path), _partition(path), partial(_without_path, name))


def _source(path: Path) -> str | None:
    """Return "" for several sources."""
    if path.is_dir():
        return "history" if path.name == FOLDER else "segments" if _partition(path) else ""
    by_name = {LEADER_EPOCHS: "epoch files", "server.log": "server logs", "clock.jsonl": "dates", "events.jsonl": ""}
    if path.parent.name == FOLDER:
        return "history" if path.suffix in {".log", ".checkpoint"} else None
    if path.suffix == ".log" and _partition(path):
        return "segments"
    if path.parent.name == "clients":
        return ""
    return by_name.get(path.name)


def _partition(path: Path) -> TopicPartition | None:
    for part in (path, path.parent):
        topic, dash, number = part.name.rpartition("-")
        if dash and number.isdigit() and not topic.startswith("__") and part.parent.name != "brokers":
            return TopicPartition(topic, int(number))
    return None


def _of_partitions(folder: RunFolder, file: Path) -> Iterator[Deletion]:
    name, assigned = str(file.relative_to(folder.path)), open_folder(folder).partitions
    if file.parent.name == "clients" and file.suffix == ".json":
        words = json.loads(file.read_text())
        keys = [(key, where) for key, held in words.items() if isinstance(held, dict) for where in held]
        for key, where in keys:
            yield Deletion(f"{name}: {key} of {where}", "", None, partial(_without_words, name, key, where))
    elif file.name == "server.log":
        for where in assigned:
            yield Deletion(f"{name}: lines on {where}", "server logs", where, partial(_without_lines, name, str(where)))


def _without_rows(name: str, values: dict[str, object], folder: RunFolder, *, uncounted: bool = False) -> None:
    gone = 0
    for file in sorted(folder.table(name).glob("*.parquet")):
        rows = pq.read_table(file)
        own = pa.array([True] * rows.num_rows)
        for column, value in values.items():
            own = pc.and_(own, pc.equal(rows[column].cast(RECORDED[name].field(column).type), value))
        kept = rows.filter(pc.invert(own))
        if kept.num_rows < rows.num_rows:
            gone += rows.num_rows - kept.num_rows
            file.unlink()
            if kept.num_rows:
                pq.write_table(kept, file)
    if uncounted:
        _count_less(folder, COUNTED[name], gone)


def _count_less(folder: RunFolder, what: str, gone: int) -> None:
    for file in folder.clients.glob("*.json"):
        words = json.loads(file.read_text())
        if words.get("role") == "prober":
            _write(file, json.dumps(words | {what: words[what] - gone}))


def _without_path(name: str, folder: RunFolder) -> None:
    path = folder.path / name
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def _without_words(name: str, key: str, where: str, folder: RunFolder) -> None:
    words = json.loads((folder.path / name).read_text())
    del words[key][where]
    _write(folder.path / name, json.dumps(words))


def _without_lines(name: str, where: str, folder: RunFolder) -> None:
    lines = (folder.path / name).read_text().splitlines(keepends=True)
    _write(folder.path / name, "".join(line for line in lines if where not in line))


def _write(file: Path, text: str) -> None:
    file.unlink()
    file.write_text(text)


# --- judging -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judgement:
    """A verdict, proven violations, each required invariant's checks by partition, and reasons for unknown."""

    verdict: str
    violations: frozenset[Violation]
    checked: dict[Violation, int]
    reasons: Sequence[str]


def judgement(folder: RunFolder) -> Judgement:
    """Judge a folder in this process."""
    answers: list[Answer] = []

    def spread(judge: Callable[[PartitionFacts], Any], partitions: Sequence[PartitionFacts]) -> list[Any]:
        found = one_by_one(judge, partitions)
        answers[:] = [each for each in found if isinstance(each, Answer)]
        return found

    try:
        run = open_folder(folder)
        judged = judge_run(run, spread)
    except EvidenceError as error:
        return Judgement("unknown", frozenset(), {}, [str(error)])
    failed = _failed(judged.tables)
    reasons = [why for _, why in [*judged.items, *decided(run.manifest, judged.tables)] if why]
    checked = {
        (name, answer.where): tally.checked
        for answer in answers
        for name, tally in answer.findings.tallies.items()
        if tally.checked and invariants.INVARIANTS[name].required is not invariants.Required.NEVER
    }
    violated = {
        (name, answer.where)
        for answer in answers
        for name in [
            *(name for name, tally in answer.findings.tallies.items() if tally.violations),
            *(kind.anomaly for kind in answer.findings.counts if kind.allowed is False),
        ]
        if name in failed and judged.gaps.of(_declared(name).whole, answer.where) is None
    }
    verdict = "fail" if failed else "unknown" if reasons else "pass"
    return Judgement(verdict, frozenset(violated), checked, reasons)


def _failed(tables: Mapping[str, pa.Table]) -> set[str]:
    rows, counted = (tables[name].to_pylist() for name in ("invariants", "anomaly_counts"))
    failed = {row["invariant"] for row in rows if row["verdict"] == "fail" and row["severity"] == "S1"}
    return failed | {row["anomaly"] for row in counted if row["allowed"] is False and row["severity"] == "S1"}


def _declared(check: str) -> invariants.Invariant | anomalies.Needs:
    return invariants.INVARIANTS.get(check) or anomalies.NEEDS[check]


@dataclass(frozen=True)
class Absence:
    """A recorded folder, and copies with one piece of evidence deleted."""

    folder: RunFolder
    scratch: Path

    @cached_property
    def whole(self) -> Judgement:
        return judgement(self.folder)

    def without(self, deletion: Deletion) -> Judgement:
        copy = self.scratch / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(
            self.folder.path, copy, copy_function=os.link, ignore=shutil.ignore_patterns("verdict", "report")
        )
        deletion.delete(RunFolder(copy))
        return judgement(RunFolder(copy))

    def wrong(self, deletion: Deletion, found: Judgement) -> list[str]:
        """Return the errors of a judgement after a deletion, as sentences."""
        return [*self._false_pass(found), *self._false_fail(found), *self._false_unknown(deletion, found)]

    def _false_pass(self, found: Judgement) -> Iterator[str]:
        if found.verdict == "pass":
            if self.whole.verdict != "pass":
                yield f"{self.whole.verdict} became pass"
            for name, where in sorted(self.whole.checked.keys() - found.checked.keys()):
                yield f"pass, and {name} was not checked on {where}"

    def _false_fail(self, found: Judgement) -> Iterator[str]:
        for name, where in sorted(found.violations - self.whole.violations):
            yield f"{name} is violated on {where} for want of evidence"

    def _false_unknown(self, deletion: Deletion, found: Judgement) -> Iterator[str]:
        if self.whole.verdict == "fail" and found.verdict == "unknown" and not found.reasons:
            yield "unknown without a reason"
        counted = deletion.source in COUNTED and not deletion.uncounted  # over all partitions
        for name, where in sorted(self.whole.violations - found.violations):
            elsewhere = deletion.where is not None and deletion.where != where and not counted
            untouched = deletion.source is None or (
                deletion.source != "" and deletion.source not in _declared(name).reads
            )
            if elsewhere or untouched:
                yield f"{name} is no longer violated on {where}, which does not rest on this"
