"""Calls on a run that note themselves, in the place of those that start a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters.run import experiment
from history.folder import RunFolder


def note_calls(monkeypatch: pytest.MonkeyPatch, *names: str) -> list[str]:
    """Replace calls of ``clusters.run.experiment``; returns what was called, with its arguments. Collecting seals."""
    made: list[str] = []

    def replace(name: str) -> None:
        def call(run: Path, *arguments: object) -> None:
            made.append(" ".join([name, *map(str, arguments)]))
            if name == "collect":
                RunFolder(run).seal()

        monkeypatch.setattr(experiment, name, call)

    for name in names:
        replace(name)
    return made
