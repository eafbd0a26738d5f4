"""A node: everything that runs during an experiment, with one life cycle whatever its role."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from history.errors import HarnessError

FOLDER = os.O_RDONLY | os.O_DIRECTORY  # to open one


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
    beside: Node | None = None  # whose network and address it shares

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


@contextmanager
def opened(node: Node, path: Path, flags: int) -> Iterator[int]:
    """A descriptor of a file or folder of a node, opened with these flags of ``os.open`` and through no link.

    A build under test writes into its node's folder, and may put a link to any file of the user's there at any moment
    (docs/security.md).

    Raises:
        HarnessError: the path, or a folder between it and the node's own, is a link.
        OSError: as ``os.open``.
    """
    *folders, name = path.relative_to(node.folder).parts
    with ExitStack() as closing:
        at = os.open(node.folder, FOLDER)
        closing.callback(os.close, at)
        for part, how in [*((folder, FOLDER) for folder in folders), (name, flags)]:
            try:
                at = os.open(part, how | os.O_NOFOLLOW, dir_fd=at)
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENOTDIR):  # the second of a link that had to be a folder
                    raise HarnessError(
                        f"{path} of {node.name} has a link, or no folder, at {part}, and links are not followed: "
                        "Kafka makes none there; find out why the build under test does."
                    ) from error
                raise
            closing.callback(os.close, at)
        yield at
