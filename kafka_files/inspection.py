"""Inspect a replica's files on a broker's disk, in bounded memory.

Records and indexes' contents are not examined. A problem is what a healthy broker never leaves: compaction leaves gaps,
and a restart truncates a torn tail.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import cached_property
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
    last_offsets,
    mapped,
    problem_text,
)
from kafka_files.batches import headers as read_headers
from kafka_files.damage import is_cut_batch, next_batch, only_zeros
from kafka_files.offset_order import misfits
from kafka_files.records import marker

MOST_FINDINGS = 1000  # per replica; all are counted
MOST_ALIKE = 10  # per kind
CHECKPOINTS = {
    checkpoints.HIGH_WATERMARKS: "high watermark",
    checkpoints.RECOVERY_POINTS: "recovery point",
    checkpoints.LOG_STARTS: "log start",
}
_SEGMENT = re.compile(r"\d{20}\.log")
_INDEXES = (".index", ".timeindex")


class Finding(NamedTuple):
    """A problem or note about a file."""

    file: str
    position: int | None
    offset: int | None
    text: str
    is_problem: bool

    @property
    def kind(self) -> str:
        """The text without numbers and quoted lines."""
        plain = re.sub(r'".*"|\d[\d,]*', "N", self.text)
        return re.sub(r"\boffsets N to N( are)?\b", lambda found: "offset N is" if found[1] else "offset N", plain)


class EpochRange(NamedTuple):
    """One leader epoch's offsets."""

    epoch: int
    first_offset: int
    last_offset: int


class OpenTransaction(NamedTuple):
    """A transaction without end marker."""

    producer_id: int
    first_offset: int


@dataclass
class Replica:
    """What a segment folder holds."""

    folder: Path
    segments: int = 0
    size_bytes: int = 0
    batches: int = 0
    records: int = 0
    first_offset: int | None = None
    end_offset: int | None = None
    formats: dict[int, int] = field(default_factory=dict)  # format → batches
    epochs: list[EpochRange] = field(default_factory=list)
    commits: int = 0
    aborts: int = 0
    open_transactions: list[OpenTransaction] = field(default_factory=list)
    checkpoints: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    kinds: dict[str, int] = field(default_factory=dict)
    problems: int = 0
    notes: int = 0

    def found(self, finding: Finding) -> None:
        self.problems += finding.is_problem
        self.notes += not finding.is_problem
        alike = self.kinds[finding.kind] = self.kinds.get(finding.kind, 0) + 1
        if alike <= MOST_ALIKE or len(self.findings) < MOST_FINDINGS:
            self.findings.append(finding)

    def about_file(self, file: str, text: str, *, is_problem: bool = True) -> None:
        self.found(Finding(file, None, None, text, is_problem))


def inspect(paths: Sequence[Path]) -> Iterator[Replica]:
    """Yield the replicas of log directories, replica folders or segments.

    Raises: BadInput: a path has no segment, or is unreadable.
    """
    log_dirs: dict[Path, _LogDir] = {}
    for folder, files in [each for path in paths for each in _replicas(path)]:
        replica = Replica(folder)
        log_dir = log_dirs.setdefault(folder.parent, _LogDir(folder.parent))
        if isinstance(files, OSError):
            replica.about_file(folder.name, checkpoints.cannot_be_read(files))
        else:
            _read(replica, files, log_dir, is_whole=not any(path in files for path in paths))
        yield replica


