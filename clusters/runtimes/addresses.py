"""Choose the addresses of a run's nodes in its own /24 range."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

HOST = 10  # the first node's last address byte


def candidate_prefixes(run: Path, first_byte: int, second_bytes: int) -> Iterator[str]:
    """Yield the first three bytes of 64 ranges to try, starting at one derived from the run's name."""
    start = int.from_bytes(hashlib.sha256(run.name.encode()).digest()[:2])
    for attempt in range(64):
        high, low = divmod((start + attempt) % (second_bytes * 254), 254)
        yield f"{first_byte}.{high + 20}.{low + 1}"
