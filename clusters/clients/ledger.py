"""Record each send with an outcome: ok, fail (definitely not written) or info (unknown).

A transaction's records have its outcome. Anything not known to be harmless is info; after a possible retry a retriable
error is never definite, because an earlier attempt may have been written. Collection makes the table ``sends``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from history.streams import BackgroundWriter, read_stream
from history.tables import SENDS

Outcome = Literal["ok", "fail", "info"]

NEVER_SENT = "never_sent"  # before any byte was sent
NO_ANSWER = "no_answer"  # still in flight when the producer ended
NO_ACKNOWLEDGEMENT = "no_acknowledgement"  # acks=0
ABORTED = "transaction_aborted"  # no commit was requested, or the coordinator confirmed the abort

# Rejected before the append, on every attempt.
_REFUSED = frozenset(
    {
        "MESSAGE_TOO_LARGE",
        "INVALID_TOPIC_EXCEPTION",
        "RECORD_LIST_TOO_LARGE",
        "INVALID_REQUIRED_ACKS",
        "TOPIC_AUTHORIZATION_FAILED",
        "CLUSTER_AUTHORIZATION_FAILED",
        "INVALID_TIMESTAMP",
        "UNSUPPORTED_FOR_MESSAGE_FORMAT",
        "INVALID_RECORD",
        NEVER_SENT,
        ABORTED,
    }
)
# An earlier attempt may have succeeded.
_REFUSED_THIS_TIME = frozenset({"UNKNOWN_TOPIC_OR_PARTITION"})


def outcome(error: str | None, *, may_have_retried: bool) -> Outcome:
    """Classify a send by its error's name (None: acknowledged)."""
    if error is None:
        return "ok"
    if error in _REFUSED or (error in _REFUSED_THIS_TIME and not may_have_retried):
        return "fail"
    return "info"


def error_names(names: Sequence[str | None]) -> pa.StringArray:
    """Return error names as an Arrow array."""
    return pa.array(names, pa.string())


def same_error(name: str | None, records: int) -> pa.StringArray:
    """Return one error name for all records, without an object for each."""
    return pa.nulls(records, pa.string()) if name is None else pa.repeat(name, records)


Ints = NDArray[np.int64]

_COLUMNS = ("seq", "partition", "due_ns", "sent_ns", "done_ns", "offset", "error", "record_bytes", "transaction")
LEDGER = pa.schema([SENDS.field(name) for name in _COLUMNS])
NOT_SEEN = -1
_ABOUT = b"producer"


@dataclass(frozen=True)
class About:
    """What all sends of a producer have in common."""

    producer_id: str
    topic: str
    acks: str
    may_have_retried: bool


def acknowledged_times(sends: pa.RecordBatch) -> tuple[Ints, Ints]:
    """Return acknowledged records' due and acknowledgement times, in ns."""
    acked = sends.filter(sends["error"].is_null()).select(["due_ns", "done_ns"]).drop_null()
    return acked["due_ns"].to_numpy(), acked["done_ns"].to_numpy()


class Ledger(BackgroundWriter):
    """Write rows in any order."""

    def __init__(self, path: Path, about: About) -> None:
        # The writer thread holds the GIL at times: at a lower scheduling class it could then lose its core.
        as_this = (0, os.sched_getscheduler(0), os.sched_getparam(0))
        schema = LEDGER.with_metadata({_ABOUT: json.dumps(asdict(about))})
        super().__init__(path, schema, os.sched_setscheduler, as_this)
        self._errors: list[pa.Array] = []
        self._columns: list[Mapping[str, Ints]] = []

    @property
    def waiting(self) -> int:
        return sum(map(len, self._errors))

    def record(self, errors: pa.Array, columns: Mapping[str, Ints]) -> None:
        self._errors.append(errors)
        self._columns.append(columns)

    def flush_soon(self) -> None:
        """Write in a thread, unless it is still writing: records are due meanwhile.

        Raises:
            OSError: the previous rows could not be written.
        """
        if self._writing is None or self._writing.done():
            self._written()
            self._writing = self._writer.submit(self._write_rows, *self._rows())

    def flush(self) -> None:
        self._written()
        self._write_rows(*self._rows())

    def _rows(self) -> tuple[Sequence[pa.Array], Sequence[Mapping[str, Ints]]]:
        taken = self._errors, self._columns
        self._errors, self._columns = [], []
        return taken

    def _write_rows(self, errors: Sequence[pa.Array], columns: Sequence[Mapping[str, Ints]]) -> None:
        if errors:
            rows = [_joined(field, errors, columns) for field in LEDGER]
            self.add(pa.RecordBatch.from_arrays(rows, schema=self.schema))
        super().flush()


def _joined(field: pa.Field, errors: Sequence[pa.Array], parts: Sequence[Mapping[str, Ints]]) -> pa.Array:
    if field.name == "error":
        return pa.concat_arrays(errors)
    values = np.concatenate([columns[field.name] for columns in parts])
    return pa.array(values, mask=values == NOT_SEEN if field.nullable else None).cast(field.type)


def sends_of(stream: Path) -> Iterator[pa.RecordBatch]:
    """Yield a ledger's complete batches as rows of ``sends``; such rows pass unchanged."""
    for batch in read_stream(stream):
        said = (batch.schema.metadata or {}).get(_ABOUT)
        yield _rows(batch, About(**json.loads(said))) if said else batch


def _rows(batch: pa.RecordBatch, about: About) -> pa.RecordBatch:
    errors = batch["error"].dictionary_encode()
    outcomes = [outcome(error, may_have_retried=about.may_have_retried) for error in errors.dictionary.to_pylist()]
    failed = pa.array(outcomes, pa.string()).take(errors.indices)
    same = {"producer_id": about.producer_id, "topic": about.topic, "acks": about.acks}
    columns = {name: pa.repeat(value, batch.num_rows) for name, value in same.items()}
    columns |= {name: batch[name] for name in _COLUMNS}
    columns["outcome"] = pc.fill_null(failed, outcome(None, may_have_retried=about.may_have_retried))
    return pa.RecordBatch.from_arrays([columns[name] for name in SENDS.names], schema=SENDS)
