"""Read partition history from ZooKeeper's ``version-2/log.<zxid>``.

After a 16-byte header follow transactions: checksum (8 bytes), length (4), body, 0x42; preallocated space is zeros. A
state znode's version is the partition epoch.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from history.errors import EvidenceError
from kafka_files.clock import Clock
from kafka_files.states import History, State, up_to_damage

_FILE_HEADER, _ENTRY, _TRANSACTION = 16, struct.Struct(">qi"), struct.Struct(">qiqqi")
_CREATE, _SET_DATA, _MULTI = {1, 19, 21}, 5, 14
_STATE = re.compile(r"/brokers/topics/([^/]+)/partitions/([0-9]{1,9})/state")
_TOPIC = re.compile(r"/brokers/topics/([^/]+)")


class Write(NamedTuple):
    """A created or set znode."""

    zxid: int
    wall_ms: int
    path: str
    data: bytes
    version: int


def writes(log: bytes) -> Iterator[Write]:
    """Yield the writes.

    Raises: EvidenceError: the next transaction is torn or damaged.
    """
    at = _FILE_HEADER
    while at + _ENTRY.size <= len(log):
        _, length = _ENTRY.unpack_from(log, at)
        start, at = at + _ENTRY.size, at + _ENTRY.size + length + 1
        if not any(log[start - _ENTRY.size : start]):
            return
        if length < _TRANSACTION.size or at > len(log):
            raise EvidenceError(f"The transaction at byte {start - _ENTRY.size} of ZooKeeper's log is torn.")
        _, _, zxid, wall_ms, kind = _TRANSACTION.unpack_from(log, start)
        try:
            written = list(_written(kind, log[start + _TRANSACTION.size : at - 1]))
        except (struct.error, ValueError) as error:
            raise EvidenceError(f"Transaction {zxid} of ZooKeeper's log cannot be read: {error}.") from error
        for path, data, version in written:
            yield Write(zxid, wall_ms, path, data, version)


def _written(kind: int, body: bytes, *, inner_one: bool = False) -> Iterator[tuple[str, bytes, int]]:
    """Yield the znodes that a transaction wrote.

    Raises: struct.error, ValueError.
    """
    if kind == _MULTI:
        if inner_one:
            raise ValueError("a multi transaction contains another one")
        (count,), at = struct.unpack_from(">i", body), 4
        for _ in range(count):
            inner, length = struct.unpack_from(">ii", body, at)
            if length < 0:
                raise ValueError(f"a transaction of {length} bytes")
            yield from _written(inner, body[at + 8 : at + 8 + length], inner_one=True)
            at += 8 + length
    elif kind in _CREATE or kind == _SET_DATA:
        path, at = _buffer(body, 0)
        data, at = _buffer(body, at)
        yield path.decode(), data, struct.unpack_from(">i", body, at)[0] if kind == _SET_DATA else 0


def _buffer(body: bytes, at: int) -> tuple[bytes, int]:
    length = max(struct.unpack_from(">i", body, at)[0], 0)
    return body[at + 4 : at + 4 + length], at + 4 + length


def states(written: Iterable[Write], clock: Clock) -> Iterator[State]:
    """Yield the states among writes."""
    assigned: dict[str, dict[str, Any]] = {}
    for write in written:
        if topic := _TOPIC.fullmatch(write.path):
            assigned[topic[1]] = _json(write.data)
        elif partition := _STATE.fullmatch(write.path):
            said, topic_said = _json(write.data), assigned.get(partition[1], {})
            if _is_int(said.get("leader")) and _is_int(said.get("leader_epoch")) and _is_ids(said.get("isr")):
                yield State(
                    topic=partition[1],
                    partition=int(partition[2]),
                    source="znode",
                    position=write.zxid,
                    t_ns=clock.monotonic_ns(write.wall_ms * 1_000_000),
                    leader=said["leader"],
                    leader_epoch=said["leader_epoch"],
                    partition_epoch=write.version,
                    replicas=_ids(topic_said, "partitions", partition[2]),
                    isr=tuple(said["isr"]),
                    adding=_ids(topic_said, "adding_replicas", partition[2]),
                    removing=_ids(topic_said, "removing_replicas", partition[2]),
                )


def _is_int(value: object) -> bool:
    return type(value) is int and -(2**31) <= value < 2**31


def _is_ids(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_int, value))


def _ids(said: dict[str, Any], name: str, partition: str) -> tuple[int, ...]:
    by_partition = said.get(name)
    found = by_partition.get(partition) if isinstance(by_partition, dict) else None
    return tuple(found) if isinstance(found, list) and _is_ids(found) else ()


def _json(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def read_znodes(brokers: Path, clock: Clock) -> History:
    """Return the history up to the first damage."""
    files = sorted(brokers.glob("*/**/version-2/log.*"), key=lambda file: int(file.suffix[1:], 16))
    return up_to_damage(states((write for file in files for write in writes(_without_zeros(file))), clock))


def _without_zeros(file: Path) -> bytes:
    """Read a file without its 64 MiB of preallocated zeros."""
    found = bytearray()
    with file.open("rb") as log:
        while chunk := log.read(1 << 16):
            found += chunk
            if not any(chunk):
                break
    return bytes(found)
