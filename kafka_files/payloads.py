"""Decode many payloads at once, as ``history.payload.decode`` does for one.

Values that differ only in digits and checksum share a model. CRC is linear: a checksum is the model's with zero digits,
XOR one table entry per digit.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt

from history.payload import MAX_SEQ, decode

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
MAX_MODELS = 64  # one per producer and number of digits
_MAX_DIGITS = 18  # more may exceed 64 bits
_CHECKSUM_BYTES = 8
_BAR, _ZERO = ord("|"), ord("0")


class Values(NamedTuple):
    """Values in a buffer; a negative length is null."""

    data: Bytes
    starts: Ints
    lengths: Ints


class Payloads(NamedTuple):
    """One entry per value; other payloads have producer -1.

    Without a checksum a value is not ``checked``.
    """

    producer: npt.NDArray[np.int32]  # index in the names
    seq: Ints
    checksum_ok: npt.NDArray[np.bool_]
    checked: npt.NDArray[np.bool_]


class _Model(NamedTuple):
    producer: int
    length: int
    prefix: Bytes  # with bar
    padding: Bytes  # between second bar and checksum
    crc: int  # with zero digits
    flips: tuple[npt.NDArray[np.uint32], ...]  # by position and digit


def decode_payloads(values: Values, names: dict[str, int]) -> Payloads:
    """Decode values; extend ``names``, which numbers the producers."""
    count = len(values.starts)
    nobody, nothing = np.full(count, -1, np.int32), np.full(count, -1, np.int64)
    found = Payloads(nobody, nothing, np.zeros(count, bool), np.ones(count, bool))
    left = np.flatnonzero(values.lengths >= 0)
    for _ in range(MAX_MODELS):
        if not len(left):
            return found
        model = _decode_one(values, left[0], found, names)
        fits = np.zeros(len(left), bool)
        fits[0] = True
        if model is not None:
            fits |= _decode_alike(values, left, found, model)
        left = left[~fits]
    for index in left:
        _decode_one(values, index, found, names)
    return found


def _decode_one(values: Values, index: np.intp, found: Payloads, names: dict[str, int]) -> _Model | None:
    """Decode one value; return it as a model if sound."""
    start, length = values.starts[index], values.lengths[index]
    value = values.data[start : start + length].tobytes()
    payload = decode(value)
    if payload.producer_id is None or payload.seq is None or payload.seq >= 2**63:
        return None
    producer = found.producer[index] = names.setdefault(payload.producer_id, len(names))
    found.seq[index] = payload.seq
    found.checked[index] = payload.checksum_ok is not None
    found.checksum_ok[index] = bool(payload.checksum_ok)
    if not payload.checksum_ok:
        return None
    producer_id, digits, padded = value.split(b"|", 2)
    if len(digits) > _MAX_DIGITS:
        return None
    return _Model(producer, len(value), *_parts(producer_id + b"|", len(digits), padded[:-_CHECKSUM_BYTES]))


@lru_cache(maxsize=1024)
def _parts(prefix: bytes, digits: int, padding: bytes) -> tuple[Bytes, Bytes, int, tuple[npt.NDArray[np.uint32], ...]]:
    """Cached, since this takes a thousand checksums."""

    def crc_with(at: int, digit: int) -> int:
        number = bytearray(b"0" * digits)
        number[at] += digit
        return crc32(b"%b%b|%b" % (prefix, bytes(number), padding))

    crc = crc_with(0, 0)
    flips = tuple(np.array([crc ^ crc_with(at, digit) for digit in range(10)], np.uint32) for at in range(digits))
    return np.frombuffer(prefix, np.uint8), np.frombuffer(padding, np.uint8), crc, flips


def _decode_alike(values: Values, among: npt.NDArray[np.intp], found: Payloads, model: _Model) -> npt.NDArray[np.bool_]:
    fits: npt.NDArray[np.bool_] = values.lengths[among] == model.length
    at = _kept(fits, values.starts[among])
    head = len(model.prefix) + len(model.flips) + 1
    heads = _strings(values.data, at, head)
    digits = heads[:, len(model.prefix) : -1] - np.uint8(_ZERO)
    alike = _every(heads[:, : len(model.prefix)] == model.prefix) & (heads[:, -1] == _BAR) & _every(digits < 10)
    fits[fits] = alike
    at, digits = _kept(alike, at), _kept(alike, digits)
    seq, crc = np.zeros(len(at), np.int64), np.full(len(at), model.crc, np.uint32)
    for digit, flips in zip(digits.T, model.flips, strict=True):
        seq = seq * 10 + digit
        crc ^= flips.take(digit)
    small = seq <= MAX_SEQ
    fits[fits] = small
    at, seq, crc, rows = _kept(small, at), _kept(small, seq), _kept(small, crc), _kept(fits, among)
    other = np.flatnonzero(~_every(_strings(values.data, at + head, len(model.padding)) == model.padding))
    crc[other] = _crcs(values.data, at[other], model.length - _CHECKSUM_BYTES)
    checksums = _strings(values.data, at + model.length - _CHECKSUM_BYTES, _CHECKSUM_BYTES)
    found.producer[rows] = model.producer
    found.seq[rows] = seq
    found.checksum_ok[rows] = np.equal(checksums.view("<u8")[:, 0], _hex(crc))
    return fits


def _kept(kept: npt.NDArray[np.bool_], rows: Any) -> Any:
    return rows if kept.all() else rows[kept]


def _crcs(data: Bytes, at: Ints, length: int) -> npt.NDArray[np.uint32]:
    view = np.ascontiguousarray(data).data
    return np.fromiter((crc32(view[start : start + length]) for start in at.tolist()), np.uint32, len(at))


def _strings(data: Bytes, at: Ints, length: int) -> Bytes:
    if not length:
        return np.zeros((len(at), 0), np.uint8)
    every = np.ndarray((len(data) - length + 1,), f"V{length}", data, strides=(1,))
    copies: Bytes = every[at].view(np.uint8).reshape(len(at), length)
    return copies


def _every(true: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    if true.all():
        return np.ones(len(true), bool)
    found: npt.NDArray[np.bool_] = np.logical_and.reduce(true, axis=1)
    return found


def _hex(numbers: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint64]:
    """Return eight hexadecimal digits as a little-endian integer."""
    spread = numbers.astype(np.uint64)
    for shift, mask in ((16, 0x0000FFFF0000FFFF), (8, 0x00FF00FF00FF00FF), (4, 0x0F0F0F0F0F0F0F0F)):
        spread = (spread | (spread << np.uint64(shift))) & np.uint64(mask)
    letters = ((spread + np.uint64(0x0606060606060606)) >> np.uint64(4)) & np.uint64(0x0101010101010101)
    text: npt.NDArray[np.uint64] = spread + np.uint64(0x3030303030303030) + letters * np.uint64(ord("a") - ord("9") - 1)
    return text.byteswap()
