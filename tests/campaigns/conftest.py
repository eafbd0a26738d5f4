"""A lock of the test's own: one that waited for a campaign on this host would never end."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters import host_lock


@pytest.fixture(autouse=True)
def own_host_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For everything that holds the host."""
    monkeypatch.setattr(host_lock, "LOCK", tmp_path / "host.lock")
