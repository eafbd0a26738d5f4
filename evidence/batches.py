"""The batches of one replica's log as columns, from its segments."""

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
_STEP = 0x9E3779B97F4A7C15  # 2^64 divided by the golden ratio: multiples of it are spread over all 64-bit numbers


@dataclass(frozen=True)
class Batches(Columns):
    """Batches in the order of the log, 55 bytes each.

    ``content`` stands for a batch's bytes. Equal bytes have equal contents. Two intact batches of one offset and leader
    epoch have equal contents only if length and verified CRC-32C are equal; any other two batches that differ have
    equal contents with a chance of 2^-64. ``chain`` stands for all batches up to and with this one, in their order: the
    64-bit sum of their hashes, each of content and place. Different beginnings have equal sums with a chance of 2^-64.
    Neither resists an attacker, and nobody attacks here.

    ``idempotent`` says that the batch has a sequence number that counts: it has a producer id and is no control batch.
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
    """A replica's batches; ``torn`` says that bytes follow which are no whole batch: nothing after them was read."""

    batches: Batches
    torn: bool = False

    @property
    def first_offset(self) -> int | None:
        """Where the exported log starts, None if it is empty."""
        return int(self.batches.base_offset[0]) if len(self.batches) else None


def read_batches(segments: Sequence[Path]) -> ReplicaBatches:
    """The batches of a replica's segments (in order), up to a torn tail; every CRC is verified."""
    parts, torn = [_columns(b"", np.zeros(0, HEADERS))], False
    for file in segments:
        with mapped(file) as data:
            for found in header_slices(data):
                torn = bool(found["problem"][-1] == Problem.TORN_TAIL)
                parts.append(_columns(data, found[:-1] if torn else found))
        if torn:
            break
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return ReplicaBatches(Batches(chain=_chain(columns["content"]), **columns), torn)


def _columns(data: Data, found: Headers) -> dict[str, NDArray[Any]]:
    """The columns of some batches, all but ``chain``."""
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
    # Length and CRC together have 63 bits, and neither a sum nor the mixing merges two values.
    contents = _mixed(place + (found["length"].astype(np.uint64) << 32 | found["crc"])).view(np.int64)
    for row in np.flatnonzero(found["problem"]).tolist():  # of these no CRC stands for the bytes
        start, end = int(found["position"][row]), int(found["position"][row] + found["size"][row])
        contents[row] = int.from_bytes(blake2b(data[start:end], digest_size=8).digest(), "little", signed=True)
    return contents


def _chain(contents: Ints) -> Ints:
    places = np.arange(1, contents.size + 1, dtype=np.uint64)
    places *= _STEP
    places += contents.view(np.uint64)
    return np.cumsum(_mixed(places), dtype=np.uint64).view(np.int64)


def _mixed(words: _Words) -> _Words:
    """Every bit of a number spread over all bits of the result, one to one: the finaliser of SplitMix64 (Steele, Lea
    and Flood, "Fast splittable pseudorandom number generators", 2014).
    """
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
