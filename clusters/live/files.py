"""Read servers' files on this host, and move them to the evidence."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from clusters.runtimes.nodes import FOLDER, Node, opened
from history.partition import TopicPartition
from kafka_files import checkpoints

OffsetsIn = Callable[[Path], dict[TopicPartition, int] | None]
Checkpoints = Mapping[str, int | None]  # column of ``offsets`` → value


class Files:
    """Servers' files on this host, while servers run and at the end."""

    def checkpoints(self, node: Node, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Checkpoints]:
        """Return what a broker's checkpoint files say of each replica."""
        offsets_in = cache(checkpoints.read_offsets)  # reads each file once
        return {each: read_checkpoints(node.log_dir_of(str(each)), each, offsets_in) for each in partitions}

    def log_bytes(self, node: Node, partition: TopicPartition) -> int:
        total = 0
        for file in (node.log_dir_of(str(partition)) / str(partition)).glob("*.log"):
            with suppress(FileNotFoundError):  # brokers delete old segments
                total += file.stat().st_size
        return total

    def collect(self, node: Node, target: Path) -> None:
        """Put a dead server's log, settings and data into a folder."""
        target.mkdir(parents=True, exist_ok=True)
        for file in (node.folder / name for name in ("server.log", "gc.log", "server.properties")):
            if file.exists() and not file.is_symlink():
                shutil.copy2(file, target)
        for folder in dict.fromkeys([*node.log_dirs, node.metadata_dir]):
            if folder.is_dir() and not folder.is_symlink():
                allow_writing(node, folder)  # may still be read-only
            if folder.exists():
                folder.rename(target / folder.name)
        remove_links(target)


def remove_links(folder: Path) -> None:
    """Remove symbolic links, which could point to any host file; Kafka makes none."""
    for file in folder.rglob("*"):
        if file.is_symlink():
            file.unlink()


def read_checkpoints(
    data: Path, partition: TopicPartition, offsets_in: OffsetsIn = checkpoints.read_offsets
) -> dict[str, int | None]:
    """Return a replica's values in its broker's checkpoint files; None if absent."""
    epochs = checkpoints.read_epochs(data / str(partition) / checkpoints.LEADER_EPOCHS)
    epoch, start = epochs[-1] if epochs else (None, None)
    return {
        "checkpoint_high_watermark": (offsets_in(data / checkpoints.HIGH_WATERMARKS) or {}).get(partition),
        "checkpoint_log_start_offset": (offsets_in(data / checkpoints.LOG_STARTS) or {}).get(partition),
        "checkpoint_recovery_point": (offsets_in(data / checkpoints.RECOVERY_POINTS) or {}).get(partition),
        "checkpoint_leader_epoch": epoch,
        "checkpoint_epoch_start_offset": start,
    }


def forbid_writing(node: Node, folder: Path) -> None:
    """Make a node's folder read-only, except symbolic links."""
    _change_modes(node, folder, lambda mode: mode & ~0o222)


def allow_writing(node: Node, folder: Path) -> None:
    """Make a node's folder writable again, except symbolic links; raise HarnessError if the folder itself is a link."""
    _change_modes(node, folder, lambda mode: mode | 0o200)


def _change_modes(node: Node, folder: Path, change: Callable[[int], int]) -> None:
    with opened(node, folder, FOLDER) as top:
        _change_mode(".", top, change)
        for _, folders, files, within in os.fwalk(".", dir_fd=top):
            for name in (*folders, *files):
                with suppress(FileNotFoundError):  # brokers replace checkpoints
                    _change_mode(name, within, change)


def _change_mode(name: str, folder: int, change: Callable[[int], int]) -> None:
    """Change the mode by descriptor: a link put there meanwhile is not followed."""
    file = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=folder)
    try:
        mode = os.fstat(file).st_mode
        before, after = mode & 0o777, change(mode & 0o777)
        if after != before and not stat.S_ISLNK(mode):
            Path(f"/proc/self/fd/{file}").chmod(after)  # fchmod rejects O_PATH descriptors
    finally:
        os.close(file)
