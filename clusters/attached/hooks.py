"""Inject and heal faults through the programs that a cluster file names."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import BinaryIO, NamedTuple

from clusters.attached.cluster_file import ClusterFile, Hook
from clusters.runtimes.runtime import OF_OTHERS
from history.errors import HarnessError
from history.events import EventLog

OUTPUT_BYTES = 1_000_000
_LAST_OUTPUT_S = 1.0  # a process that the hook leaves behind keeps its output open
_ENVIRONMENT = frozenset({"PATH", "HOME", "KUBECONFIG", "SSH_AUTH_SOCK"})
_ENDS = frozenset({"resume", "reconnect"})  # no step needs these without the fault that they end


class Ran(NamedTuple):
    """An ended hook; ``exit_code`` is None if it was killed at its limit."""

    exit_code: int | None
    seconds: float
    output: Path


def capabilities(file: ClusterFile) -> frozenset[str]:
    """Return what a cluster's hooks make possible."""
    by_itself = {"start"} if file.returns_by_itself else set()
    return frozenset(file.hooks.keys() | by_itself | OF_OTHERS) - _ENDS


class Hooks:
    """Run a cluster's hooks; their outputs go to files in a folder.

    An exit code proves nothing: observers decide whether a fault took effect.
    """

    def __init__(self, file: ClusterFile, outputs: Path, events: EventLog) -> None:
        self._hooks, self._outputs, self._events = file.hooks, outputs, events

    def run(self, name: str, broker: int, **values: object) -> Ran:
        """Run a hook to its end; ``values`` are those of its other placeholders.

        Raises:
            HarnessError: the program cannot be started.
        """
        hook = self._hooks[name]
        texts = {key: "" if value is None else str(value) for key, value in values.items()}
        arguments = hook.arguments({"rack": "", "broker": str(broker), **texts})
        output = self._new_file(name, broker)
        target = f"broker-{broker}"
        # Before the start: what a crash leaves active is known by it.
        self._events.add("hook", target=target, name=name, values=texts, arguments=arguments)
        began = time.monotonic()
        try:
            process = _start(hook, arguments)
        except (OSError, ValueError) as error:  # an argument with a NUL is a ValueError
            why = getattr(error, "strerror", None) or str(error)
            raise HarnessError(f"hooks.{name}: {arguments[0]} cannot be started: {why}.") from error
        copy = _Copy(output)
        exit_code = _end_of(process, hook.limit, copy)
        ran = Ran(exit_code, time.monotonic() - began, output)
        self._events.add(
            "hook_ended",
            target=target,
            name=name,
            exit_code=exit_code,
            seconds=round(ran.seconds, 3),
            file=output.name,
            bytes=copy.size,
        )
        return ran

    def _new_file(self, name: str, broker: int) -> Path:
        self._outputs.mkdir(parents=True, exist_ok=True)
        for number in count(len(list(self._outputs.iterdir())) + 1):
            path = self._outputs / f"{number}-{name}-{broker}.txt"
            with suppress(FileExistsError):
                path.touch(exist_ok=False)
                break
        return path


@dataclass
class _Copy:
    """Copy an output to a file, and count what is beyond its limit."""

    file: Path
    size: int = 0

    def copy(self, output: BinaryIO) -> None:
        with output, self.file.open("ab", buffering=0) as file:
            while data := os.read(output.fileno(), 1 << 16):
                file.write(data[: max(OUTPUT_BYTES - self.size, 0)])
                self.size += len(data)


def _start(hook: Hook, arguments: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        arguments,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=_environment(os.environ, hook),
        start_new_session=True,
    )


def _environment(own: Mapping[str, str], hook: Hook) -> dict[str, str]:
    passed = _ENVIRONMENT | set(hook.environment)
    return {name: value for name, value in own.items() if name in passed or name.startswith("AWS_")}


def _end_of(process: subprocess.Popen[bytes], limit_s: float, copy: _Copy) -> int | None:
    """Return the exit code, or None after killing the process group at the limit."""
    reader = threading.Thread(target=copy.copy, args=(process.stdout,), daemon=True)
    reader.start()
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:  # also after an interrupt
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        reader.join(_LAST_OUTPUT_S)
