"""Drop log segments from the page cache, to read from the disk next."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_LIBC = ctypes.CDLL(None, use_errno=True)


def drop(folders: Iterable[Path]) -> dict[str, Any]:
    """Write back and drop log segments; return bytes cached before and after, and on disk."""
    segments = [path for folder in folders for path in sorted(folder.rglob("*.log"))]
    before = sum(map(resident_bytes, segments))
    for path in segments:
        segment = os.open(path, os.O_RDONLY)
        try:
            os.fdatasync(segment)  # dirty pages would stay
            os.posix_fadvise(segment, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(segment)
    after = sum(map(resident_bytes, segments))
    return {"before_bytes": before, "after_bytes": after, "log_bytes": sum(path.stat().st_size for path in segments)}


def resident_bytes(path: Path) -> int:
    """Return a file's bytes in the page cache, in whole pages (mincore)."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            return 0
        # ctypes needs a writable map to take the address.
        mapped = mmap.mmap(file.fileno(), size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
    pages = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
    start = ctypes.c_char.from_buffer(mapped)
    failed = _LIBC.mincore(ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(size), pages)
    del start  # it holds the mapping
    mapped.close()
    if failed:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(path))
    return sum(page & 1 for page in pages) * mmap.PAGESIZE
