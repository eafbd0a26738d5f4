"""A node: everything that runs during an experiment, with one life cycle whatever its role."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Node:
    """What a runtime needs to start a node.

    ``program`` is ``python``, of which each runtime has its own, or a path. It and all paths in ``arguments``
    are the host's: every runtime shows them to the node under the same name. ``folder`` is the node's own
    and writable; ``log`` receives what it prints.
    """

    name: str
    role: str
    address: str
    folder: Path
    program: str
    arguments: tuple[str, ...]
    node_id: int | None = None
    readable: tuple[Path, ...] = ()  # folders and files outside its own that it reads
    writable: tuple[Path, ...] = ()  # and writes
    log_dir_count: int = 1  # of a broker
    disk_bytes: int | None = None  # the size of a disk of its own for its data (``disks``); None: the host's
    disk_read: float | None = None  # bytes a second that it may read from its disk (``resource_limits``)
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    @property
    def log_dirs(self) -> list[Path]:
        """Where a broker's replicas lie: ``data``, and ``data-2`` and so on where it has several (JBOD)."""
        return [
            self.folder / (f"data-{number}" if number else "data") for number in (0, *range(2, self.log_dir_count + 1))
        ]

    @property
    def metadata_dir(self) -> Path:
        """Where KRaft's metadata log lies: apart from the replicas where each of several log directories may fail."""
        return self.folder / ("data" if self.log_dir_count == 1 else "metadata")

    def log_dir_of(self, replica: str) -> Path:
        """The log directory that holds a replica such as ``orders-0``; the first one where none does."""
        return next((folder for folder in self.log_dirs if (folder / replica).is_dir()), self.log_dirs[0])
