"""Remove what runs that crashed have left on a cluster that somebody else runs."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

from clusters.attached.cluster_file import access_of, read_cluster_file
from clusters.attached.discover import Discovered, discover, first_that_answers, open_connection
from clusters.attached.own_topics import remove
from clusters.attached.registry import Entry, Registry
from clusters.kafka.access import Access
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
    """
    described = read_cluster_file(file)
    access = access_of(described)
    found = discover(described, access, [])
    registry = Registry(
        lambda number: open_connection(found.brokers[number].address, access), found.brokers, described.topics.prefix
    )
    by_run: dict[tuple[str, str], list[Entry]] = {}
    for entry in registry.entries().values():
        by_run.setdefault((entry.host, entry.run), []).append(entry)
    for (host, run), entries in sorted(by_run.items()):
        names = ", ".join(entry.topic for entry in entries)
        if host != socket.gethostname() and not everything:
            yield f"{names}: left alone, of a run on host {host}; clean it there, or with --all"
        elif host == socket.gethostname() and is_leased(Path(run)):
            yield f"{names}: left alone, of {run}, which is under way"
        else:
            yield from _clean_run(Path(run), entries, registry, found, access)


def _clean_run(
    run: Path, entries: list[Entry], registry: Registry, found: Discovered, access: Access | None
) -> Iterator[str]:
    if (RunFolder(run).work / PLAN).exists():
        (RunFolder(run).work / TORN_DOWN).touch()
        open_runtime("process", run).remove_all()  # its clients, which would create the topics again
        with World.open(run) as world:
            yield from attached.end_faults(world)
    else:
        yield f"{run} is gone, so faults that it left active are unknown; check that every broker answers"
    with first_that_answers([broker.address for broker in found.brokers.values()], access) as connection:
        connection.forwards_to_controller = found.mode == "kraft"
        removed = remove(registry, connection, entries)
    yield from (f"topic {topic}: deleted" for topic in removed.deleted)
    yield from (f"topic {topic}: not the one that the run created; left alone" for topic in removed.foreign)
    if removed.remaining:
        raise HarnessError(attached.not_deleted(removed.remaining))
