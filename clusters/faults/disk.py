"""Damage a broker's disk or files, never through symbolic links (``opened``)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import ClassVar

from clusters.faults import Evidence, Fault
from clusters.faults.phase import PhaseRun, performs
from clusters.faults.processes import Ended
from clusters.kafka.views import PartitionView
from clusters.live.files import allow_writing, forbid_writing
from clusters.live.servers import broker_id
from clusters.live.world import World
from clusters.runtimes.nodes import FOLDER, Node, opened
from clusters.runtimes.runtime import Disks, available
from clusters.scenario.steps import disks as steps
from clusters.waiting import wait_until
from history.errors import HarnessError
from history.partition import TopicPartition
from history.words import some_of
from kafka_files import checkpoints
from kafka_files.batches import HEADER, Problem, headers, last_offsets, whole_batches

LIMIT_S = 60.0
CHECKPOINTS = {
    "high watermark checkpoint": checkpoints.HIGH_WATERMARKS,
    "log start checkpoint": checkpoints.LOG_STARTS,
    "recovery point checkpoint": checkpoints.RECOVERY_POINTS,
}
_CLEAN_STOP = ".kafka_cleanshutdown"  # if this file exists, a broker skips log recovery
_FILLER = "/disk/filler"
_FREE = "df -B1 --output=avail /disk | tail -1"


@dataclass
class LogDirFailure(Ended):
    """Make a broker's only log directory fail, so that the broker exits."""

    said: ClassVar[tuple[str, ...]]
    signal: ClassVar[str] = "its disk's failure"
    _log_size: dict[str, int] = field(default_factory=dict)

    def inject(self) -> None:
        for node in self.nodes:
            self._log_size[node.name] = node.log.stat().st_size
            self.break_disk(node)

    def verify_injected(self) -> Evidence:
        return {
            **super().verify_injected(),
            "log": [
                wait_until(
                    partial(_line_of, node, self._log_size[node.name], self.said),
                    limit_s=LIMIT_S,
                    what=f"{node.name} to say in its log one of {', '.join(self.said)}",
                )
                for node in self.nodes
            ],
        }

    def heal(self) -> None:
        for node in self.nodes:
            self.mend_disk(node)
            if self._refuses(node):
                wait_until(partial(self._has_ended, node), limit_s=LIMIT_S, what=f"{node.name} to have ended")
                self.start_again(node)

    def break_disk(self, node: Node) -> None:
        raise NotImplementedError

    def mend_disk(self, node: Node) -> None:
        raise NotImplementedError


@dataclass
class FullDisk(LogDirFailure):
    """Fill the broker's own disk to the last byte."""

    disks: Disks = field(kw_only=True)
    key: ClassVar[str] = steps.FillDisk.key
    said: ClassVar[tuple[str, ...]] = ("No space left on device", "unsafe memory access", "SIGBUS")

    def break_disk(self, node: Node) -> None:
        self.disks.run_script(node, f"dd if=/dev/zero of={_FILLER} bs=4k 2>/dev/null; true")

    def mend_disk(self, node: Node) -> None:
        self.disks.run_script(node, f"rm -f {_FILLER}")

    def verify_injected(self) -> Evidence:
        free = wait_until(self._full, limit_s=LIMIT_S, what="no byte of the disk to be free")
        return {"free_bytes": free, **super().verify_injected()}

    def verify_cleared(self) -> Evidence:
        return {**super().verify_cleared(), "free_bytes": self._free()}

    def _full(self) -> list[int] | None:
        free = self._free()
        return None if any(free) else free

    def _free(self) -> list[int]:
        return [int(self.disks.run_script(node, _FREE)) for node in self.nodes]


@dataclass
class ReadOnlyDisk(LogDirFailure):
    """Make the log directory read-only."""

    key: ClassVar[str] = steps.ReadOnlyDisk.key
    said: ClassVar[tuple[str, ...]] = ("AccessDenied", "Permission denied", "Read-only file system")

    def break_disk(self, node: Node) -> None:
        forbid_writing(node, node.log_dirs[0])

    def mend_disk(self, node: Node) -> None:
        allow_writing(node, node.log_dirs[0])


