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
from contextlib import suppress
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from history.errors import BadInput
from history.partition import TopicPartition
from kafka_files import checkpoints
from kafka_files.log_reader import LogReader
from kafka_files.replicas import Finding, Replica, span

CHECKPOINTS = {
    checkpoints.HIGH_WATERMARKS: "high watermark",
    checkpoints.RECOVERY_POINTS: "recovery point",
    checkpoints.LOG_STARTS: "log start",
}
_SEGMENT = re.compile(r"\d{20}\.log")
_INDEXES = (".index", ".timeindex")


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
    reader = LogReader(replica, _orphans(replica.folder) if is_whole else {}, is_live=log_dir.is_open)
    for file in files:
        reader.read(file, is_last=file == files[-1])
    reader.end()
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

    def report(text: str) -> None:
        replica.about_file(checkpoints.LEADER_EPOCHS, text)

    for before, after in pairwise(entries):
        if after.epoch <= before.epoch or after.start <= before.start:
            report(f"epoch {after.epoch} from {after.start:,} follows epoch {before.epoch} from {before.start:,}")
    start_of = dict(entries)
    covered_from = entries[0].start if entries else replica.end_offset or 0
    for epoch, first, last in [each for each in replica.epochs if each.first_offset >= covered_from]:
        later = min((entry.start for entry in entries if entry.epoch > epoch), default=last + 1)
        if epoch not in start_of:
            report(f"epoch {epoch} of {span(first, last)} has no entry")
        elif start_of[epoch] > first or later <= last:
            until = f", and a later one from {later:,}" if later <= last else ""
            report(f"epoch {epoch} begins at {start_of[epoch]:,}{until}; its batches have {span(first, last)}")


def _compare_offsets(replica: Replica, offsets: Mapping[str, Mapping[TopicPartition, int]]) -> None:
    name = replica.folder.name
    if not _is_replica(replica):
        return
    for file, of_partition in offsets.items():
        offset = of_partition.get(_partition(replica))
        if offset is None:
            continue
        replica.checkpoints[CHECKPOINTS[file]] = offset
        if replica.end_offset is not None and offset > replica.end_offset:
            text = f"the {CHECKPOINTS[file]} of {name} is {offset:,}, beyond the log end offset {replica.end_offset:,}"
            replica.add(Finding(file, None, offset, text, is_problem=True))
