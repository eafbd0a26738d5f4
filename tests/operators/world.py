"""An Airflow of the tests' own in which Kafka, Spark and the page are fakes."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from history.folder import write_atomically
from service import airflow

REPOSITORY = Path(__file__).resolve().parents[2]
FAKE_WORLD = Path(__file__).parent / "fake_world"


class World(NamedTuple):
    """The folder of an Airflow home, runs, and the files of the fakes."""

    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def calls(self) -> list[str]:
        """Return the fakes' calls, except the reaper's and the commands' removal of leftovers."""
        return [call for call in (self.folder / "calls").read_text().splitlines() if call != "reap False"]

    def set(self, **fakes: str) -> None:
        """Change the fakes' settings."""
        write_atomically(self.folder / "settings", json.dumps(fakes))

    def begin(self, **fakes: str) -> str:
        """Forget earlier calls; return the id of the next run."""
        run_id = f"run-{secrets.token_hex(4)}"
        self.set(FAKE_RUN=run_id, **fakes)
        (self.folder / "calls").write_text("")
        return run_id

    def environment(self) -> dict[str, str]:
        """Return the variables of a process in this world."""
        return {
            "FAKE_CALLS": str(self.folder / "calls"),
            "FAKE_SETTINGS": str(self.folder / "settings"),
            "PLIMSOLL_RUNS": str(self.folder / "runs"),
            "PLIMSOLL_SERVICE": str(self.home),
            "PYTHONPATH": os.pathsep.join([str(FAKE_WORLD), str(REPOSITORY)]),
        }


@contextmanager
def fake_world(folder: Path) -> Iterator[World]:
    """Yield a world whose variables the environment has; end its Airflow afterwards."""
    world = World(folder)
    world.begin()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in world.environment().items():
            patch.setenv(name, value)
        try:
            yield world
        finally:
            airflow.down(world.home)
