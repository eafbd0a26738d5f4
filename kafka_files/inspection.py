"""Inspect a replica's files, given only a broker's disk, in bounded memory.

Only batch headers and CRCs are checked; records are not decoded. A finding is a problem if a healthy broker never
leaves it, else a note: compaction leaves gaps, and a broker truncates a torn tail when it restarts.
"""

from __future__ import annotations

import fcntl
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from history.errors import BadInput
from history.partition import TopicPartition
from kafka_files import checkpoints, message_sets
from kafka_files.batches import (
    CONTROL,
    TRANSACTIONAL,
    Data,
    Headers,
    Problem,
    header_slices,
    last_offsets,
    mapped,
    problem_text,
)
from kafka_files.records import marker

MOST_FINDINGS = 1000  # kept per replica; all are counted
CHECKPOINTS = {
    checkpoints.HIGH_WATERMARKS: "high watermark",
    checkpoints.RECOVERY_POINTS: "recovery point",
    checkpoints.LOG_STARTS: "log start",
}
_SEGMENT = re.compile(r"\d{20}\.log")


class Finding(NamedTuple):
    """A problem or note about a file; ``position`` is a byte offset. Numbers are None if not applicable."""

    file: str
    position: int | None
    offset: int | None
    text: str
    is_problem: bool


class EpochRange(NamedTuple):
    """The offsets of one leader epoch in a log."""

    epoch: int
    first_offset: int
    last_offset: int


class OpenTransaction(NamedTuple):
    """A transaction without an end marker: producer id and first offset."""

    producer_id: int
    first_offset: int


@dataclass
class Replica:
    """The contents of a segment folder; ``end_offset`` is the log end offset. Offsets are None in an empty log."""

    folder: Path
    segments: int = 0
    size_bytes: int = 0
    batches: int = 0
    records: int = 0
    first_offset: int | None = None
    end_offset: int | None = None
    formats: dict[int, int] = field(default_factory=dict)  # message format → batches
    epochs: list[EpochRange] = field(default_factory=list)
    commits: int = 0
    aborts: int = 0
    open_transactions: list[OpenTransaction] = field(default_factory=list)
    checkpoints: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    problems: int = 0
    notes: int = 0

    def found(self, finding: Finding) -> None:
        self.problems += finding.is_problem
        self.notes += not finding.is_problem
        if len(self.findings) < MOST_FINDINGS:
            self.findings.append(finding)


def inspect(paths: Sequence[Path]) -> Iterator[Replica]:
    """Yield each replica of log directories, replica folders or single segments.

    Raises:
        BadInput: a path has no segment, or is unreadable.
    """
    offsets_in = cache(checkpoints.read_offsets)
    for segments in [each for path in paths for each in _replicas(path)]:
        replica = Replica(segments[0].parent)
        reading = _Reading(replica)
        for file in segments:
            reading.segment(file, is_last=file == segments[-1])
        reading.end()
        if not any(path in segments for path in paths):  # checkpoints describe the whole log
            _compare_epochs(replica, checkpoints.read_epochs(replica.folder / checkpoints.LEADER_EPOCHS) or [])
            _compare_offsets(replica, {each: offsets_in(replica.folder.parent / each) or {} for each in CHECKPOINTS})
        yield replica


