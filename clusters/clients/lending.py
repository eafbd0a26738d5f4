"""Give librdkafka's locks priority inheritance.

The sending loop has a real-time priority (``producer.go_first``), the library's threads do not. If one of them is
preempted while it holds a lock that the loop needs, the loop waits for the brokers on that core: milliseconds, many
times per second (docs/dev/performance.md). A lock with PTHREAD_PRIO_INHERIT lets its holder continue at once. The
library does not request it, so its calls of ``mtx_init`` are redirected to a Python function that does. The library
may call it as long as a producer exists, so the process must end with ``end_process``.
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

_RELA = 4  # section type (elf.h)
_PRIO_INHERIT = 32  # bit of a mutex's kind: glibc's PTHREAD_MUTEX_PRIO_INHERIT_NP
_KIND_AT = 16  # offset of the kind in pthread_mutex_t on 64 bits
_INIT = "mtx_init"
_Init = CFUNCTYPE(c_int, c_void_p, c_int)
_kept: list[Any] = []  # callbacks of the library must not be garbage-collected


class _Where(ctypes.Structure):
    """Map Dl_info of dlfcn.h."""

    _fields_ = (("file", c_char_p), ("base", c_void_p), ("name", c_char_p), ("at", c_void_p))


def lend_priority(function: Any) -> bool:
    """Make all future locks of the library that contains ``function`` inherit priority.

    Return False, and change nothing, without 64-bit glibc or if the library's calls cannot be redirected.
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
    """Exit without finalising the interpreter: a library thread inside it would crash, or end while holding a lock."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def cells_of(library: bytes, symbol: bytes) -> Iterator[int]:
    """Yield the offsets from the load address at which a 64-bit ELF library stores the address of a called function."""
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
