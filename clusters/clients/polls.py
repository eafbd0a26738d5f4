"""What a reader saw, as columns while it reads; when the run is collected they become rows of the table ``polls``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from history.streams import BackgroundWriter, read_stream
from history.tables import POLLS

_ABOUT = b"reader"


@dataclass(frozen=True)
class About:
    """What all rows of a reader have in common."""

    consumer_id: str
    which_pass: str
    isolation: str

    @property
    def columns(self) -> dict[str, str]:
        """As the table names them."""
        return {"consumer_id": self.consumer_id, "pass": self.which_pass, "isolation": self.isolation}


# What neighbours have in common is written once for them all: else most of the bytes would repeat the ones before.
_COMMON = frozenset({"topic", "partition", "leader_epoch", "producer_id", "received_ns"})
SEEN = pa.schema(
    [
        field.with_type(pa.run_end_encoded(pa.int32(), field.type)) if field.name in _COMMON else field
        for field in POLLS
        if field.name not in About("", "", "").columns
    ]
)


def in_common(value: str | int, kind: pa.DataType, count: int) -> pa.RunEndEncodedArray:
    """One value for so many rows."""
    return pa.RunEndEncodedArray.from_arrays(pa.array([count], pa.int32()), pa.array([value], kind))


def in_runs(names: pa.DictionaryArray) -> pa.RunEndEncodedArray:
    """Names, each once for neighbours that have the same."""
    runs = pc.run_end_encode(names.indices)
    return pa.RunEndEncodedArray.from_arrays(runs.run_ends, names.dictionary.take(runs.values))


class PollLog(BackgroundWriter):
    """What a reader sees: rows of ``SEEN``, which a thread compresses and writes while the reader reads on."""

    def __init__(self, path: Path, about: About) -> None:
        super().__init__(path, SEEN.with_metadata({_ABOUT: json.dumps(asdict(about))}))

    def add(self, batch: pa.RecordBatch) -> None:
        super().add(batch.replace_schema_metadata(self.schema.metadata))
        self.flush_if_due()

    def flush_if_due(self) -> None:
        """As ``BatchWriter``, once the rows before are written.

        Raises:
            OSError: those before could not be written.
        """
        if self.is_due:
            self._written()
            self._writing = self._writer.submit(self._write, self._taken())

    def flush(self) -> None:
        self._written()
        super().flush()


def polls_of(stream: Path) -> Iterator[pa.RecordBatch]:
    """What a reader wrote as rows of the table ``polls``, as far as it is whole; a stream of such rows as it is."""
    for batch in read_stream(stream):
        said = (batch.schema.metadata or {}).get(_ABOUT)
        yield _rows(batch, About(**json.loads(said))) if said else batch


def _rows(batch: pa.RecordBatch, about: About) -> pa.RecordBatch:
    columns = {name: pa.repeat(value, batch.num_rows) for name, value in about.columns.items()}
    columns |= {name: pc.run_end_decode(batch[name]) if name in _COMMON else batch[name] for name in SEEN.names}
    return pa.RecordBatch.from_arrays([columns[name] for name in POLLS.names], schema=POLLS)
