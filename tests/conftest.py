"""What this machine lacks is skipped with its reason, or fails where skipping is forbidden."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

import pytest

from clusters.runtimes.docker import daemon_answers

FORBID_SKIPS = "PLIMSOLL_FORBID_SKIPS"


def browser() -> str | None:
    """The path of a Chromium, if there is one."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


LACKING: dict[str, tuple[Callable[[], object], str]] = {
    "docker": (daemon_answers, "no Docker daemon answers"),
    "browser": (browser, "there is no Chromium"),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests whose marker names something that is not here."""
    if os.environ.get(FORBID_SKIPS):
        return
    for name, (found, why) in LACKING.items():
        marked = [item for item in items if item.get_closest_marker(name)]
        if marked and not found():
            for item in marked:
                item.add_marker(pytest.mark.skip(reason=why))
