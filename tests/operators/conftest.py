"""A list of this host's runs for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters.run import host


@pytest.fixture(autouse=True)
def own_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test wait for a run of another one."""
    monkeypatch.setattr(host, "HOST", tmp_path.with_name(f"{tmp_path.name}-host"))
