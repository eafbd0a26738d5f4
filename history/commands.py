"""Run a program to its end, within a time limit."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from history.errors import HarnessError


def run_command(command: Sequence[str | Path], limit_s: float = 900, **how: Any) -> subprocess.CompletedProcess[str]:
    """Call ``subprocess.run`` and capture the output.

    Raises: HarnessError: the program did not end in time, and was killed.
    """
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit_s, **how)
    except subprocess.TimeoutExpired as error:
        words = shlex.join(map(str, command))
        raise HarnessError(
            f"{words[:200]} did not end within {limit_s:g} s and was killed; look for a busy host or a network that "
            "does not answer, and start again."
        ) from error
