"""The formats of foreign histories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from history import extras
from history.folder import RunFolder
from history.manifest import Origin
from imports import ledger, operations, run_folder, verifiable
from imports.records import History, Tables, tables
from imports.run_folder import Settings


def _read_jepsen(paths: Sequence[Path]) -> History:
    extras.require("edn", "edn_format", "--format=jepsen")
    from imports import jepsen

    return jepsen.read(paths)


READERS: dict[Origin, Callable[[Sequence[Path]], History | Tables]] = {
    "operations": operations.read,
    "verifiable": verifiable.read,
    "ledger": ledger.read,
    "jepsen": _read_jepsen,
}


def import_history(sources: Sequence[Path], origin: Origin, settings: Settings, runs: Path) -> RunFolder:
    """Write a foreign history's run folder, or nothing on an error.

    Raises:
        BadInput: a file cannot be read as this format.
    """
    found = READERS[origin](sources)
    if isinstance(found, History):
        found = tables(found, settings.acks, settings.isolation)
    return run_folder.write(runs, origin, sources, found, settings)
