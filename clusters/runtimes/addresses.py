"""The addresses of a run's nodes: a /24 range of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

HOST = 10  # the first node's last address byte


def candidate_prefixes(run: Path, first_byte: int, second_bytes: int) -> Iterator[str]:
    """64 address ranges to try (their first three bytes), beginning at one that follows from the run's name."""
    start = int.from_bytes(hashlib.sha256(run.name.encode()).digest()[:2])
    for attempt in range(64):
        high, low = divmod((start + attempt) % (second_bytes * 254), 254)
        yield f"{first_byte}.{high + 20}.{low + 1}"
