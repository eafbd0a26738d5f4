"""Write a client's summary; ``clean`` is false until its regular end."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from clusters.clients.configs import ClientConfig
from history.folder import write_atomically

REPORT_NS = 1_000_000_000


class Summary:
    """Rewrite the summary at the start, when ready, each second, and at the end."""

    def __init__(self, config: ClientConfig, role: str) -> None:
        self._path = Path(config.summary)
        self._reported_ns = time.monotonic_ns()
        self._counts: Mapping[str, int] = {}
        self._fields: dict[str, Any] = {
            "client_id": config.client_id,
            "role": role,
            "started_ns": time.monotonic_ns(),
            "ready_ns": None,
            "ended_ns": None,
            "clean": False,
            "rows": 0,
        }
        self._write()

    def ready(self) -> None:
        if self._fields["ready_ns"] is None:
            self._fields["ready_ns"] = time.monotonic_ns()
            self._write()

    def so_far(self, positions: Callable[[], Mapping[str, int | None]] | None = None, **counts: int) -> None:
        """Write progress at most once per second; if unchanged, add ``positions``."""
        now_ns = time.monotonic_ns()
        if now_ns - self._reported_ns >= REPORT_NS:
            idle, self._reported_ns, self._counts = counts == self._counts, now_ns, counts
            extra = {"positions": positions()} if idle and positions else {}
            self._fields["so_far"] = {"t_ns": now_ns, **counts, **extra}
            self._write()

    def end(self, **fields: Any) -> None:
        self._fields |= {"ended_ns": time.monotonic_ns(), "clean": True, **fields}
        self._write()

    def _write(self) -> None:
        write_atomically(self._path, json.dumps(self._fields, indent=1))
