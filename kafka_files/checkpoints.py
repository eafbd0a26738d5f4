"""Read checkpoint files: version, entry count, an entry per line.

An unterminated line is torn and may lack digits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from history.partition import TopicPartition

LEADER_EPOCHS = "leader-epoch-checkpoint"  # per replica
HIGH_WATERMARKS = "replication-offset-checkpoint"  # per log directory, as are the next two
LOG_STARTS = "log-start-offset-checkpoint"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"  # of compacted partitions
_EPOCH = re.compile(r"^(\d{1,10}) (\d{1,18})\n", re.MULTILINE)
_OFFSET = re.compile(r"^(\S+) (\d{1,10}) (\d{1,18})\n", re.MULTILINE)
_COUNT = re.compile(r"\d{1,9}", re.ASCII)
_MAX_QUOTED = 60


class EpochStart(NamedTuple):
    """An entry of a leader-epoch-checkpoint."""

    epoch: int
    start: int


def read_epochs(file: Path) -> list[EpochStart] | None:
    """Return the entries without torn lines, if there is a file."""
    text = _text(file)
    return None if text is None else [EpochStart(int(epoch), int(start)) for epoch, start in _EPOCH.findall(text)]


def read_offsets(file: Path) -> dict[TopicPartition, int] | None:
    """Return each replica's offset without torn lines, if there is a file."""
    text = _text(file)
    if text is None:
        return None
    return {TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in _OFFSET.findall(text)}


def faults(file: Path) -> list[str]:
    """Return what is wrong with a checkpoint file.

    Kafka creates files empty, replaces them whole, and rejects invalid lines.
    """
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        return [cannot_be_read(error)]
    return list(_faults(data, is_epochs=file.name == LEADER_EPOCHS)) if data else []


def cannot_be_read(error: OSError) -> str:
    """Return why a file cannot be read."""
    reason = error.strerror or str(error)
    return f"cannot be read ({reason[:1].lower()}{reason[1:]})"


def _faults(data: bytes, *, is_epochs: bool) -> Iterator[str]:
    *lines, torn = data.decode(errors="replace").split("\n")
    torn_line = f"line {len(lines) + 1} is torn: {_quoted(torn)} has no line end" if torn else ""
    if not lines:
        yield torn_line
        return
    if lines[0] != "0":
        yield f"line 1 is no version: {_quoted(lines[0])} instead of 0"
        return
    if len(lines) > 1 and not _COUNT.fullmatch(lines[1]):
        yield f"line 2 is no number of entries: {_quoted(lines[1])}"
        return
    entry = _EPOCH if is_epochs else _OFFSET
    form = "an epoch and its first offset" if is_epochs else "a topic, a partition and an offset"
    wrong = [number for number, line in enumerate(lines[2:], start=3) if not entry.fullmatch(f"{line}\n")]
    if wrong:
        more = f"; {len(wrong):,} such lines in all" if len(wrong) > 1 else ""
        yield f"line {wrong[0]} is not {form}: {_quoted(lines[wrong[0] - 1])}{more}"
    announced, found = int(lines[1]) if len(lines) > 1 else None, max(0, len(lines) - 2)
    if announced is None:
        yield torn_line or "line 2, the number of entries, is missing"
    elif torn_line or announced != found:
        counts = f"line 2 announces {announced:,} entries; whole entries found: {found:,}"
        yield f"{torn_line}; {counts}" if torn_line else counts


def _quoted(line: str) -> str:
    shown = "".join(char if char.isprintable() else repr(char)[1:-1] for char in line[:_MAX_QUOTED])
    return f'"{shown}{"…" if len(line) > _MAX_QUOTED else ""}"'


def _text(file: Path) -> str | None:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return None