@dataclass
class FailedLogDir(Ended):
    """Make one of several log directories read-only; the broker runs on.

    Healing restarts it, because Kafka does not take back a failed log directory.
    """

    partition: TopicPartition = field(kw_only=True)
    key: ClassVar[str] = steps.FailLogDir.key
    signal: ClassVar[str] = "SIGTERM"
    ends_nodes = "heal"
    _folder: Path = Path()
    _log_size: int = 0

    @property
    def node(self) -> Node:
        return self.nodes[0]

    def inject(self) -> None:
        folder = self.node.log_dir_of(str(self.partition))
        if not (folder / str(self.partition)).is_dir():
            raise HarnessError(f"{self.node.name} has no replica of {self.partition} whose log directory could fail.")
        self._folder, self._log_size = folder, self.node.log.stat().st_size
        forbid_writing(self.node, self._folder)

    def verify_injected(self) -> Evidence:
        line = wait_until(
            partial(_line_of, self.node, self._log_size, (f"Stopping serving logs in dir {self._folder}\n",)),
            limit_s=LIMIT_S,
            what=f"{self.node.name} to give up {self._folder.name}",
        )
        offline = wait_until(
            self._offline,
            limit_s=LIMIT_S,
            what=f"other brokers to know that {self.partition} is offline on {self.node.name}",
            last_seen=lambda: str(self._view() or "no view"),
        )
        wait_until(
            lambda: self.world.reports.probe_error(broker_id(self.node)) is None,
            limit_s=LIMIT_S,
            what=f"{self.node.name} to answer",
        )
        return {"log": line, "directory": self._folder.name, **offline, "probe": "answers"}

    def _view(self) -> PartitionView | None:
        return self.world.reports.partition_view(self.partition, without=broker_id(self.node))

    def _offline(self) -> Evidence | None:
        view, number = self._view(), broker_id(self.node)
        if view is None or view.leader == number or number not in view.offline:
            return None
        return {"leader": view.leader, "isr": view.isr, "offline": view.offline}

    def heal(self) -> None:
        if self._folder.name:
            allow_writing(self.node, self._folder)
        if self.world.state(self.node) == "running":
            super().inject()  # another fault's broker is restarted by that fault
        super().heal()

    def verify_cleared(self) -> Evidence:
        found = super().verify_cleared()
        number = broker_id(self.node)
        wait_until(
            lambda: (view := self._view()) and number in view.isr and number not in view.offline,
            limit_s=LIMIT_S,
            what=f"{self.node.name} to be in the ISR of {self.partition} again",
            last_seen=lambda: str(self._view() or "no view"),
        )
        return {**found, "in_sync": str(self.partition)}


def _line_of(node: Node, after: int, said: Sequence[str]) -> str | None:
    with node.log.open(errors="replace") as log:
        log.seek(after)
        return next((line.strip()[-200:] for line in log if any(words in line for words in said)), None)


