"""A run folder as it looks during the run, written with the clients' own writers."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import numpy as np

from clusters.clients.ledger import NOT_SEEN, About, Ledger, error_names
from history.events import EventLog
from history.folder import RunFolder
from history.streams import RowWriter
from history.tables import ISR, REPLICAS
from tests.evidence.folders import manifest

MS = 1_000_000


class RunUnderWay:
    """Open streams of a prober and of a producer; every write is flushed at once."""

    def __init__(self, path: Path) -> None:
        self.folder = RunFolder(path)
        streams = self.folder.work / "streams"
        for folder in (streams, self.folder.clients):
            folder.mkdir(parents=True)
        manifest().model_copy(update={"run_id": path.name}).write(self.folder.manifest)
        self.events = EventLog(self.folder.events)
        self._open = ExitStack()
        self._replicas = self._open.enter_context(RowWriter(streams / "replicas-prober.arrow", REPLICAS))
        self._isr = self._open.enter_context(RowWriter(streams / "isr-prober.arrow", ISR))
        about = About("load-1", "orders", "all", may_have_retried=True)
        self._ledger = self._open.enter_context(Ledger(streams / "sends-load-1.arrow", about))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def tell(self, client: str, **counts: int) -> None:
        """Write a client's progress."""
        told = {"client_id": client, "so_far": {"t_ns": time.monotonic_ns(), **counts}}
        (self.folder.clients / f"{client}.json").write_text(json.dumps(told))

    def answered(self, *after_ms: float, errors: tuple[str, ...] = ()) -> None:
        """Record acknowledged sends with these latencies, then sends with these errors."""
        outcomes: list[str | None] = [None] * len(after_ms) + list(errors)
        rows, due_ns = len(outcomes), 1_000 * MS
        done_ns = [due_ns + int(ms * MS) for ms in after_ms] + [due_ns] * len(errors)
        told: dict[str, Any] = {"seq": range(rows), "partition": [0] * rows, "due_ns": [due_ns] * rows}
        told |= {"sent_ns": [due_ns] * rows, "done_ns": done_ns, "record_bytes": [100] * rows}
        told |= {name: [NOT_SEEN] * rows for name in ("offset", "transaction")}
        self._ledger.record(error_names(outcomes), {name: np.array(values, np.int64) for name, values in told.items()})
        self._ledger.flush()

    def probed(
        self, broker: int, hw: int | None, leo: int | None, *, ago_s: float = 0, error: str | None = None
    ) -> None:
        """Record a sample of a broker's replica of orders-0."""
        now_ns = time.monotonic_ns() - int(ago_s * 1e9)
        where = {"broker_id": broker, "topic": "orders", "partition": 0, "sent_ns": now_ns, "received_ns": now_ns}
        self._replicas.add(where | {"high_watermark": hw, "log_end_offset": leo, "error": error})
        self._replicas.flush()

    def viewed(self, observer: int, isr: list[int], *, leader: int = 1, epoch: int = 0, ago_s: float = 0) -> None:
        """Record a broker's view of orders-0."""
        now_ns = time.monotonic_ns() - int(ago_s * 1e9)
        state = {"topic": "orders", "partition": 0, "leader": leader, "leader_epoch": epoch, "isr": isr}
        when = {"sent_ns": now_ns, "received_ns": now_ns}
        self._isr.add({"observer": str(observer), "source": "metadata", **state, **when})
        self._isr.flush()

    def faulted(self, kind: str, phase: str = "p", step: str = "kill", target: str = "broker-1", **detail: Any) -> None:
        """Record an event of a fault or of a phase."""
        self.events.add(kind, phase=phase, step=step, target=target, **detail)
