"""The folders of runs, archive, and campaign pages."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Places(NamedTuple):
    """The folders of runs, archived rows, and campaign pages."""

    runs: Path
    archive: Path
    site: Path

    @classmethod
    def beside(cls, runs: Path) -> Places:
        """Return the folders next to that of the runs."""
        return cls(runs, runs.parent / "archive", runs.parent / "site")
