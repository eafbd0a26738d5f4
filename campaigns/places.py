"""Where runs, their archived rows and the pages of campaigns are."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Places(NamedTuple):
    """Where runs, their archived rows and the pages of campaigns are."""

    runs: Path
    archive: Path
    site: Path

    @classmethod
    def beside(cls, runs: Path) -> Places:
        """The archive and the site lie beside the folder of the runs."""
        return cls(runs, runs.parent / "archive", runs.parent / "site")
