"""The ledger of a producer's sends, and the ternary outcome of each: ok, fail (definitely not written) or info (it may
be in the log).

The ledger is written as columns while records are sent, a compressed batch at a time: some ten bytes a record. What is
the same in all of its rows is said once. When the run is collected it becomes the table ``sends``.

In a transaction it is the transaction's: ok (committed), fail (aborted: no committed reader may see it) or info.
Anything not known to be harmless is info. A retriable error is never definite once the client may have retried:
an earlier attempt may have been written and its answer lost.
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

NEVER_SENT = "never_sent"  # refused on this side, before any byte of it was handed to a connection
NO_ANSWER = "no_answer"  # still in flight when the producer ended
NO_ACKNOWLEDGEMENT = "no_acknowledgement"  # acks=0: the broker says nothing
ABORTED = "transaction_aborted"  # nobody ever asked to commit it, or the coordinator confirmed its abort

# The broker refuses these before it appends, and refuses every attempt alike.
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
# Refused before the append as well, but an earlier attempt may have met another answer.
_REFUSED_THIS_TIME = frozenset({"UNKNOWN_TOPIC_OR_PARTITION"})


def outcome(error: str | None, *, may_have_retried: bool) -> Outcome:
    """Classify a send by the name of its error (None: the broker answered with success)."""
    if error is None:
        return "ok"
    if error in _REFUSED or (error in _REFUSED_THIS_TIME and not may_have_retried):
        return "fail"
    return "info"


def error_names(names: Sequence[str | None]) -> pa.StringArray:
    """An error's name, or None, of each record."""
    return pa.array(names, pa.string())


def same_error(name: str | None, records: int) -> pa.StringArray:
    """One error's name, or None, of all records: no object is made for each."""
    return pa.nulls(records, pa.string()) if name is None else pa.repeat(name, records)


# --- the ledger --------------------------------------------------------------------------------------

Ints = NDArray[np.int64]

_COLUMNS = ("seq", "partition", "due_ns", "sent_ns", "done_ns", "offset", "error", "record_bytes", "transaction")
LEDGER = pa.schema([SENDS.field(name) for name in _COLUMNS])
NOT_SEEN = -1  # a null, among integers; a partition that nobody ever named is -1 in the table, too
_ABOUT = b"producer"


@dataclass(frozen=True)
class About:
    """What all sends of a producer have in common."""

    producer_id: str
    topic: str
    acks: str
    may_have_retried: bool


def acknowledged_times(sends: pa.RecordBatch) -> tuple[Ints, Ints]:
    """When acknowledged records of a ledger were due, and when they were acknowledged, in ns; one that was not, or had
    no due time, counts nowhere.
    """
    acked = sends.filter(sends["error"].is_null()).select(["due_ns", "done_ns"]).drop_null()
    return acked["due_ns"].to_numpy(), acked["done_ns"].to_numpy()


class Ledger(BackgroundWriter):
    """Writes a ledger; rows come in any order, and become Arrow's when they are flushed."""

    def __init__(self, path: Path, about: About) -> None:
        # The thread holds the interpreter's lock at times, and others of a lesser class may then have its core.
        as_this = (0, os.sched_getscheduler(0), os.sched_getparam(0))
        schema = LEDGER.with_metadata({_ABOUT: json.dumps(asdict(about))})
        super().__init__(path, schema, os.sched_setscheduler, as_this)
        self._errors: list[pa.Array] = []
        self._columns: list[Mapping[str, Ints]] = []

    @property
    def waiting(self) -> int:
        """How many rows the next flush writes."""
        return sum(map(len, self._errors))

    def record(self, errors: pa.Array, columns: Mapping[str, Ints]) -> None:
        """Rows of ``LEDGER``; ``errors`` has a name for each record that was not acknowledged."""
        self._errors.append(errors)
        self._columns.append(columns)

    def flush_soon(self) -> None:
        """Have a thread write the rows, unless it still writes those before; records are due meanwhile.

        Raises:
            OSError: those before could not be written.
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
    """The rows of a ledger as those of the table ``sends``, as far as it is whole; a stream of such rows as it is."""
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
