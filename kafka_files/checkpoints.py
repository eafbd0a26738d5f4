"""Read Kafka's checkpoint files: version, entry count, then one entry per line.

Kafka ends every line; an unterminated line is torn and may lack digits.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from history.partition import TopicPartition

LEADER_EPOCHS = "leader-epoch-checkpoint"  # per replica
HIGH_WATERMARKS = "replication-offset-checkpoint"  # per log directory, like the next two
LOG_STARTS = "log-start-offset-checkpoint"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
_EPOCH = re.compile(r"^(\d{1,10}) (\d{1,18})\n", re.MULTILINE)
_OFFSET = re.compile(r"^(\S+) (\d{1,10}) (\d{1,18})\n", re.MULTILINE)


class EpochStart(NamedTuple):
    """An entry of a leader-epoch-checkpoint: the epoch and its first offset."""

    epoch: int
    start: int


def read_epochs(file: Path) -> list[EpochStart] | None:
    """Return a leader-epoch-checkpoint's entries without torn lines, None if there is no file."""
    text = _text(file)
    return None if text is None else [EpochStart(int(epoch), int(start)) for epoch, start in _EPOCH.findall(text)]


def read_offsets(file: Path) -> dict[TopicPartition, int] | None:
    """Return an offset checkpoint's values by replica without torn lines, None if there is no file."""
    text = _text(file)
    if text is None:
        return None
    return {TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in _OFFSET.findall(text)}


def _text(file: Path) -> str | None:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return None
