"""Remove everything with a run's label."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from docker.errors import APIError, NotFound

from clusters.runtimes.docker.daemon import RUN_LABEL, Daemon, connected, trying
from clusters.runtimes.docker.namespaces import HOLDER
from history.errors import HarnessError


def remove_everything(daemon: Daemon) -> list[str]:
    """Remove a run's leftovers and return them; continue after a failure.

    Raises:
        HarnessError: Docker did not respond, or refused.
    """
    with trying(f"say what is left of {daemon.run.name}", advice="once it answers, run `make clean`"):
        found = _removals(daemon)
    refused = []
    for _, remove in found:
        try:
            remove()
        except HarnessError as error:
            refused.append(str(error))
    if refused:
        raise HarnessError(f"Docker did not remove all of {daemon.run.name}; run `make clean`. {' '.join(refused)}")
    return sorted(name for name, _ in found)


def _removals(daemon: Daemon) -> list[tuple[str, Callable[[], object]]]:
    """Return everything with the run's label and its removal, in order."""
    mine: dict[str, Any] = {"label": f"{RUN_LABEL}={daemon.run}"}
    client = daemon.client
    containers = client.containers.list(all=True, filters=mine, ignore_removed=True)
    # A node is removed before its namespace's holder.
    names = sorted((str(container.name) for container in containers), key=lambda name: name.endswith(HOLDER))
    others: list[Any] = [*client.networks.list(filters=mine), *client.volumes.list(filters=mine)]
    return [
        *((name, partial(remove_container, daemon, name)) for name in names),
        *((str(thing.name), partial(_remove, thing)) for thing in others),
    ]


def remove_container(daemon: Daemon, name: str) -> None:
    """Kill and remove a container, unless that is done or under way."""
    with _removing(name):
        daemon.client.containers.get(name).remove(force=True)


def _remove(thing: Any) -> None:
    with _removing(thing.name):
        thing.remove()


@contextmanager
def _removing(name: str) -> Iterator[None]:
    with trying(f"remove {name}"), suppress(NotFound):  # already removed
        try:
            yield
        except APIError as error:
            if error.status_code != 409:  # 409: under way
                raise


def runs_with_leftovers() -> set[Path]:
    """Return the run folders in labels of containers, networks and disks."""
    with connected() as client, trying("say what runs have left"):
        everything = [
            *client.containers.list(all=True, filters={"label": RUN_LABEL}, ignore_removed=True),
            *client.networks.list(filters={"label": RUN_LABEL}),
            *client.volumes.list(filters={"label": RUN_LABEL}),
        ]
        return {Path(_labels(thing)[RUN_LABEL]) for thing in everything}


def _labels(thing: Any) -> dict[str, str]:
    found: dict[str, str] = thing.attrs.get("Labels") or thing.attrs["Config"]["Labels"]
    return found
