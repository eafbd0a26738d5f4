"""A campaign that is killed at any moment can be resumed: its folder, the archive and its pages.

The files are captured before each file operation, and with each new file truncated, as a kill would leave them.
"""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from campaigns import rounds, runner
from campaigns.campaign import CampaignFolder
from campaigns.places import Places
from clusters.run import experiment
from history import archive
from reports.page import PLOTLY
from tests.campaigns.comparison import P99, run_rows
from tests.model.seeds import fresh_seed

SAMPLE = 16  # moments that make test tries; their seed is printed with the model's
SETTINGS = {"base": "3.9.0", "head": "3.9.1", "scenarios": ["steady"], "pairs": 2, "aa_pairs": 2}
Tree = dict[str, bytes]  # by path
OPERATIONS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink"}


def work(places: Places) -> CampaignFolder:
    """Plan, record and conclude whatever is not done yet; a run is replaced by its rows."""
    folder = runner.plan("compare", SETTINGS, name="c1", seed=7, places=places)
    for item in rounds.pending(folder, places):
        (row,) = run_rows(item, {P99: 5.0})
        archive.add(places.archive, [{name: row.get(name) for name in archive.ARCHIVE.names}])
    rounds.decide(folder, places)
    runner.conclude(folder, places)
    return folder


def tree_of(root: Path) -> Tree:
    """Return every file with its bytes."""
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def settled(root: Path) -> Tree:
    """Return the files without temporary ones and without the times of stages."""
    return {name: data for name, data in tree_of(root).items() if not Path(name).name.startswith((".", "stages"))}


class Watch:
    """Captures a folder's files before each operation in it, by an audit hook that Python cannot remove."""

    def __init__(self) -> None:
        self._root: Path | None = None
        self._looking = False
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[object, ...]) -> None:
        if self._root is None or self._looking or event not in OPERATIONS:
            return
        if str(self._root) in str(arguments[0]):
            self._looking = True
            self.states.append(tree_of(self._root))
            self._looking = False

    def states_of(self, root: Path, act: Callable[[], object]) -> list[Tree]:
        """Return the different states of the folder while ``act`` runs."""
        self.states = list[Tree]()
        self._root = root
        try:
            act()
        finally:
            self._root = None
        return [state for at, state in enumerate(self.states) if at == 0 or state != self.states[at - 1]]


WATCH = Watch()


class OneDay(datetime):
    """A clock with a constant time, since plans and pages contain their creation time."""

    @classmethod
    def now(cls, tz: object = None) -> datetime:
        return datetime(2026, 11, 1, 8, tzinfo=UTC)


def cut(states: list[Tree]) -> Iterator[Tree]:
    """Yield each state, preceded by states in which each new file is truncated to half and to nothing."""
    for before, after in pairwise([states[0], *states]):
        moved = set(before.values())
        for name, data in after.items():
            if before.get(name) != data and data not in moved:
                yield before | {name: data[: len(data) // 2]}
                yield before | {name: b""}
        yield after


def put(root: Path, state: Tree) -> None:
    """Replace the folder's files by these."""
    shutil.rmtree(root, ignore_errors=True)
    for name, data in state.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)


@pytest.mark.parametrize(
    "tried", [SAMPLE, pytest.param(None, marks=pytest.mark.slow)], ids=["some moments", "every moment"]
)
def test_a_campaign_that_was_killed_at_any_moment_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tried: int | None
) -> None:
    """A campaign killed at any moment keeps its archived rows, and ends with the same files when resumed."""
    monkeypatch.setattr(experiment, "check", lambda *_, **__: None)
    monkeypatch.setattr(runner, "datetime", OneDay)
    root = tmp_path / "killed"
    places = Places.beside(root / "runs")
    places.site.mkdir(parents=True)
    (places.site / PLOTLY).write_text("drawn by it")

    states = WATCH.states_of(root, lambda: work(places))
    whole, rows = settled(root), archive.read(places.archive)
    moments = list(cut(states))
    assert len(rows) == 8
    assert len(moments) > 60

    archived: list[dict[str, Any]] = []
    chosen = sorted(Random(fresh_seed()).sample(range(len(moments)), tried or len(moments)))
    for number in chosen:
        put(root, moments[number])
        left = archive.read(places.archive)
        assert [row for row in left if row not in rows] == []
        assert [row for row in archived if row not in left] == []
        archived = left
        monkeypatch.setattr(os, "getpid", lambda number=number: 100_000 + number)
        work(places)
        assert settled(root) == whole
