"""A list of this host's runs of the test's own: metrics show the list."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters.run import host


@pytest.fixture(autouse=True)
def own_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """For everything that reads the list."""
    monkeypatch.setattr(host, "HOST", tmp_path / "host")
    return tmp_path / "host"