@dataclass
class Damaged(Fault):
    """Damage files that only Kafka repairs, from other replicas."""

    world: World
    node: Node
    key: ClassVar[str]
    healed_last = True

    @property
    def nodes(self) -> list[Node]:
        return [self.node]

    def heal(self) -> None:
        """Do nothing: Kafka repairs the files."""

    def verify_cleared(self) -> Evidence:
        partitions = self.world.partitions_of(broker_id(self.node))
        wait_until(
            lambda: not self._out_of_sync(partitions),
            limit_s=LIMIT_S,
            what=f"{self.node.name} to be in every ISR again",
            last_seen=lambda: f"it is not in that of {some_of(self._out_of_sync(partitions))}",
        )
        return {"in_sync": [str(partition) for partition in partitions]}

    def _out_of_sync(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        number = broker_id(self.node)
        samples = self.world.reports.samples(number, partitions)
        return [
            partition
            for partition, view in self.world.reports.partition_views(partitions).items()
            if not (view and number in view.isr and partition in samples and samples[partition].error is None)
        ]

    def must_be_down(self) -> None:
        """Wait for the end: a stopping broker refuses connections before its last write.

        Raises:
            HarnessError: the broker still accepts connections.
        """
        name = self.node.name
        if self.world.reports.probe_error(broker_id(self.node)) != "unreachable":
            raise HarnessError(f"{name} runs, but {self.key} needs it down; kill or stop it first.")
        wait_until(
            lambda: self.world.state(self.node) not in ("running", "paused"),
            limit_s=LIMIT_S,
            what=f"the process of {name} to end",
        )

    def last_copy_of(self, partitions: list[TopicPartition]) -> list[str]:
        """Return the partitions that have no other live ISR member."""
        others = self.world.servers.brokers.keys() - {broker_id(self.node)}
        alive = {number for number in others if self.world.reports.probe_error(number) is None}
        views = self.world.reports.partition_views(partitions)
        return [str(partition) for partition, view in views.items() if not (view and alive.intersection(view.isr))]


@dataclass
class Wiped(Damaged):
    """Delete all topic data, but not what identifies broker and cluster."""

    key: ClassVar[str] = steps.Wipe.key
    _last: list[str] = field(default_factory=list)

    def inject(self) -> None:
        self.must_be_down()
        self._last = self.last_copy_of(self.world.partitions_of(broker_id(self.node)))
        for folder in self._folders():
            with opened(self.node, folder, FOLDER), opened(self.node, folder.parent, FOLDER) as log_dir:
                shutil.rmtree(folder.name, dir_fd=log_dir)

    def _folders(self) -> list[Path]:
        names = [str(partition) for partition in self.world.partitions]
        return [folder / name for folder in self.node.log_dirs for name in names if (folder / name).exists()]

    def verify_injected(self) -> Evidence:
        wait_until(lambda: not self._folders(), limit_s=1, what=f"the data of {self.node.name} to be gone")
        return {
            "last_copy_of": self._last,
            "left": sorted(path.name for folder in self.node.log_dirs for path in folder.iterdir()),
        }


@dataclass
class Truncated(Damaged):
    """Cut whole batches or bytes off the end of the last segment."""

    partition: TopicPartition
    records: int | None
    bytes: int | None
    key: ClassVar[str] = steps.Truncate.key
    _last: list[str] = field(default_factory=list)
    _segment: Path = Path()
    _bytes: tuple[int, int] = (0, 0)

    def inject(self) -> None:
        self.must_be_down()
        self._last = self.last_copy_of([self.partition])
        data = self.node.log_dir_of(str(self.partition))
        segment = next((file for file in reversed(segments(data, self.partition)) if file.lstat().st_size), None)
        if segment is None:
            raise HarnessError(f"{self.node.name} has no record of {self.partition} that could be cut off.")
        with opened(self.node, segment, os.O_RDWR) as file:
            size = os.fstat(file).st_size
            end = max(size - self.bytes, 0) if self.bytes else _cut(_content(file), self.records or 0)
            os.ftruncate(file, end)
        with opened(self.node, data, FOLDER) as log_dir, suppress(FileNotFoundError):
            os.unlink(_CLEAN_STOP, dir_fd=log_dir)
        self._segment, self._bytes = segment, (size, end)

    def verify_injected(self) -> Evidence:
        before, after = self._bytes
        wait_until(
            lambda: self._segment.stat().st_size == after < before,
            limit_s=1,
            what=f"{self._segment.name} of {self.node.name} to be shorter",
        )
        ends = (last_offsets(whole_batches(_read(self.node, self._segment))) + 1).tolist()
        return {
            "last_copy_of": self._last,
            "segment": self._segment.name,
            "bytes": [before, after],
            "log_end_offset": max(ends, default=int(self._segment.stem)),
        }


@dataclass
class DeletedCheckpoint(Damaged):
    """Delete a checkpoint file."""

    what: str
    key: ClassVar[str] = steps.DeleteCheckpoint.key

    def inject(self) -> None:
        self.must_be_down()
        if not all(file.exists() for file in self._files):
            raise HarnessError(f"{self.node.name} has no {self.what} yet; let it run longer first.")
        for file in self._files:
            with opened(self.node, file.parent, FOLDER) as log_dir:
                os.unlink(file.name, dir_fd=log_dir)

    @property
    def _files(self) -> list[Path]:
        return [folder / CHECKPOINTS[self.what] for folder in self.node.log_dirs]

    def verify_injected(self) -> Evidence:
        name = CHECKPOINTS[self.what]
        wait_until(lambda: not any(file.exists() for file in self._files), limit_s=1, what=f"{name} to be gone")
        return {"deleted": name}

    def verify_cleared(self) -> Evidence:
        found = super().verify_cleared()
        wait_until(
            lambda: all(file.exists() for file in self._files),
            limit_s=LIMIT_S,
            what=f"{self.node.name} to write its {self.what}",
        )
        return {**found, "written": CHECKPOINTS[self.what]}


@dataclass
class FlippedBit(Damaged):
    """Flip one bit of a batch, for the judge to find."""

    partition: TopicPartition
    offset: int
    key: ClassVar[str] = steps.FlipBit.key
    _file: Path = Path()
    _at: int = -1

    def inject(self) -> None:
        found = [
            file
            for file in segments(self.node.log_dir_of(str(self.partition)), self.partition)
            if int(file.stem) <= self.offset
        ]
        if not found:
            raise self._no_offset()
        self._file = found[-1]
        with opened(self.node, self._file, os.O_RDWR) as segment:
            batches = whole_batches(_content(segment))
            holding = batches[(batches["base_offset"] <= self.offset) & (last_offsets(batches) >= self.offset)]
            if not len(holding):
                raise self._no_offset()
            self._at = int(holding["position"][0])
            middle = self._at + (HEADER.size + int(holding["size"][0])) // 2
            os.pwrite(segment, bytes([os.pread(segment, 1, middle)[0] ^ 1]), middle)

    def _no_offset(self) -> HarnessError:
        return HarnessError(f"{self.node.name} has no offset {self.offset} of {self.partition} in its log.")

    def verify_injected(self) -> Evidence:
        wait_until(
            lambda: not self._is_sound(), limit_s=1, what=f"the batch at byte {self._at} not to fit its checksum"
        )
        return {"segment": self._file.name, "position": self._at, "fits_checksum": False}

    def _is_sound(self) -> bool:
        (batch,) = headers(_read(self.node, self._file), self._at, most=1)
        return int(batch["problem"]) != Problem.BAD_CRC


def segments(data: Path, partition: TopicPartition) -> list[Path]:
    """Return a replica's segment files by base offset."""
    return sorted((data / str(partition)).glob("*.log"))


def _read(node: Node, file: Path) -> bytes:
    with opened(node, file, os.O_RDONLY) as descriptor:
        return _content(descriptor)


def _content(file: int) -> bytes:
    return os.pread(file, os.fstat(file).st_size, 0)


def _cut(segment: bytes, records: int) -> int:
    found = whole_batches(segment)
    last = last_offsets(found)[-1] if len(found) else 0
    enough = found["position"][last - found["base_offset"] + 1 >= records]
    return int(enough[-1]) if len(enough) else 0


@performs(steps.FillDisk)
def _fill_disk(run: PhaseRun, step: steps.FillDisk) -> None:
    disks_of_nodes = available(run.world.runtime.disks, "disk for each node")
    run.inject(FullDisk(run.world, run.nodes(step.node), disks=disks_of_nodes), step)


@performs(steps.ReadOnlyDisk)
def _read_only_disk(run: PhaseRun, step: steps.ReadOnlyDisk) -> None:
    run.inject(ReadOnlyDisk(run.world, run.nodes(step.node)), step)


@performs(steps.FailLogDir)
def _fail_log_dir(run: PhaseRun, step: steps.FailLogDir) -> None:
    run.inject(FailedLogDir(run.world, [run.node(step.node)], partition=step.partition), step)


@performs(steps.Wipe)
def _wipe(run: PhaseRun, step: steps.Wipe) -> None:
    for node in run.nodes(step.node):
        run.inject(Wiped(run.world, node), step)


@performs(steps.Truncate)
def _truncate(run: PhaseRun, step: steps.Truncate) -> None:
    run.inject(Truncated(run.world, run.node(step.node), step.partition, step.records, step.bytes), step)


@performs(steps.DeleteCheckpoint)
def _delete_checkpoint(run: PhaseRun, step: steps.DeleteCheckpoint) -> None:
    run.inject(DeletedCheckpoint(run.world, run.node(step.node), step.what), step)


@performs(steps.FlipBit)
def _flip_bit(run: PhaseRun, step: steps.FlipBit) -> None:
    run.inject(FlippedBit(run.world, run.node(step.node), step.partition, step.offset), step)
