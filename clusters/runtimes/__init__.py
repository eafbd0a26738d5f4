"""Choose where nodes run: ``docker`` (all faults) or ``process`` (local processes, no network faults)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from clusters.runtimes.runtime import CAPABILITIES, OPTIONAL, Runtime
from history.errors import BadInput, NoDocker


def open_runtime(name: str, run: Path) -> Runtime:
    """Return a run's runtime without connecting to it."""
    if name == "docker":
        from clusters.runtimes.docker.runtime import DockerRuntime

        return DockerRuntime(run)
    from clusters.runtimes.process import ProcessRuntime

    return ProcessRuntime(run)


def capabilities(name: str) -> frozenset[str]:
    """Return the capabilities of servers that a runtime runs, which steps name as needs."""
    runtime = open_runtime(name, Path())
    lacking = {part for part in OPTIONAL if getattr(runtime, part) is None}
    return CAPABILITIES - lacking - ({"disconnect"} if "network" in lacking else set())


def choose_runtime(wanted: str) -> Literal["docker", "process"]:
    """Return the requested runtime; ``auto`` is docker if a daemon responds, else process.

    Raises:
        BadInput: there is no such runtime.
        NoDocker: docker was requested, but no daemon responds.
    """
    if wanted not in ("auto", "docker", "process"):
        raise BadInput(f"--runtime={wanted} is unknown; it is auto, docker or process.")
    if wanted == "process":
        return "process"
    from clusters.runtimes.docker.daemon import daemon_answers

    if daemon_answers():
        return "docker"
    if wanted == "docker":
        raise NoDocker("--runtime=docker, but no Docker daemon answers; start it, or use --runtime=process.")
    return "process"
