"""Find and explain unexpected ends of server processes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from evidence.faults import fault_spans
from history.events import Event
from history.manifest import Manifest
from history.traits import Trait

_SESSION = "NodeExists"  # the broker restarted before its ZooKeeper session expired
_ERROR = re.compile("ERROR|FATAL|Exception")  # normal starts and stops also name log directories
_STORAGE = re.compile("corrupt|KafkaStorageException|log dir", re.IGNORECASE)


def explanation(event: Event, events: Sequence[Event], manifest: Manifest) -> str | None:
    """Return why a server may have ended (event ``server_exited``), if explained.

    Accepted are an active fault that can end its process, an earlier one that changed its files if the last log lines
    show a storage error, and a restart before the ZooKeeper session expired.
    """
    for fault in fault_spans(events):
        if fault.from_ns <= event.t_ns and event.target in fault.nodes:
            if manifest.has(fault.step, Trait.NEW_LOG) and _names_storage(event):
                return f"{fault.step} changed its files"
            if manifest.has(fault.step, Trait.STOPS_PROCESS) and event.t_ns < fault.at_ns("heal"):
                return f"{fault.step} was active"
    if manifest.mode == "zookeeper" and any(_SESSION in line for line in event.detail.get("log", ())):
        return "its ZooKeeper session had not ended (NodeExists)"
    return None


def _names_storage(event: Event) -> bool:
    return any(_ERROR.search(line) and _STORAGE.search(line) for line in event.detail.get("log", ()))


def unexplained(events: Sequence[Event], manifest: Manifest) -> Iterator[Event]:
    """Yield the exits without an explanation."""
    exits = (event for event in events if event.kind == "server_exited")
    return (event for event in exits if explanation(event, events, manifest) is None)
