"""Describe the host of a measurement."""

from __future__ import annotations

import time
from typing import Any

from clusters.run.manifest import host_fingerprint


def host() -> dict[str, Any]:
    """Return the machine, its libraries and its current speed."""
    return {**host_fingerprint(), "ten_million_additions_s": loop_s()}


def loop_s() -> float:
    """Return the CPU seconds of ten million additions, 0.4 to 2 on one host."""
    began_s, total = time.process_time(), 0
    for number in range(10_000_000):
        total += number
    return round(time.process_time() - began_s, 2)
