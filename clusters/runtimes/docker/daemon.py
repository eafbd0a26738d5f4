"""Connect to the Docker daemon; only ``trying`` turns its errors into HarnessError."""

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
from history.access import variables
from history.errors import HarnessError

RUN_LABEL = "plimsoll.run"
# Marks around a command's output, to detect lost parts.
_WHOLE = ("sh", "-c", 'echo "<"; LC_ALL=C "$@" 2>&1; echo ">$?"', "sh")
_ANSWER_LIMIT_S = 20.0
MAX_SAID = 500  # characters


@contextmanager
def trying(what: str, advice: str = "") -> Iterator[None]:
    """Turn Docker's errors into a message about ``what``, which includes the node's name.

    Raises:
        HarnessError: Docker refused or did not respond; with its message.
    """
    try:
        yield
    except (DockerException, OSError) as error:  # OSError: by requests, if the daemon hangs
        raise HarnessError(f"Docker could not {what}: {said_by(error)}{advice and f'; {advice}'}.") from error


def said_by(error: Exception) -> str:
    """Return Docker's message in one line."""
    said: object = error
    if isinstance(error, ContainerError):
        printed = error.stderr.decode(errors="replace") if isinstance(error.stderr, bytes) else error.stderr
        said = f"exit status {error.exit_status}, {printed or 'nothing printed'}"
    elif isinstance(error, APIError) and error.explanation:
        said = error.explanation
    return " ".join(str(said).split())[-MAX_SAID:].rstrip(".")


@contextmanager
def connected(timeout_s: int = 60) -> Iterator[docker.DockerClient]:
    """Yield a client of the daemon."""
    with trying("be reached"):
        client = docker.from_env(timeout=timeout_s, environment=variables())
    try:
        yield client
    finally:
        client.close()


def daemon_answers() -> bool:
    """Return whether a Docker daemon responds."""
    try:
        with connected(timeout_s=5) as client, trying("answer"):
            return bool(client.ping())
    except HarnessError:
        return False


class Daemon:
    """Access the daemon by one run's label and names."""

    def __init__(self, run: Path) -> None:
        self.run = run

    @cached_property
    def client(self) -> docker.DockerClient:
        """Return a client, made on first use within ``trying``."""
        return docker.from_env(timeout=60, environment=variables())

    @property
    def label(self) -> dict[str, str]:
        return {RUN_LABEL: str(self.run)}

    @property
    def network_name(self) -> str:
        # Docker's DNS answers no reverse look-up of names over 63 characters, which ZooKeeper's client sends.
        return f"plimsoll-{self.run.name[:15]}-{self.run.name[-4:]}"

    def container_name(self, name: str) -> str:
        return f"{self.network_name}-{name}"

    def container(self, name: str) -> Any:
        """Return a node's container in its current state, or raise docker's NotFound."""
        return self.client.containers.get(self.container_name(name))

    def printed_by(self, container: Any, command: Sequence[str], what: str) -> str:
        """Return a command's output in a container; the command may run more than once.

        Docker's client sometimes loses the output's beginning, or all of it (docker-py issue 2042).

        Raises:
            HarnessError: the command failed, or its output never arrived completely.
        """

        def printed() -> re.Match[str] | None:
            with trying(what):
                said = container.exec_run([*_WHOLE, *command]).output.decode(errors="replace")
            return re.fullmatch(r"<\n(.*)>(\d+)\n", said, re.DOTALL)

        found = wait_until(printed, limit_s=_ANSWER_LIMIT_S, every_s=0.2, what=f"Docker to {what}")
        if found[2] != "0":
            raise HarnessError(f"Docker could not {what}: exit status {found[2]}, {found[1].strip()}.")
        return found[1]
