"""Decide whether a load is answered steadily, by its producers' streams."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from clusters.clients.ledger import acknowledged_times
from history.steady import MIN_SECONDS, why_unsteady
from history.streams import StreamTails

ANSWERED_S = 5  # until a second's records are answered and flushed
_SECOND_NS = 1_000_000_000
_NONE = {"acked": 0, "p50_ms": None}


class Steadiness:
    """Check the last ``MIN_SECONDS`` seconds of answered records."""

    def __init__(self, streams: Path) -> None:
        self._streams = StreamTails(streams)
        self._answers_ns = defaultdict[int, list[Any]](list)  # by second of the due time
        self._seconds: dict[int, dict[str, Any]] = {}
        self._seen = False, "no acknowledged record has a due time yet"

    def look(self) -> tuple[bool, str]:
        for _, batches in self._streams.new("sends"):
            for batch in batches:
                self._add(batch)
        end = max(self._answers_ns, default=0) - ANSWERED_S + 1
        old = [second for second in self._answers_ns if second < end]
        for second in old:
            latencies_ns = np.concatenate(self._answers_ns.pop(second))
            row = {"acked": latencies_ns.size, "p50_ms": float(np.median(latencies_ns)) / 1e6}
            self._seconds.setdefault(second, row)
        if old:
            self._seen = self._look_back(end)
        return self._seen

    def _add(self, sends: pa.RecordBatch) -> None:
        due_ns, done_ns = acknowledged_times(sends)
        seconds = due_ns // _SECOND_NS
        for second in np.unique(seconds).tolist():
            self._answers_ns[second].append((done_ns - due_ns)[seconds == second])

    def _look_back(self, end: int) -> tuple[bool, str]:
        if missing := max(min(self._seconds) + MIN_SECONDS - end, 0):
            return False, f"{missing} s more of load are needed"
        why = why_unsteady([self._seconds.get(second, _NONE) for second in range(end - MIN_SECONDS, end)])
        return why is None, why or f"steady over {MIN_SECONDS} s"
