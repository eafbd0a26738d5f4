"""Read partition history from KRaft's ``__cluster_metadata-0``.

A value has frame version, API key, record version (unsigned varints), fields: KIP-500, KIP-858 (directories, version
1), KIP-966 (ELR, version 2, and ClearElrRecord). Each change increases the partition epoch; each that names a leader,
even the same, the leader epoch. Metadata transactions (KIP-868) occur only in the first records.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

from history.errors import EvidenceError
from kafka_files.batches import HEADER, header_slices, last_offsets
from kafka_files.clock import Clock
from kafka_files.records import values
from kafka_files.states import History, State, up_to_damage

FOLDER = "__cluster_metadata-0"
_TOPIC, _PARTITION, _PARTITION_CHANGE, _REMOVE_TOPIC, _CLEAR_ELR = 2, 3, 5, 9, 28
_UNCHANGED_LEADER = -2
_UVARINT_BITS = 35
_SNAPSHOT_HEADER = bytes.fromhex("2a0000000800000003160000")  # a control record, before LastContainedLogTimestamp


class Fields:
    """Read one record's fields.

    Raises: ValueError: truncated or invalid.
    """

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, count: int) -> bytes:
        taken = self._data[self._at : self._at + count]
        if len(taken) < count or count < 0:
            raise ValueError("a metadata record ends before its fields do")
        self._at += count
        return taken

    def number(self, layout: str) -> int:
        return int(struct.unpack(layout, self.take(struct.calcsize(layout)))[0])

    def uvarint(self) -> int:
        result = 0
        for shift in range(0, _UVARINT_BITS, 7):
            byte = self.take(1)[0]
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return result
        raise ValueError("a number in a metadata record has no end")

    def text(self) -> str:
        return self.take(self.uvarint() - 1).decode()

    def ids(self) -> tuple[int, ...]:
        count = self.uvarint() - 1
        return tuple(self.number(">i") for _ in range(count))

    def tagged(self) -> dict[int, bytes]:
        found = {}
        for _ in range(self.uvarint()):
            tag = self.uvarint()
            found[tag] = self.take(self.uvarint())
        return found


_Key = tuple[bytes, int]  # topic id, partition


class _Partitions:
    def __init__(self) -> None:
        self._names: dict[bytes, str] = {}
        self._last: dict[_Key, State] = {}

    def replay(self, value: bytes, position: int) -> list[State]:
        """Return the states that a record starts, undated.

        Raises: EvidenceError.
        """
        try:
            begun = {key: state._replace(position=position) for key, state in self._begun(value)}
        except ValueError as error:
            raise EvidenceError(f"The metadata record at offset {position} cannot be read: {error}.") from error
        self._last |= begun
        return list(begun.values())

    def _begun(self, value: bytes) -> Iterator[tuple[_Key, State]]:
        fields = Fields(value)
        frame, key, version = fields.uvarint(), fields.uvarint(), fields.uvarint()
        if frame not in {0, 1}:
            return
        if key == _TOPIC:
            name = fields.text()
            self._names[fields.take(16)] = name
        elif key == _REMOVE_TOPIC:
            self._names.pop(fields.take(16), None)
        elif key in {_PARTITION, _PARTITION_CHANGE}:
            partition, topic_id = fields.number(">i"), fields.take(16)
            read = self._created if key == _PARTITION else self._changed
            if topic_id in self._names and (key == _PARTITION or (topic_id, partition) in self._last):
                yield (topic_id, partition), read(fields, version, (topic_id, partition))
        elif key == _CLEAR_ELR:
            yield from self._cleared(fields.text())

    def _created(self, fields: Fields, version: int, key: _Key) -> State:
        replicas, isr, removing, adding = (fields.ids() for _ in range(4))
        leader, leader_epoch, partition_epoch = (fields.number(">i") for _ in range(3))
        if version >= 1:
            fields.take(16 * (fields.uvarint() - 1))
        tags = fields.tagged()
        return State(
            topic=self._names[key[0]],
            partition=key[1],
            source="metadata_log",
            position=0,
            t_ns=None,
            leader=leader,
            leader_epoch=leader_epoch,
            partition_epoch=partition_epoch,
            replicas=replicas,
            isr=isr,
            elr=_ids(tags.get(1), ()),
            last_known_elr=_ids(tags.get(2), ()),
            adding=adding,
            removing=removing,
            recovering=tags.get(0) == b"\1",
        )

    def _changed(self, fields: Fields, version: int, key: _Key) -> State:  # noqa: ARG002  # as _created
        before = self._last[key]
        tags = fields.tagged()
        leader = Fields(tags[1]).number(">i") if 1 in tags else _UNCHANGED_LEADER
        named = leader != _UNCHANGED_LEADER
        return before._replace(
            leader=leader if named else before.leader,
            leader_epoch=before.leader_epoch + named,
            partition_epoch=before.partition_epoch + 1,
            replicas=_ids(tags.get(2), before.replicas),
            isr=_ids(tags.get(0), before.isr),
            elr=_ids(tags.get(6), before.elr),
            last_known_elr=_ids(tags.get(7), before.last_known_elr),
            adding=_ids(tags.get(4), before.adding),
            removing=_ids(tags.get(3), before.removing),
            recovering=tags[5] == b"\1" if 5 in tags else before.recovering,
        )

    def _cleared(self, topic: str) -> Iterator[tuple[_Key, State]]:
        """Apply a ClearElrRecord to partitions with an ELR or a last known one; "" is every topic."""
        for key, before in self._last.items():
            named = self._names.get(key[0])
            if named is not None and topic in {"", named} and (before.elr or before.last_known_elr):
                epoch = before.partition_epoch + 1
                yield key, before._replace(partition_epoch=epoch, elr=(), last_known_elr=())


def _ids(data: bytes | None, otherwise: tuple[int, ...]) -> tuple[int, ...]:
    return otherwise if not data or data == b"\0" else Fields(data).ids()


def history(files: Sequence[Path], clock: Clock) -> History:
    """Return a metadata log's states up to the first damage or missing file.

    A snapshot's states have its offset and its last record's time (KIP-630), initial ones time 0.
    """
    return up_to_damage(_states(files, clock))


def _states(files: Sequence[Path], clock: Clock) -> Iterator[State]:
    partitions, end = _Partitions(), 0
    for file in files:
        data, begins_at = file.read_bytes(), int(file.stem.partition("-")[0])
        if file.suffix != ".log":
            end = begins_at  # a snapshot covers all lower offsets
            yield from _of_snapshot(data, end, clock, partitions)
            continue
        if begins_at > end:
            raise EvidenceError(f"It lacks the records from offset {end} to {begins_at}.")
        for headers in header_slices(data):
            for header, offset, value in values(data, headers):
                for state in partitions.replay(value or b"", offset) if offset >= end else ():
                    yield state._replace(t_ns=clock.monotonic_ns(int(header["max_timestamp"]) * 1_000_000))
            end = max(end, int(last_offsets(headers)[-1]) + 1)


def _of_snapshot(data: bytes, offset: int, clock: Clock, partitions: _Partitions) -> Iterator[State]:
    begin, end = HEADER.size, HEADER.size + len(_SNAPSHOT_HEADER)
    known = data[begin:end] == _SNAPSHOT_HEADER
    t_ns = clock.monotonic_ns(int.from_bytes(data[end : end + 8]) * 1_000_000) if known else None
    for headers in header_slices(data):
        for _, _, value in values(data, headers):
            for state in partitions.replay(value or b"", offset):
                yield state._replace(t_ns=t_ns if state.partition_epoch else 0)


def read_metadata_log(brokers: Path, clock: Clock) -> History:
    """Return the history from the longest copy, of equal ones from one that begins with the log."""
    copies = [history(_files(folder), clock) for folder in sorted(brokers.glob(f"*/**/{FOLDER}"))]
    return max(copies, key=_reach, default=History([]))


def _reach(copy: History) -> tuple[int, int, bool]:
    newest: dict[tuple[str, int], int] = {}
    for state in copy.states:
        newest[state.topic, state.partition] = max(state.partition_epoch, newest.get((state.topic, state.partition), 0))
    return sum(epoch + 1 for epoch in newest.values()), len(copy.states), copy.problem is None


def _files(folder: Path) -> list[Path]:
    segments = sorted(folder.glob("*.log"))
    first = segments[0].stem if segments else ""
    snapshots = sorted(file for file in folder.glob("*.checkpoint") if file.stem >= first)
    return [*(snapshots[:1] if first.strip("0") else ()), *segments]  # the oldest dates most
