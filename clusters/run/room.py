"""Room on a run's disk: a phase ends while there is enough left to write down what the run recorded."""

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
WRITTEN_AGAIN = 2  # the streams become tables, and the drain reads every record that the consumer read


class Room:
    """The disk of a run, looked at no more often than every second. What servers hold is collected where it lies."""

    def __init__(self, run: RunFolder) -> None:
        self._run = run
        self._looked_s = -math.inf

    def check(self) -> None:
        """Look, unless that was done a moment ago.

        Raises:
            HarnessError: what is free is less than what is still to be written, and some to spare.
        """
        now_s = time.monotonic()
        if now_s - self._looked_s < EVERY_S:
            return
        self._looked_s = now_s
        free = shutil.disk_usage(self._run.path).free
        needed = WRITTEN_AGAIN * bytes_of(self._run.work / "streams") + SPARE_BYTES
        if free < needed:
            raise HarnessError(
                f"The disk of {self._run.path} is full: {free >> 20} MB are free, and to collect this run takes "
                f"{needed >> 20} MB. The run was ended early; make room on that disk."
            )


def bytes_of(folder: Path) -> int:
    """What the files below a folder take on the disk; one that goes meanwhile takes nothing."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            total += path.lstat().st_blocks * 512
    return total