def is_open(folder: Path) -> bool:
    """Return whether a running broker holds a log directory's lock."""
    try:
        with (folder / ".lock").open("rb") as lock:
            fcntl.lockf(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no lock, or no read permission
        return False
    return False


def _replicas(path: Path) -> list[list[Path]]:
    """Return the segments below a path, by folder."""
    if not path.exists():
        raise BadInput(f"{path} does not exist; name a log directory, a replica's folder, or a segment.")
    if path.is_file():
        if not _SEGMENT.fullmatch(path.name):
            raise BadInput(f"{path} is no segment: a segment's name is its first offset in 20 digits and .log.")
        return [[path]]
    found: dict[Path, list[Path]] = {}
    for file in sorted(file for file in path.rglob("*.log") if _SEGMENT.fullmatch(file.name)):
        found.setdefault(file.parent, []).append(file)
    if not found:
        raise BadInput(f"{path} holds no segment (such as orders-0/00000000000000000000.log).")
    return list(found.values())


class _Reading:
    """State carried between the batches of a log."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._open: dict[int, int] = {}  # producer id → first offset
        self._file = ""
        self._after_damage = False  # the previous batch is unreadable, including its last offset
        # A running broker may truncate a mapped file, which would crash this process: copy its segments.
        self._is_live = is_open(replica.folder.parent)

    def segment(self, file: Path, *, is_last: bool) -> None:
        replica, self._file = self._replica, file.name
        before = replica.batches
        with nullcontext(file.read_bytes()) if self._is_live else mapped(file) as data:
            replica.segments, replica.size_bytes = replica.segments + 1, replica.size_bytes + len(data)
            for headers in header_slices(data):
                is_torn = headers["problem"] == Problem.TORN_TAIL
                if not is_torn[0]:
                    if replica.batches == before:
                        self._begins(int(file.stem), headers[0])
                    self._batches(data, headers[~is_torn])
                if is_torn[-1]:
                    self._torn(data, headers[-1], is_last=is_last)

    def end(self) -> None:
        self._replica.open_transactions = sorted(OpenTransaction(*each) for each in self._open.items())

    def _begins(self, named: int, first: np.void) -> None:
        if first["base_offset"] < named:
            self._note(first, f"the segment's name promises offsets from {named:,} on", is_problem=True)

    def _torn(self, data: Data, tail: np.void, *, is_last: bool) -> None:
        start, size = int(tail["position"]), int(tail["size"])
        if not any(data[start : start + min(size, 1 << 16)]):
            text, is_problem = f"the last {size:,} bytes are zeros, as of a preallocated segment", False
        else:
            text, is_problem = f"torn tail: the last {size:,} bytes are no whole batch", not is_last
        if not is_last:
            text, is_problem = f"{text}, and another segment follows", True
        self._replica.found(Finding(self._file, start, self._replica.end_offset, text, is_problem))

    def _batches(self, data: Data, headers: Headers) -> None:
        replica = self._replica
        replica.batches += len(headers)
        for magic, count in zip(*np.unique(headers["magic"], return_counts=True), strict=True):
            replica.formats[int(magic)] = replica.formats.get(int(magic), 0) + int(count)
        old = np.isin(headers["magic"], message_sets.FORMATS)
        is_read = (headers["problem"] == 0) | (old & (headers["problem"] == Problem.MAGIC))
        holds_records = is_read & (headers["record_count"] > 0) & (old | (headers["attributes"] & CONTROL == 0))
        replica.records += int(headers["record_count"][holds_records].sum(dtype=np.int64))
        for header in headers[~is_read]:
            self._note(header, problem_text(header) or "", is_problem=True)
        for header in headers[old & (headers["record_count"] == message_sets.NOT_COUNTED)]:
            self._note(header, "the messages wrapped here cannot be decompressed, so they are not counted")
        self._order(headers, is_read)
        self._epochs(headers[is_read & ~old])
        of_transactions = is_read & ~old & (headers["attributes"] & (TRANSACTIONAL | CONTROL) != 0)
        for row in np.flatnonzero(of_transactions).tolist():
            self._transaction(data, headers[row])

    def _order(self, headers: Headers, is_read: npt.NDArray[np.bool_]) -> None:
        """Note gaps and backward offsets, ignoring the offsets of damaged batches."""
        replica, first = self._replica, headers["base_offset"]
        if replica.end_offset is None:
            replica.first_offset = replica.end_offset = int(first[0])
        ends = np.where(is_read, last_offsets(headers) + 1, replica.end_offset)
        ends = np.maximum.accumulate(np.concatenate([[replica.end_offset], ends]))
        follows = np.concatenate([[not self._after_damage], is_read[:-1]])
        for row in np.flatnonzero(is_read & (first != ends[:-1]) & (follows | (first < ends[:-1]))).tolist():
            expected = int(ends[row])
            if first[row] > expected:
                self._note(headers[row], f"gap: offsets {expected:,} to {int(first[row]) - 1:,} are not there")
            else:
                self._note(headers[row], f"offsets go back: the log reached {expected - 1:,} before", is_problem=True)
        replica.end_offset, self._after_damage = int(ends[-1]), not is_read[-1]

    def _epochs(self, of_epoch: Headers) -> None:
        if not len(of_epoch):
            return
        epochs, known = of_epoch["leader_epoch"], self._replica.epochs
        changes = np.flatnonzero(np.diff(epochs)) + 1
        for rows in np.split(np.arange(len(of_epoch)), changes):
            first, last = of_epoch[rows[0]], of_epoch[rows[-1]]
            epoch, last_offset = int(first["leader_epoch"]), int(last["base_offset"] + last["last_offset_delta"])
            if known and epoch == known[-1].epoch:
                known[-1] = known[-1]._replace(last_offset=last_offset)
                continue
            if known and epoch < known[-1].epoch:
                self._note(first, f"leader epoch falls from {known[-1].epoch} to {epoch}", is_problem=True)
            known.append(EpochRange(epoch, int(first["base_offset"]), last_offset))

    def _transaction(self, data: Data, header: np.void) -> None:
        producer = int(header["producer_id"])
        if not header["attributes"] & CONTROL:
            self._open.setdefault(producer, int(header["base_offset"]))
            return
        ended = marker(data, header)
        if ended in {"commit", "abort"}:
            self._replica.commits += ended == "commit"
            self._replica.aborts += ended == "abort"
            self._open.pop(producer, None)

    def _note(self, header: np.void, text: str, *, is_problem: bool = False) -> None:
        position, offset = int(header["position"]), int(header["base_offset"])
        self._replica.found(Finding(self._file, position, offset, text, is_problem))


def _compare_epochs(replica: Replica, entries: Sequence[checkpoints.EpochStart]) -> None:
    """Compare the batches' epochs with the leader-epoch-checkpoint, which followers use for truncation (KIP-101).

    Retention and DeleteRecords remove entries before batches, so only offsets from the first entry on are compared.
    """

    def found(text: str) -> None:
        replica.found(Finding(checkpoints.LEADER_EPOCHS, None, None, text, is_problem=True))

    for before, after in pairwise(entries):
        if after.epoch <= before.epoch or after.start <= before.start:
            found(f"epoch {after.epoch} from {after.start:,} follows epoch {before.epoch} from {before.start:,}")
    start_of = dict(entries)
    covered_from = entries[0].start if entries else replica.end_offset or 0
    for epoch, first, last in [each for each in replica.epochs if each.first_offset >= covered_from]:
        later = min((entry.start for entry in entries if entry.epoch > epoch), default=last + 1)
        if epoch not in start_of:
            found(f"epoch {epoch} of offsets {first:,} to {last:,} has no entry")
        elif start_of[epoch] > first or later <= last:
            until = f", and a later one from {later:,}" if later <= last else ""
            found(f"epoch {epoch} begins at {start_of[epoch]:,}{until}; its batches have offsets {first:,} to {last:,}")


def _compare_offsets(replica: Replica, told: Mapping[str, Mapping[TopicPartition, int]]) -> None:
    """Compare the log end offset with the log directory's offset checkpoints."""
    name = replica.folder.name
    if not re.fullmatch(r"[\w.-]+-\d+", name):
        return  # a replica being moved between directories, or deleted
    for file, of_partition in told.items():
        offset = of_partition.get(TopicPartition.parse(name))
        if offset is None:
            continue
        replica.checkpoints[CHECKPOINTS[file]] = offset
        if replica.end_offset is not None and offset > replica.end_offset:
            text = f"the {CHECKPOINTS[file]} of {name} is {offset:,}, beyond the log end offset {replica.end_offset:,}"
            replica.found(Finding(file, None, offset, text, is_problem=True))
