"""Measure the total memory of a measurement's processes."""

from __future__ import annotations

import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

import psutil

EVERY_S = 0.25


class Memory:
    """Track child processes' peak memory; shared memory counts once (PSS)."""

    def __init__(self) -> None:
        self.peak_mb = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(EVERY_S):
            self.peak_mb = max(self.peak_mb, sum(map(_used_mb, psutil.Process().children(recursive=True))))


def _used_mb(process: psutil.Process) -> float:
    with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
        return float(process.memory_full_info().pss) / 1e6
    return 0.0
