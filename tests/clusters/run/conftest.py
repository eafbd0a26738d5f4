"""A host without Docker, and a small scenario."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters.kafka import builds
from clusters.runtimes.docker import daemon
from tests.clusters.run.small import SCENARIO


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host without Docker, with the jars of every version."""
    monkeypatch.setattr(daemon, "daemon_answers", lambda: False)
    monkeypatch.setattr(builds, "kafka_jars", lambda version: Path("/jars") / version)


@pytest.fixture
def told(tmp_path: Path) -> str:
    """The path of a small scenario."""
    (tmp_path / "small.yaml").write_text(SCENARIO)
    return str(tmp_path / "small.yaml")
