"""The Docker daemon. What it refuses leaves this folder as a HarnessError, by ``trying`` and by nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError, ContainerError, DockerException

from clusters.waiting import wait_until
from history.errors import HarnessError

RUN_LABEL = "plimsoll.run"
# Around what a command prints, to know that all of it arrived.
_WHOLE = ("sh", "-c", 'echo "<"; LC_ALL=C "$@" 2>&1; echo ">$?"', "sh")
_ANSWER_LIMIT_S = 20.0
MAX_SAID = 500  # characters


@contextmanager
def trying(what: str, advice: str = "") -> Iterator[None]:
    """Call Docker within: ``what`` is tried, with the node's name in it.

    Raises:
        HarnessError: Docker refused or does not answer; with what it said.
    """
    try:
        yield
    except (DockerException, OSError) as error:  # OSError: what requests raises of a daemon that hangs
        raise HarnessError(f"Docker could not {what}: {said_by(error)}{advice and f'; {advice}'}.") from error


def said_by(error: Exception) -> str:
    """Docker's own words, in one line."""
    said: object = error
    if isinstance(error, ContainerError):
        printed = error.stderr.decode(errors="replace") if isinstance(error.stderr, bytes) else error.stderr
        said = f"exit status {error.exit_status}, {printed or 'nothing printed'}"
    elif isinstance(error, APIError) and error.explanation:
        said = error.explanation
    return " ".join(str(said).split())[-MAX_SAID:].rstrip(".")


@contextmanager
def connected(timeout_s: int = 60) -> Iterator[docker.DockerClient]:
    """A client of the daemon, closed at the end."""
    with trying("be reached"):
        client = docker.from_env(timeout=timeout_s)
    try:
        yield client
    finally:
        client.close()


def daemon_answers() -> bool:
    """Whether a Docker daemon can be reached."""
    try:
        with connected(timeout_s=5) as client, trying("answer"):
            return bool(client.ping())
    except HarnessError:
        return False


class Daemon:
    """The daemon as one run uses it: by the run's label and names."""

    def __init__(self, run: Path) -> None:
        self.run = run

    @cached_property
    def client(self) -> docker.DockerClient:
        """Made when it is first used, within ``trying``."""
        return docker.from_env(timeout=60)

    @property
    def label(self) -> dict[str, str]:
        """By which everything of the run is found again."""
        return {RUN_LABEL: str(self.run)}

    @property
    def network_name(self) -> str:
        # Docker's own DNS answers no reverse look-up of a name of more than 63 characters; ZooKeeper's client asks.
        return f"plimsoll-{self.run.name[:15]}-{self.run.name[-4:]}"

    def container_name(self, name: str) -> str:
        """The name of a node's container."""
        return f"{self.network_name}-{name}"

    def container(self, name: str) -> Any:
        """A node's container as it is now; docker's NotFound where there is none."""
        return self.client.containers.get(self.container_name(name))

    def printed_by(self, container: Any, command: Sequence[str], what: str) -> str:
        """What a command in a container prints, to do ``what``; it may be called more than once.

        Docker's client now and then loses the beginning of it, or all (docker-py issue 2042).

        Raises:
            HarnessError: the command failed, or nothing whole ever arrived.
        """

        def printed() -> re.Match[str] | None:
            with trying(what):
                said = container.exec_run([*_WHOLE, *command]).output.decode(errors="replace")
            return re.fullmatch(r"<\n(.*)>(\d+)\n", said, re.DOTALL)

        found = wait_until(printed, limit_s=_ANSWER_LIMIT_S, every_s=0.2, what=f"Docker to {what}")
        if found[2] != "0":
            raise HarnessError(f"Docker could not {what}: exit status {found[2]}, {found[1].strip()}.")
        return found[1]
