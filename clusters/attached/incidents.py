"""Record what limits a watch's evidence: brokers that do not answer, topics that are made anew."""

from __future__ import annotations

import time
from typing import Any

from clusters.kafka.connection import TIMEOUT, UNREACHABLE
from clusters.kafka.probe import INCONSISTENT_TOPIC_ID, Tick
from history.events import EventLog


class Incidents:
    """Write an event for each, after the end of a silence."""

    def __init__(self, events: EventLog, phase: str) -> None:
        self._events, self._phase = events, phase
        self._made_anew: set[str] = set()
        self._answered_ns: dict[int, int] = {}
        self._silent: dict[int, str] = {}  # broker → its last error
        self._began_ns = time.monotonic_ns()

    def add(self, tick: Tick) -> None:
        errors = {sample.error for sample in tick.samples}
        if errors and errors <= {TIMEOUT, UNREACHABLE}:
            self._silent[tick.broker_id] = next(error for error in errors if error)
        elif errors:
            self._answers(tick.broker_id, min(sample.sent_ns for sample in tick.samples))
            self._answered_ns[tick.broker_id] = max(sample.received_ns for sample in tick.samples)
        others = {sample.topic for sample in tick.samples if sample.error == INCONSISTENT_TOPIC_ID}
        for topic in sorted(others - self._made_anew):
            self._events.add("topic_made_anew", phase=self._phase, topic=topic)
        self._made_anew |= others

    def end(self) -> None:
        for broker_id in list(self._silent):
            self._answers(broker_id, time.monotonic_ns())

    def _answers(self, broker_id: int, t_ns: int) -> None:
        if error := self._silent.pop(broker_id, None):
            seconds = round((t_ns - self._answered_ns.get(broker_id, self._began_ns)) / 1e9, 3)
            detail: dict[str, Any] = {} if broker_id in self._answered_ns else {"since_start": True}
            detail |= {"broker_id": broker_id, "seconds": seconds, "error": error}
            self._events.add("broker_silent", phase=self._phase, **detail)
