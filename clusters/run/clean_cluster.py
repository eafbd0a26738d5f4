"""Remove what runs that crashed have left on a cluster that somebody else runs."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from pathlib import Path

from clusters.attached.cluster_file import access_of, read_cluster_file
from clusters.attached.discover import discover, open_connection
from clusters.attached.own_topics import remove
from clusters.attached.queries import AnyBroker
from clusters.attached.registry import Entry, Registry
from clusters.kafka.connection import Connection
from clusters.live.plan import PLAN
from clusters.live.world import TORN_DOWN, World
from clusters.run import attached
from clusters.run.leftovers import is_leased
from clusters.runtimes import open_runtime
from history.errors import HarnessError
from history.folder import RunFolder


def clean_cluster(file: Path, *, everything: bool) -> Iterator[str]:
    """Yield what was found and done: hooks that end faults, deleted topics, and what stays.

    Topics of runs that go on stay, and those of other hosts unless ``everything``.

    Raises:
        BadInput: the cluster cannot be reached.
        HarnessError: it keeps topics.
    """
    described = read_cluster_file(file)
    access = access_of(described)
    found = discover(described, access, [])
    addresses = {number: broker.address for number, broker in found.brokers.items() if broker.address}

    def connect(number: int) -> Connection:
        connection = open_connection(described, access, addresses[number])
        connection.forwards_to_controller = found.mode == "kraft"
        return connection

    registry, brokers = Registry(connect, addresses, described.topics.prefix), AnyBroker(connect, addresses)
    remaining: list[str] = []
    for (host, run), entries in _by_run(registry.entries().values()):
        names = ", ".join(entry.topic for entry in entries)
        if host != socket.gethostname() and not everything:
            yield f"{names}: left alone, of a run on host {host}; clean it there, or with --all"
        elif host == socket.gethostname() and is_leased(Path(run)):
            yield f"{names}: left alone, of {run}, which is under way"
        else:
            yield from _end_run(Path(run))
            with brokers.connection() as connection:
                removed = remove(registry, connection, entries)
            yield from (f"topic {topic}: deleted" for topic in removed.deleted)
            yield from (f"topic {topic}: not the one that the run created; left alone" for topic in removed.foreign)
            remaining += removed.remaining
    if remaining:
        raise HarnessError(attached.not_deleted(remaining))


def _by_run(entries: Iterable[Entry]) -> list[tuple[tuple[str, str], list[Entry]]]:
    runs: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        runs.setdefault((entry.host, entry.run), []).append(entry)
    return sorted(runs.items())


def _end_run(run: Path) -> Iterator[str]:
    if not (RunFolder(run).work / PLAN).exists():
        yield f"{run} is gone, so faults that it left active are unknown; check that every broker answers"
        return
    (RunFolder(run).work / TORN_DOWN).touch()
    open_runtime("process", run).remove_all()  # its clients, which would create the topics again
    with World.open(run) as world:
        yield from attached.end_faults(world)
