"""Build a bisection's versions on demand."""

from __future__ import annotations

import hashlib
import logging
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clusters.kafka.builds import build_of
from clusters.paths import CACHE
from history.errors import HarnessError
from history.folder import write_atomically

MADE = CACHE / "bisect"  # a file per build with its path of jars

log = logging.getLogger("plimsoll")


def made(settings: Mapping[str, Any], build: str) -> str:
    """Return a run's ``kafka``: the build, or its jars, which the command builds once in the folder ``cwd``.

    Raises:
        HarnessError: the command failed.
        BadInput: its result is not a Kafka build.
    """
    command, cwd = settings["command"], settings["cwd"]
    if not command:
        return build
    left = str(Path(cwd, settings["kafka"] or build))
    known = MADE / hashlib.sha256("\0".join((build, command, left)).encode()).hexdigest()[:16]
    if known.exists() and Path(known.read_text()).is_dir():
        return known.read_text()
    log.info("making %s: %s", build, command)
    code = subprocess.run(["bash", "-c", command], env=os.environ | {"BUILD": build}, cwd=cwd, check=False).returncode
    if code:
        raise HarnessError(f"{build} was not made: exit code {code} of {command}")
    jars = str(build_of(left).jars)
    known.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(known, jars)
    return jars
