"""The folder of a run that is prepared."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any

import pytest

from clusters.kafka import builds
from clusters.run.prepare import prepare
from clusters.runtimes.docker import daemon
from history.folder import RunFolder

SCENARIO = """
name: small
why: A sound one.
cluster: {brokers: 2}
topics: {orders: {replicas: [A, B]}}
phases:
  - steady: [{hold: 4s}]
"""


class FixedDatetime:
    """A clock that stands still."""

    @staticmethod
    def now(_zone: tzinfo) -> datetime:
        return datetime(2026, 11, 29, tzinfo=UTC)


def test_a_run_id_that_is_taken_leaves_the_other_run_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs are prepared in one second and draw the same four letters; the second draws again."""
    monkeypatch.setattr(daemon, "daemon_answers", lambda: False)
    monkeypatch.setattr(builds, "kafka_jars", lambda version: Path("/jars") / version)
    drawn = iter(["aaaa", "aaaa", "bbbb"])
    monkeypatch.setattr("clusters.run.prepare.secrets.token_hex", lambda _: next(drawn))
    monkeypatch.setattr("clusters.run.prepare.datetime", FixedDatetime)
    (tmp_path / "small.yaml").write_text(SCENARIO)
    asked: dict[str, Any] = {"kafka": "3.9.1", "runs": tmp_path / "runs", "runtime": "process"}

    first = prepare(str(tmp_path / "small.yaml"), **asked)
    try:
        second = prepare(str(tmp_path / "small.yaml"), **asked)
    except OSError:
        second = first

    assert (RunFolder(first).work / "plan.json").exists()
    assert second.name == first.name.removesuffix("aaaa") + "bbbb"
