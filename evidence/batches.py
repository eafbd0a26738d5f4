"""Read a replica's record batches from its segments, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evidence.columns import Bools, Codes, Columns, Ints
from kafka_files.batches import CONTROL, HEADERS, Data, Headers, Problem, header_slices, last_offsets, mapped

_Words = NDArray[np.uint64]
_STEP = 0x9E3779B97F4A7C15  # 2^64 / golden ratio


@dataclass(frozen=True)
class Batches(Columns):
    """Record batches in log order, 55 bytes each.

    ``content`` hashes a batch, ``chain`` all batches up to it; neither is cryptographic.
    """

    base_offset: Ints
    last_offset: Ints
    leader_epoch: Codes
    content: Ints
    chain: Ints
    kafka_producer_id: Ints
    producer_epoch: NDArray[np.int16]
    base_sequence: Codes
    record_count: Codes
    idempotent: Bools


@dataclass(frozen=True)
class ReplicaBatches:
    """A replica's batches; ``torn``: the log ends in an incomplete batch. ``begins``: each segment's first row."""

    batches: Batches
    torn: bool = False
    begins: tuple[int, ...] = ()

    @property
    def first_offset(self) -> int | None:
        return int(self.batches.base_offset[0]) if len(self.batches) else None


def read_batches(segments: Sequence[Path], *, verify: bool = True) -> ReplicaBatches:
    """Read ordered segments up to a torn tail; ``verify`` every CRC, unless all are known to be right."""
    parts, torn, begins = [_columns(b"", np.zeros(0, HEADERS))], False, []
    for file in segments:
        begins.append(sum(part["content"].size for part in parts))
        with mapped(file) as data:
            for found in header_slices(data, verify=verify):
                torn = bool(found["problem"][-1] == Problem.TORN_TAIL)
                parts.append(_columns(data, found[:-1] if torn else found))
        if torn:
            break
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return ReplicaBatches(Batches(chain=_chain(columns["content"]), **columns), torn, tuple(begins))


def _columns(data: Data, found: Headers) -> dict[str, NDArray[Any]]:
    idempotent = (found["producer_id"] >= 0) & (found["base_sequence"] >= 0) & (found["attributes"] & CONTROL == 0)
    return {
        "base_offset": np.ascontiguousarray(found["base_offset"]),
        "last_offset": last_offsets(found),
        "leader_epoch": np.ascontiguousarray(found["leader_epoch"]),
        "content": _contents(data, found),
        "kafka_producer_id": np.ascontiguousarray(found["producer_id"]),
        "producer_epoch": np.ascontiguousarray(found["producer_epoch"]),
        "base_sequence": np.ascontiguousarray(found["base_sequence"]),
        "record_count": np.ascontiguousarray(found["record_count"]),
        "idempotent": idempotent,
    }


def _contents(data: Data, found: Headers) -> Ints:
    place = _mixed(found["base_offset"].astype(np.uint64) + _mixed(found["leader_epoch"].astype(np.uint64)))
    # Injective: length and CRC have 63 bits together.
    contents = _mixed(place + (found["length"].astype(np.uint64) << 32 | found["crc"])).view(np.int64)
    for row in np.flatnonzero(found["problem"]).tolist():  # the CRC does not identify a damaged batch
        start, end = int(found["position"][row]), int(found["position"][row] + found["size"][row])
        contents[row] = int.from_bytes(blake2b(data[start:end], digest_size=8).digest(), "little", signed=True)
    return contents


def _chain(contents: Ints) -> Ints:
    places = np.arange(1, contents.size + 1, dtype=np.uint64)
    places *= _STEP
    places += contents.view(np.uint64)
    return np.cumsum(_mixed(places), dtype=np.uint64).view(np.int64)


def _mixed(words: _Words) -> _Words:
    """Apply the SplitMix64 finaliser, which is one-to-one."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
