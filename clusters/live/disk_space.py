"""End a phase while the disk can still hold what the run recorded."""

from __future__ import annotations

import math
import shutil
import time
from contextlib import suppress
from pathlib import Path

from history.errors import HarnessError
from history.folder import RunFolder

SPARE_BYTES = 64 << 20
EVERY_S = 1.0
WRITTEN_AGAIN = 2  # as tables and in the drain


class DiskSpace:
    """Check free disk space at most once per second; servers' files are moved, not copied."""

    def __init__(self, run: RunFolder) -> None:
        self._run = run
        self._looked_s = -math.inf

    def check(self) -> None:
        now_s = time.monotonic()
        if now_s - self._looked_s < EVERY_S:
            return
        self._looked_s = now_s
        free = shutil.disk_usage(self._run.path).free
        needed = WRITTEN_AGAIN * bytes_of(self._run.work / "streams") + SPARE_BYTES
        if free < needed:
            raise HarnessError(
                f"The disk of {self._run.path} is full: {free >> 20} MB are free, and to collect this run takes "
                f"{needed >> 20} MB. The run was ended early; free space on that disk."
            )


def bytes_of(folder: Path) -> int:
    """Return the disk usage of a folder; ignore files that disappear."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            total += path.lstat().st_blocks * 512
    return total
