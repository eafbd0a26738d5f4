"""Protect a cluster that somebody else runs from the faults of a run."""

from __future__ import annotations

import time
from collections.abc import Collection
from contextlib import suppress

from clusters.attached.cluster_file import Caps
from clusters.attached.neighbours import Neighbours
from clusters.attached.queries import NoBroker
from clusters.attached.registry import Entry, Registry
from clusters.waiting import wait_until
from history.errors import HarnessError
from history.partition import TopicPartition
from history.words import some_of

WHOLE_LIMIT_S = 60.0  # replicas of others catch up more slowly than a run's own
LOOKED_EVERY_S = 1.0
CHECKED_EVERY_S = 10.0


class Guard:
    """End a run that would harm others; ``began_ns`` is when it started, ``own`` are its topics.

    Each method raises HarnessError, after which the phase heals its faults.
    """

    def __init__(
        self, neighbours: Neighbours, registry: Registry, own: frozenset[str], caps: Caps, began_ns: int
    ) -> None:
        self._neighbours, self._registry, self._caps = neighbours, registry, caps
        self._topics, self._own = own, own | {registry.topic}
        self._began_ns = began_ns
        self._entries: dict[str, Entry] = {}
        self._looked_s = self._checked_s = 0.0

    def before_fault(self, ended: Collection[int], *, is_first: bool) -> None:
        """Check that the cluster is whole, and that partitions of others do without these brokers.

        ``is_first``: no other fault is active; otherwise replicas may be missing because of it.
        """
        if is_first:
            self._wait_until_whole()
        if left := self._neighbours.below_min_isr(self._own, without=ended):
            raise HarnessError(
                f"Without brokers {some_of(sorted(ended))}, partitions of others would be below their "
                f"min.insync.replicas: {some_of(left, 3)}; the fault is not injected."
            )

    def _wait_until_whole(self) -> None:
        behind: list[TopicPartition] = []

        def is_whole() -> bool:
            behind[:] = self._neighbours.under_replicated()
            return not behind

        wait_until(
            is_whole,
            limit_s=WHOLE_LIMIT_S,
            every_s=1.0,
            what="every replica of the cluster to be in its ISR before a fault",
            last_seen=lambda: f"outside are those of {some_of(behind)}",
        )

    def during(self, *, faults: bool) -> None:
        """Check topics and duration, and partitions of others while faults are active; rate-limited."""
        now_s = time.monotonic()
        if faults and now_s - self._looked_s >= LOOKED_EVERY_S:
            self._looked_s = now_s
            if below := self._neighbours.below_min_isr(self._own):
                raise HarnessError(f"Partitions of others are below their min.insync.replicas: {some_of(below, 3)}.")
        if now_s - self._checked_s >= CHECKED_EVERY_S:
            self._checked_s = now_s
            self.check_topics()
            if (time.monotonic_ns() - self._began_ns) / 1e9 > self._caps.duration:
                raise HarnessError(f"The run has taken longer than caps.duration of {self._caps.duration:.0f} s.")

    def written_by_others(self) -> dict[str, float]:
        """Return what others have written, as ``Neighbours.written``; nothing while a broker does not answer."""
        with suppress(OSError, NoBroker):
            return self._neighbours.written(self._own)
        return {}

    def check_topics(self) -> None:
        self._entries = self._entries or self._registry.entries()
        self._registry.check(self._topics, self._entries)
