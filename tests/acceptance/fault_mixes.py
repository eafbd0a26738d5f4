"""Run ``plimsoll soak`` or ``plimsoll fuzz`` with a changed fault mix."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from clusters.scenario.scenario import merge_patch
from tests.rows import ROOT


def play(command: str, folder: Path, mix: Path, changes: Mapping[str, Any], asked: Sequence[str]) -> int:
    """Return the exit code; runs are in ``folder``/runs."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    changed = folder.with_suffix(".yaml")
    changed.write_text(yaml.safe_dump(merge_patch(yaml.safe_load(mix.read_text()), changes)))
    words = [str(ROOT / "plimsoll"), command, "--fault-mix", str(changed), *asked]
    with folder.with_suffix(".log").open("a") as log:
        variables = {**os.environ, "PLIMSOLL_RUNS": str(folder / "runs")}
        return subprocess.run(words, env=variables, stdout=log, stderr=log, check=False).returncode
