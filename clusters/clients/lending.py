"""Locks of librdkafka that lend their holder the priority of who waits for them.

The loop that sends is first on its core (``producer.go_first``), and the library's threads are not. When one of them is
taken off its core while it holds a lock that the loop needs, the loop waits until the brokers beside it have had their
turn: milliseconds, many times a second (docs/dev/performance.md). A lock with PTHREAD_PRIO_INHERIT lets its holder go
on at once. The library does not ask for that, so its calls of ``mtx_init`` are led through a function that does. It is
one of Python's, and the library calls it for as long as there is a producer: the process ends by ``end_process``.
"""

from __future__ import annotations

import ctypes
import logging
import os
import struct
import sys
from collections.abc import Iterator
from ctypes import CFUNCTYPE, c_char_p, c_int, c_void_p
from pathlib import Path
from typing import Any, NoReturn

_RELA = 4  # a section's type (elf.h)
_PRIO_INHERIT = 32  # a bit of a mutex's kind, PTHREAD_MUTEX_PRIO_INHERIT_NP of glibc
_KIND_AT = 16  # in its pthread_mutex_t, on 64 bits
_INIT = "mtx_init"
_Init = CFUNCTYPE(c_int, c_void_p, c_int)
_kept: list[Any] = []  # what the library calls must not be collected


class _Where(ctypes.Structure):
    """Dl_info of dlfcn.h."""

    _fields_ = (("file", c_char_p), ("base", c_void_p), ("name", c_char_p), ("at", c_void_p))


def lend_priority(function: Any) -> bool:
    """Have the library of a function make only locks that lend priority from now on. False where that cannot be had,
    without glibc on 64 bits, or where a library's calls cannot be changed; its locks stay as they are.
    """
    libc, where = ctypes.CDLL(None), _Where()
    if not hasattr(libc, "gnu_get_libc_version") or ctypes.sizeof(c_void_p) != 8:
        return False
    libc.dladdr(function, ctypes.byref(where))
    cells = [where.base + at for at in cells_of(Path(where.file.decode()).read_bytes(), _INIT.encode())]
    if not cells or not all(map(_can_be_written, cells)):
        return False
    init = _Init((_INIT, libc))

    def lending(lock: int, kind: int) -> int:
        done: int = init(lock, kind)
        c_int.from_address(lock + _KIND_AT).value |= _PRIO_INHERIT
        return done

    _kept.append(_Init(lending))
    for cell in cells:
        c_void_p.from_address(cell).value = ctypes.cast(_kept[-1], c_void_p).value
    return True


def end_process(code: int) -> NoReturn:
    """End without taking the interpreter apart, in which a thread of the library's may be: it would crash the process,
    or be ended with a lock in its hand.
    """
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def cells_of(library: bytes, symbol: bytes) -> Iterator[int]:
    """Where, from its beginning in memory, a library (ELF, 64 bits) keeps the address of a function that it calls."""
    table, (size, count) = struct.unpack_from("<Q", library, 40)[0], struct.unpack_from("<HH", library, 58)
    sections = [struct.unpack_from("<IIQQQQII", library, table + size * number) for number in range(count)]
    for _, kind, _, _, begin, length, symbols, _ in sections:
        if kind != _RELA:
            continue
        listed, names = sections[symbols][4], sections[sections[symbols][6]][4]
        for cell, info, _ in struct.iter_unpack("<QQq", library[begin : begin + length]):
            (name,) = struct.unpack_from("<I", library, listed + 24 * (info >> 32))
            if library.startswith(symbol + b"\0", names + name):
                yield cell


def _can_be_written(address: int) -> bool:
    for line in Path("/proc/self/maps").read_text().splitlines():
        bounds, rights, *_ = line.split()
        begin, end = (int(bound, 16) for bound in bounds.split("-"))
        if begin <= address < end:
            return "w" in rights
    return False
