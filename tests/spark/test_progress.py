"""Progress of a judgement."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest

from clusters.waiting import wait_until
from history.folder import RunFolder
from spark import progress


def stage(number: int, completed: int) -> SimpleNamespace:
    """Return what Spark Connect tells of a stage."""
    return SimpleNamespace(stage_id=number, num_completed_tasks=completed)


class FakeSession:
    """A session of Spark Connect that keeps its handlers."""

    def __init__(self) -> None:
        self.handlers: list[Any] = []
        self.registerProgressHandler, self.removeProgressHandler = self.handlers.append, self.handlers.remove


def test_bytes_are_those_of_the_first_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two finished tasks of three stand for the first two shares; 50 MB in 50 s leave 10 s for 10 MB."""
    begun = iter([0.0])
    monkeypatch.setattr(progress, "EVERY_S", 0.01)
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(begun, 50.0)))
    folder = RunFolder(tmp_path)
    with progress.told(folder, [30_000_000, 20_000_000, 10_000_000], lambda: 2):
        wait_until(folder.stages.is_file, limit_s=30, what="progress")

    first = json.loads(folder.stages.read_text().splitlines()[0])
    assert (first["kind"], first["step"]) == ("stage_progress", "judge")
    assert first["detail"]["what"] == "judged 50 of 60 MB"
    assert first["detail"]["left_s"] == 10
    assert f"{tmp_path.name}: judged 50 of 60 MB, about 10 s to go" in capsys.readouterr().out


def test_no_time_is_told_before_the_first_task_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a finished task the remaining time is unknown."""
    monkeypatch.setattr(progress, "EVERY_S", 0.01)
    folder = RunFolder(tmp_path)
    with progress.told(folder, [30_000_000], lambda: 0):
        wait_until(folder.stages.is_file, limit_s=30, what="progress")

    assert json.loads(folder.stages.read_text().splitlines()[0])["detail"] == {
        "what": "judged 0 of 30 MB",
        "left_s": None,
    }


def test_connect_counts_the_tasks_of_its_own_threads_last_stage() -> None:
    """Messages of the last stage count; those of another thread's query do not."""
    session = FakeSession()
    with progress.by_messages(session) as done:  # type: ignore[arg-type]
        (handler,) = session.handlers
        assert done() == 0
        handler(stages=[stage(4, 2), stage(5, 3)], inflight_tasks=2)
        other = Thread(target=handler, kwargs={"stages": [stage(8, 7)]})
        other.start()
        other.join()
        assert done() == 3
    assert session.handlers == []
