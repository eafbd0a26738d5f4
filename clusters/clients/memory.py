"""What a client frees it needs again at once; the C library would give it back, and the kernel zero it each time."""

from __future__ import annotations

import ctypes
from contextlib import suppress

KEPT_BYTES = 1 << 26  # more than a reader frees between two answers
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of malloc.h


def keep_freed_memory() -> None:
    """Let this process keep up to ``KEPT_BYTES`` that were freed: else half of the time of decoding records goes into
    pages that come and go. A C library other than glibc does as it likes.
    """
    with suppress(AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, KEPT_BYTES)
        mallopt(_TRIM_THRESHOLD, KEPT_BYTES)
