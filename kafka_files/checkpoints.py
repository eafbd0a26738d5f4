"""Kafka's checkpoint files: a version, the number of entries, then an entry a line, its fields apart by spaces.

Kafka ends each line, the last one too: a line without an end is torn, and its number may lack digits.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from history.partition import TopicPartition

LEADER_EPOCHS = "leader-epoch-checkpoint"  # in each replica's folder
HIGH_WATERMARKS = "replication-offset-checkpoint"  # in each log directory, as the two below
LOG_STARTS = "log-start-offset-checkpoint"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
_EPOCH = re.compile(r"^(\d{1,10}) (\d{1,18})\n", re.MULTILINE)
_OFFSET = re.compile(r"^(\S+) (\d{1,10}) (\d{1,18})\n", re.MULTILINE)


class EpochStart(NamedTuple):
    """A line of a leader-epoch-checkpoint: the epoch and the first offset that was written in it."""

    epoch: int
    start: int


def read_epochs(file: Path) -> list[EpochStart] | None:
    """A leader-epoch-checkpoint's entries in their order; a torn line is left out. None: there is no file."""
    text = _text(file)
    return None if text is None else [EpochStart(int(epoch), int(start)) for epoch, start in _EPOCH.findall(text)]


def read_offsets(file: Path) -> dict[TopicPartition, int] | None:
    """An offset checkpoint's value of each replica; a torn line is left out. None: there is no file."""
    text = _text(file)
    if text is None:
        return None
    return {TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in _OFFSET.findall(text)}


def _text(file: Path) -> str | None:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return None
