"""Write what a reader saw as columns; collection makes the table ``polls``."""

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
    """What all of a reader's rows have in common."""

    consumer_id: str
    which_pass: str
    isolation: str

    @property
    def columns(self) -> dict[str, str]:
        return {"consumer_id": self.consumer_id, "pass": self.which_pass, "isolation": self.isolation}


# Run-end encoded: mostly repeated.
_COMMON = frozenset({"topic", "partition", "leader_epoch", "producer_id", "received_ns"})
SEEN = pa.schema(
    [
        field.with_type(pa.run_end_encoded(pa.int32(), field.type)) if field.name in _COMMON else field
        for field in POLLS
        if field.name not in About("", "", "").columns
    ]
)


def in_common(value: str | int, kind: pa.DataType, count: int) -> pa.RunEndEncodedArray:
    """Return one value for ``count`` rows."""
    return pa.RunEndEncodedArray.from_arrays(pa.array([count], pa.int32()), pa.array([value], kind))


def in_runs(names: pa.DictionaryArray) -> pa.RunEndEncodedArray:
    """Return names run-end encoded."""
    runs = pc.run_end_encode(names.indices)
    return pa.RunEndEncodedArray.from_arrays(runs.run_ends, names.dictionary.take(runs.values))


class PollLog(BackgroundWriter):
    """Write rows of ``SEEN`` in a thread while the reader continues."""

    def __init__(self, path: Path, about: About) -> None:
        super().__init__(path, SEEN.with_metadata({_ABOUT: json.dumps(asdict(about))}))

    def add(self, batch: pa.RecordBatch) -> None:
        super().add(batch.replace_schema_metadata(self.schema.metadata))
        self.flush_if_due()

    def flush_if_due(self) -> None:
        """Flush once the previous rows are written; raise OSError if they could not be written."""
        if self.is_due:
            self._written()
            self._writing = self._writer.submit(self._write, self._taken())

    def flush(self) -> None:
        self._written()
        super().flush()


def polls_of(stream: Path) -> Iterator[pa.RecordBatch]:
    """Yield a stream's complete batches as rows of ``polls``; such rows pass unchanged."""
    for batch in read_stream(stream):
        said = (batch.schema.metadata or {}).get(_ABOUT)
        yield _rows(batch, About(**json.loads(said))) if said else batch


def _rows(batch: pa.RecordBatch, about: About) -> pa.RecordBatch:
    columns = {name: pa.repeat(value, batch.num_rows) for name, value in about.columns.items()}
    columns |= {name: pc.run_end_decode(batch[name]) if name in _COMMON else batch[name] for name in SEEN.names}
    return pa.RecordBatch.from_arrays([columns[name] for name in POLLS.names], schema=POLLS)
