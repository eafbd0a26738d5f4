"""Show the rates of an active run's clients, and its group's lag."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

EVERY_NS = 10_000_000_000
NEARLY_ALL = 0.9  # busy share from which a generator may limit the load
_SECOND_NS = 1_000_000_000
_SAID = {"due": "offered", "sent": "sent", "acked": "acknowledged", "received": "received"}


class LoadRates:
    """Turn clients' reports (``so_far`` in their summaries) into a line every 10 s."""

    def __init__(self, clients: Path) -> None:
        self._clients = clients
        self._before: dict[str, Mapping[str, int]] = {}
        self._said_ns = time.monotonic_ns()

    def look(self) -> str:
        """Return the rates since the last line; empty if too early, or without progress."""
        now_ns = time.monotonic_ns()
        if now_ns - self._said_ns < EVERY_NS:
            return ""
        self._said_ns = now_ns
        before, self._before = self._before, dict(accounts(self._clients))
        since = [(before[name], now) for name, now in self._before.items() if name in before]
        return rates([(old, new) for old, new in since if new["t_ns"] > old["t_ns"]])


def accounts(clients: Path) -> Iterator[tuple[str, Mapping[str, int]]]:
    """Yield each client's last report: its counts and their time, ``t_ns``."""
    for file in clients.glob("*.json"):
        with suppress(OSError, ValueError, KeyError):  # removed meanwhile, or without a report
            yield file.stem, json.loads(file.read_text())["so_far"]


def rates(since: list[tuple[Mapping[str, int], Mapping[str, int]]]) -> str:
    """Return a line about clients from two reports of each."""
    per_s: defaultdict[str, float] = defaultdict(float)
    busy = 0.0
    for old, new in since:
        passed_ns = new["t_ns"] - old["t_ns"]
        for name in _SAID.keys() & new.keys():
            per_s[name] += (new[name] - old[name]) * _SECOND_NS / passed_ns
        if "waited_ns" in new:
            busy = max(busy, 1 - (new["waited_ns"] - old["waited_ns"]) / passed_ns)
    said = [f"{words} {per_s[name]:,.0f}/s" for name, words in _SAID.items() if name in per_s]
    if lags := [new["lag"] for _, new in since if "lag" in new]:
        said.append(f"the group is {sum(lags):,} records behind")
    if busy >= NEARLY_ALL:
        said.append(f"the generator is busy {busy:.0%} of its time and may be the limit")
    return ", ".join(said)
