"""Define nodes: everything that runs in an experiment, with one life cycle."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from clusters.runtimes.ports import Endpoint, Listener
from history.errors import HarnessError

FOLDER = os.O_RDONLY | os.O_DIRECTORY  # to open one


@dataclass(frozen=True)
class Node:
    """All that a runtime needs to start a node; a broker of others has no address, program or arguments.

    ``program`` is a path, or ``python`` for the runtime's own. Paths in it and in ``arguments`` are the host's; nodes
    see them under the same names. The node may write to ``folder``.
    """

    name: str
    role: str
    address: str
    folder: Path
    program: str = ""
    arguments: tuple[str, ...] = ()
    endpoints: Mapping[Listener, Endpoint] = field(default_factory=dict)  # of a server
    node_id: int | None = None
    readable: tuple[Path, ...] = ()  # other files and folders that it reads
    writable: tuple[Path, ...] = ()  # and writes
    log_dir_count: int = 1  # of a broker
    disk_bytes: int | None = None  # the size of its own disk for data (``disks``); None: the host's disk
    disk_read: float | None = None  # bytes/s (``resource_limits``)
    environment: dict[str, str] = field(default_factory=dict)
    beside: Node | None = None  # whose network and address it shares

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    @property
    def log_dirs(self) -> list[Path]:
        """Return a broker's log directories: ``data``, and with JBOD ``data-2`` and so on."""
        return [
            self.folder / (f"data-{number}" if number else "data") for number in (0, *range(2, self.log_dir_count + 1))
        ]

    @property
    def metadata_dir(self) -> Path:
        """Return KRaft's metadata directory: separate with JBOD, where each log directory may fail."""
        return self.folder / ("data" if self.log_dir_count == 1 else "metadata")

    def log_dir_of(self, replica: str) -> Path:
        """Return the log directory of a replica such as ``orders-0``; the first if none has it."""
        return next((folder for folder in self.log_dirs if (folder / replica).is_dir()), self.log_dirs[0])


@contextmanager
def opened(node: Node, path: Path, flags: int) -> Iterator[int]:
    """Yield a descriptor of a node's file or folder, opened with ``os.open``'s flags and without following links.

    A build under test can put links to the user's files into its node's folder (docs/security.md).

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
                if error.errno in (errno.ELOOP, errno.ENOTDIR):  # ENOTDIR: a link in place of a folder
                    raise HarnessError(
                        f"{path} of {node.name} has a link, or no folder, at {part}, and links are not followed: "
                        "Kafka makes none there; find out why the build under test does."
                    ) from error
                raise
            closing.callback(os.close, at)
        yield at
