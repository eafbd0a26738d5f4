"""Removal of a run's leftovers, with a fake daemon."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import APIError, DockerException, NotFound

from clusters.runtimes.docker import daemon as module
from clusters.runtimes.docker.runtime import DockerRuntime
from history.errors import HarnessError


class Thing:
    """A Docker object that keeps its removal, or raises this error instead."""

    def __init__(self, name: str, gone: list[str], error: APIError | None = None) -> None:
        self.name, self.gone, self.error = name, gone, error

    def remove(self, **_: Any) -> None:
        if self.error:
            raise self.error
        self.gone.append(self.name)


def with_leftovers(containers: list[Thing], networks: list[Thing], disks: list[Thing]) -> DockerRuntime:
    """Return the runtime of a run with these leftovers."""

    def found(things: list[Thing]) -> SimpleNamespace:
        by_name = {thing.name: thing for thing in things}
        return SimpleNamespace(list=lambda **_: things, get=by_name.__getitem__)

    opened = DockerRuntime(Path("/runs/a-run"))
    opened._daemon.__dict__["client"] = SimpleNamespace(
        containers=found(containers), networks=found(networks), volumes=found(disks)
    )
    return opened


def answer(status: int) -> Any:
    """Return a response of the daemon."""
    return SimpleNamespace(status_code=status, url="http://docker", reason="refused")


def test_everything_of_a_run_is_removed_in_order() -> None:
    """Nodes are removed before the container that holds their address; objects that are already gone are skipped."""
    gone: list[str] = []
    containers = [Thing("b-net", gone), Thing("b", gone), Thing("c", gone, APIError("removing", answer(409)))]
    networks = [Thing("n", gone, NotFound("no such network")), Thing("m", gone)]
    disks = [Thing("d", gone, NotFound("no such volume")), Thing("e", gone)]

    assert with_leftovers(containers, networks, disks).remove_all() == ["b", "b-net", "c", "d", "e", "m", "n"]
    assert gone == ["b", "b-net", "m", "e"]


def test_what_docker_refuses_keeps_nothing_else_from_being_removed() -> None:
    """If Docker fails to remove one object, the others are removed and the error names it."""
    gone: list[str] = []
    busy = APIError("refused", answer(403), "n has active endpoints")
    left = with_leftovers([Thing("b", gone)], [Thing("n", gone, busy)], [Thing("d", gone)])

    with pytest.raises(
        HarnessError, match=r"Docker did not remove all of a-run; run `make clean`. .* not remove n: n has active"
    ):
        left.remove_all()
    assert gone == ["b", "d"]


@pytest.mark.parametrize("error", [DockerException("no socket"), OSError("timed out")])
def test_a_silent_daemon_has_not_said_that_nothing_is_left(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the daemon does not answer, removal is an error."""

    def silent(**_: object) -> None:
        raise error

    monkeypatch.setattr(module.docker, "from_env", silent)
    with pytest.raises(
        HarnessError, match=f"Docker could not say what is left of a-run: {error}; once it answers, run `make clean`"
    ):
        DockerRuntime(Path("/runs/a-run")).remove_all()
