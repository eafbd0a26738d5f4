"""Servers that ended without the harness's doing, and those of them that the run explains."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from history.events import Event
from history.manifest import Manifest
from history.traits import Trait

_SESSION = "NodeExists"  # ZooKeeper's error of a broker whose earlier session has not ended
_ERROR = re.compile("ERROR|FATAL|Exception")  # other lines name log directories in an orderly start or end, too
_STORAGE = re.compile("corrupt|KafkaStorageException|log dir", re.IGNORECASE)


def explanation(event: Event, events: Sequence[Event], manifest: Manifest) -> str | None:
    """Return why a server may have ended (an event ``server_exited``), or None where nothing of the run explains it.

    A fault of this server that may end its process explains it until it is healed. A fault that changed its files
    explains it from then on if its last words name a storage error. A broker that comes back before its ZooKeeper
    session has ended exits by design, and is started again.
    """
    for fault in events:
        if fault.kind == "inject" and fault.t_ns <= event.t_ns and event.target in _targets(fault):
            if manifest.has(fault.step, Trait.NEW_LOG) and _names_storage(event):
                return f"{fault.step} changed its files"
            if manifest.has(fault.step, Trait.STOPS_PROCESS) and not _healed_before(event, fault, events):
                return f"{fault.step} was active"
    if manifest.mode == "zookeeper" and any(_SESSION in line for line in event.detail.get("log", ())):
        return "its ZooKeeper session had not ended (NodeExists)"
    return None


def _names_storage(event: Event) -> bool:
    """Return whether the last words of a server name an error of its files."""
    return any(_ERROR.search(line) and _STORAGE.search(line) for line in event.detail.get("log", ()))


def unexplained(events: Sequence[Event], manifest: Manifest) -> Iterator[Event]:
    """Yield the exits that nothing of the run explains."""
    exits = (event for event in events if event.kind == "server_exited")
    return (event for event in exits if explanation(event, events, manifest) is None)


def _targets(event: Event) -> list[str]:
    return event.target.replace(",", " ").split()


def _healed_before(exit_: Event, fault: Event, events: Sequence[Event]) -> bool:
    """Whether the fault's healing began before the exit was seen."""
    return any(
        later.kind == "heal"
        and (later.step, later.target) == (fault.step, fault.target)
        and fault.t_ns <= later.t_ns <= exit_.t_ns
        for later in events
    )