def is_open(folder: Path) -> bool:
    """Return whether a running broker holds the lock."""
    try:
        with (folder / ".lock").open("rb") as lock:
            fcntl.lockf(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


class _LogDir:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._is_checked = False

    @cached_property
    def is_open(self) -> bool:
        return is_open(self.folder)

    @cached_property
    def offsets(self) -> dict[str, dict[TopicPartition, int]]:
        return {name: checkpoints.read_offsets(self.folder / name) or {} for name in CHECKPOINTS}

    @cached_property
    def compacted(self) -> dict[TopicPartition, int] | None:
        return checkpoints.read_offsets(self.folder / checkpoints.CLEANER_OFFSETS)

    def check(self, replica: Replica) -> None:
        if not self._is_checked:
            _check_files(replica, [self.folder / name for name in CHECKPOINTS])
        self._is_checked = True


def _read(replica: Replica, files: Sequence[Path], log_dir: _LogDir, *, is_whole: bool) -> None:
    # A running broker may truncate a mapped file, which would crash this process.
    reading = _Reading(replica, _orphans(replica.folder) if is_whole else {}, is_live=log_dir.is_open)
    for file in files:
        reading.segment(file, is_last=file == files[-1])
    reading.end()
    if not is_whole:
        return
    epochs = replica.folder / checkpoints.LEADER_EPOCHS
    entries = checkpoints.read_epochs(epochs) or []
    _check_files(replica, [epochs])
    log_dir.check(replica)
    _check_presence(replica, entries)
    _compare_start(replica, files[0], entries, log_dir.offsets[checkpoints.LOG_STARTS])
    _check_empty(replica, files, log_dir.compacted)
    _compare_epochs(replica, entries)
    _compare_offsets(replica, log_dir.offsets)


def _replicas(path: Path) -> list[tuple[Path, list[Path] | OSError]]:
    """Return folders with their segments, or why one cannot be read."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise BadInput(f"{path} does not exist; name a log directory, a replica's folder, or a segment.") from None
    except OSError as error:
        raise BadInput(f"{path} {checkpoints.cannot_be_read(error)}.") from None
    if not stat.S_ISDIR(mode):
        return [(path.parent, [_named_segment(path)])]
    found: dict[Path, list[Path] | OSError] = {}
    for folder, folders, files in os.walk(path, onerror=lambda error: _unreadable(path, error, found)):
        segments = sorted(Path(folder, name) for name in [*folders, *files] if _SEGMENT.fullmatch(name))
        if segments:
            found[Path(folder)] = list(segments)
    if not found:
        raise BadInput(f"{path} holds no segment (such as orders-0/00000000000000000000.log).")
    return sorted(found.items())


def _named_segment(path: Path) -> Path:
    if not _SEGMENT.fullmatch(path.name):
        raise BadInput(f"{path} is no segment: a segment's name is its first offset in 20 digits and .log.")
    if not os.access(path, os.R_OK):
        raise BadInput(f"{path} cannot be read (permission denied).")
    return path


def _unreadable(path: Path, error: OSError, found: dict[Path, list[Path] | OSError]) -> None:
    """Ignore unreadable folders of no replica, such as lost+found."""
    folder = Path(error.filename)
    if folder == path:
        raise BadInput(f"{path} {checkpoints.cannot_be_read(error)}.")
    if re.fullmatch(r".+-\d+(\..+-(delete|future|stray))?", folder.name):
        found[folder] = error


def _orphans(folder: Path) -> dict[int, list[str]]:
    """Return index files and snapshots without a segment, by first offset.

    A stopping broker leaves a single snapshot.
    """
    files: dict[str, list[str]] = {}
    for file in sorted(folder.iterdir()):
        stem, *suffixes = file.name.split(".")
        if re.fullmatch(r"\d{20}", stem):
            files.setdefault(stem, []).append(f".{'.'.join(suffixes)}")
    return {
        int(stem): [each for each in suffixes if each in (*_INDEXES, ".snapshot", ".txnindex")]
        for stem, suffixes in files.items()
        # .log.deleted, .log.swap and .log.cleaned are a broker's own
        if not any(each.startswith(".log") for each in suffixes) and any(each in suffixes for each in _INDEXES)
    }


class _Reading:
    def __init__(self, replica: Replica, orphans: Mapping[int, list[str]], *, is_live: bool) -> None:
        self._replica, self._orphans, self._is_live = replica, dict(orphans), is_live
        self._open: dict[int, int] = {}
        self._file, self._named = "", 0
        self._expected: int | None = None  # behind the last readable batch
        self._after_damage = False  # the previous batch, and so its last offset, is unreadable

    def segment(self, file: Path, *, is_last: bool) -> None:
        self._file, self._named = file.name, int(file.stem)
        try:
            if not stat.S_ISREG(file.stat().st_mode):
                self._lost("is no regular file" if not file.is_dir() else "is a directory, not a segment")
                return
            with nullcontext(file.read_bytes()) if self._is_live else mapped(file) as data:
                self._replica.segments += 1
                self._replica.size_bytes += len(data)
                self._data(data, is_last=is_last)
        except FileNotFoundError as error:
            if file.is_symlink():
                self._lost(f"is a link to {file.readlink()}, which does not exist")
            else:
                why = "it was deleted since the folder was listed, as by retention"
                self._lost(f"{checkpoints.cannot_be_read(error)}: {why}", is_problem=False)
        except OSError as error:
            self._lost(checkpoints.cannot_be_read(error))

    def _lost(self, text: str, *, is_problem: bool = True) -> None:
        self._replica.about_file(self._file, text, is_problem=is_problem)
        self._after_damage = True

    def _data(self, data: Data, *, is_last: bool) -> None:
        at, is_first = 0, True
        while at < len(data):
            headers = read_headers(data, at)
            at = int(headers["position"][-1] + headers["size"][-1])
            is_torn = headers["problem"][-1] == Problem.TORN_TAIL
            # After a false length, bytes may only look like batches.
            damaged_from = _last_read(headers) + 1 if is_torn else len(headers)
            if is_first and damaged_from:
                self._begins(headers[0])
            self._batches(data, headers[:damaged_from])
            if is_torn:
                at = self._damage(data, headers[damaged_from:], is_last=is_last)
            is_first = False

    def _begins(self, first: np.void) -> None:
        if first["base_offset"] < self._named:
            self._note(first, f"the segment's name promises offsets from {self._named:,} on", is_problem=True)

    def _damage(self, data: Data, rows: Headers, *, is_last: bool) -> int:
        """Report unreadable batches; return where to read on."""
        tail = int(rows["position"][-1])
        if only_zeros(data, tail):
            self._batches(data, rows[:-1])
            text = f"the last {len(data) - tail:,} bytes are zeros, as of a preallocated segment"
            self._tail(tail, text, is_problem=False, is_last=is_last)
            return len(data)
        following = next_batch(data, int(rows["position"][0]) + 1, self._least_offset())
        if following is None:
            self._batches(data, rows[:-1])
            self._torn(data, tail, is_last=is_last)
            return len(data)
        resumed, offset = following
        framed = rows["position"] + rows["size"] <= resumed
        framed[-1] = False
        self._batches(data, rows[framed])
        start = int(rows["position"][~framed][0])
        text = f"bytes {start:,} to {resumed - 1:,} cannot be read; the next whole batch begins at byte {resumed:,}"
        self._replica.found(Finding(self._file, start, self._expected, f"{text} with offset {offset:,}", True))
        self._after_damage = True
        return resumed

    def _least_offset(self) -> int:
        return max(self._named, self._expected or 0)

    def _torn(self, data: Data, start: int, *, is_last: bool) -> None:
        size = len(data) - start
        if is_last and not is_cut_batch(data, start, self._least_offset()):
            text = f"the last {size:,} bytes are no batch, and no whole batch follows in them"
            self._tail(start, text, is_problem=True, is_last=True)
        else:
            text = f"torn tail: the last {size:,} bytes are no whole batch"
            self._tail(start, text, is_problem=False, is_last=is_last)

    def _tail(self, start: int, text: str, *, is_problem: bool, is_last: bool) -> None:
        follows = "" if is_last else ", and another segment follows"
        is_problem = is_problem or not is_last
        self._replica.found(Finding(self._file, start, self._replica.end_offset, f"{text}{follows}", is_problem))
        self._after_damage = True

    def end(self) -> None:
        self._replica.open_transactions = sorted(OpenTransaction(*each) for each in self._open.items())
        for base, left in sorted(self._orphans.items()):
            first, end = self._replica.first_offset, self._replica.end_offset
            text = f"the segment is missing (left behind: {', '.join(left)})"
            is_covered = first is not None and end is not None and first <= base < end
            self._replica.about_file(f"{base:020d}.log", text, is_problem=not is_covered)

    def _batches(self, data: Data, headers: Headers) -> None:
        if not len(headers):
            return
        replica = self._replica
        replica.batches += len(headers)
        for magic, count in zip(*np.unique(headers["magic"], return_counts=True), strict=True):
            replica.formats[int(magic)] = replica.formats.get(int(magic), 0) + int(count)
        old = np.isin(headers["magic"], message_sets.FORMATS)
        is_read = _is_read(headers)
        holds_records = is_read & (headers["record_count"] > 0) & (old | (headers["attributes"] & CONTROL == 0))
        replica.records += int(headers["record_count"][holds_records].sum(dtype=np.int64))
        for header in headers[~is_read]:
            self._note(header, problem_text(header) or "", is_problem=True)
        for header in headers[old & (headers["record_count"] == message_sets.NOT_COUNTED)]:
            self._note(header, "the messages wrapped here cannot be decompressed, so they are not counted")
        fits = self._order(headers, is_read)
        self._epochs(headers[is_read & ~old & fits])
        of_transactions = is_read & ~old & (headers["attributes"] & (TRANSACTIONAL | CONTROL) != 0)
        for row in np.flatnonzero(of_transactions).tolist():
            self._transaction(data, headers[row])

    def _order(self, headers: Headers, is_read: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Report gaps and offsets that go back; return which base offsets fit."""
        replica, fits = self._replica, np.ones(len(headers), np.bool_)
        may_hide = np.concatenate([[self._after_damage], ~is_read[:-1]])[is_read]
        self._after_damage = not is_read[-1]
        read = headers[is_read]
        if not len(read):
            return fits
        if self._expected is None:  # compaction may leave the name below the first batch
            self._expected, may_hide[0] = min(self._named, int(read["base_offset"][0])), True
        first, ends = read["base_offset"], last_offsets(read) + 1
        alone = np.zeros(len(read), np.bool_)
        for row, kind, expected in misfits(first, ends, may_hide, self._expected):
            alone[row] = kind == "alone"
            self._misfit(read[row], kind, expected)
        fits[is_read] = ~alone
        if replica.first_offset is None:
            replica.first_offset = self._expected if alone[0] else int(first[0])
        replica.end_offset = max(replica.end_offset or 0, *ends[~alone].tolist())
        self._expected = int(ends[-1])
        return fits

    def _misfit(self, header: np.void, kind: str, expected: int) -> None:
        offset = int(header["base_offset"])
        if kind == "alone":
            text = f"base offset {offset:,} does not fit its neighbours: {expected:,} is expected"
            self._note(header, f"{text} (the CRC does not cover base offsets)", is_problem=True)
        elif kind == "back":
            self._note(header, f"offsets go back: the log reached {expected - 1:,} before", is_problem=True)
        else:
            gap = f"gap: {span(expected, offset - 1)} {'is' if offset == expected + 1 else 'are'} not there"
            missing = [base for base in sorted(self._orphans) if expected <= base < offset]
            for base in missing:
                gap += f"; segment {base:020d}.log is missing (left behind: {', '.join(self._orphans.pop(base))})"
            self._note(header, gap, is_problem=bool(missing))

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


def _is_read(headers: Headers) -> npt.NDArray[np.bool_]:
    old = np.isin(headers["magic"], message_sets.FORMATS)
    is_read: npt.NDArray[np.bool_] = (headers["problem"] == 0) | (old & (headers["problem"] == Problem.MAGIC))
    return is_read


def _last_read(headers: Headers) -> int:
    rows = np.flatnonzero(_is_read(headers) & (headers["problem"] != Problem.TORN_TAIL))
    return int(rows[-1]) if len(rows) else -1


def span(first: int, last: int) -> str:
    """Return offsets in words."""
    return f"offset {first:,}" if first == last else f"offsets {first:,} to {last:,}"


def _check_files(replica: Replica, files: Iterable[Path]) -> None:
    for file in files:
        for fault in checkpoints.faults(file):
            replica.about_file(file.name, fault)


def _check_presence(replica: Replica, entries: Sequence[checkpoints.EpochStart]) -> None:
    file = replica.folder / checkpoints.LEADER_EPOCHS
    if not any(each.epoch >= 0 for each in replica.epochs) or entries:
        return
    with suppress(OSError):
        size = file.stat().st_size if file.exists() else None
        if size is None:
            text = "the file is missing, although the log has batches; a broker rebuilds it"
            replica.about_file(file.name, text, is_problem=False)
        elif not size or not checkpoints.faults(file):
            replica.about_file(file.name, "the file has no entry, although the log has batches")


def _compare_start(
    replica: Replica,
    first: Path,
    entries: Sequence[checkpoints.EpochStart],
    log_starts: Mapping[TopicPartition, int],
) -> None:
    """Report a log that begins behind its first leader epoch.

    With tiered storage, both begin where the remote log does.
    """
    named = int(first.stem)
    if not entries or entries[0].start >= named:
        return
    start = log_starts.get(_partition(replica)) if _is_replica(replica) else None
    if start is not None and start >= named:
        return
    text = f"the first epoch begins at {entries[0].start:,}, and the first segment at {named:,}"
    if start is not None:
        text += f"; the log start offset is {start:,}: the segments between are in tiered storage, or lost"
    else:
        text += f": {span(entries[0].start, named - 1)} are lost, and no log start offset explains it"
    replica.about_file(checkpoints.LEADER_EPOCHS, text, is_problem=start is None)


def _check_empty(replica: Replica, files: Sequence[Path], compacted: Mapping[TopicPartition, int] | None) -> None:
    """Report empty segments before others; only compaction leaves such."""
    may_be_compacted = compacted is None or not _is_replica(replica) or _partition(replica) in compacted
    for file in files[:-1]:
        with suppress(OSError):
            if file.is_file() and not file.stat().st_size:
                text = "0 bytes, and another segment follows"
                text += ", as compaction may leave" if may_be_compacted else "; the partition was never compacted"
                replica.about_file(file.name, text, is_problem=not may_be_compacted)


def _is_replica(replica: Replica) -> bool:
    """Return False for a replica that moves or is being deleted."""
    return re.fullmatch(r"[\w.-]+-\d+", replica.folder.name) is not None


def _partition(replica: Replica) -> TopicPartition:
    return TopicPartition.parse(replica.folder.name)


def _compare_epochs(replica: Replica, entries: Sequence[checkpoints.EpochStart]) -> None:
    """Compare the batches' epochs with the epoch file (KIP-101).

    Retention removes entries before batches.
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
            found(f"epoch {epoch} of {span(first, last)} has no entry")
        elif start_of[epoch] > first or later <= last:
            until = f", and a later one from {later:,}" if later <= last else ""
            found(f"epoch {epoch} begins at {start_of[epoch]:,}{until}; its batches have {span(first, last)}")


def _compare_offsets(replica: Replica, told: Mapping[str, Mapping[TopicPartition, int]]) -> None:
    name = replica.folder.name
    if not _is_replica(replica):
        return
    for file, of_partition in told.items():
        offset = of_partition.get(_partition(replica))
        if offset is None:
            continue
        replica.checkpoints[CHECKPOINTS[file]] = offset
        if replica.end_offset is not None and offset > replica.end_offset:
            text = f"the {CHECKPOINTS[file]} of {name} is {offset:,}, beyond the log end offset {replica.end_offset:,}"
            replica.found(Finding(file, None, offset, text, is_problem=True))
