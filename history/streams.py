"""Arrow IPC streams, which clients write."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

FLUSH_NS = 1_000_000_000


class BatchWriter:
    """Appends batches to one Arrow IPC stream.

    A writer that is killed loses at most the batch that it writes; what was flushed stays readable. A stream that is
    there already is never written again. Not safe for several threads.

    Raises:
        FileExistsError: there is such a stream.
    """

    def __init__(self, path: Path, schema: pa.Schema, compression: str | None = None) -> None:
        self._file = path.open("xb")
        self._stream = pa.ipc.new_stream(self._file, schema, options=pa.ipc.IpcWriteOptions(compression=compression))
        self.whole = True  # no batch was broken off
        self._file.flush()

    def write(self, batch: pa.RecordBatch) -> None:
        self.whole = False
        if batch.num_rows:
            self._stream.write_batch(batch)
        self._file.flush()
        self.whole = True

    def close(self) -> None:
        """After a batch that failed nothing follows: one behind half of another would be read as its rest."""
        with closing(self._file):
            if self.whole:
                self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class RowWriter:
    """Appends rows to one Arrow IPC stream and flushes at least once a second; a writer that is killed loses the rows
    since then. Otherwise as ``BatchWriter``.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._schema = schema
        self._stream = BatchWriter(path, schema)
        self._rows: list[Mapping[str, Any]] = []
        self._flushed_ns = time.monotonic_ns()

    def add(self, row: Mapping[str, Any]) -> None:
        self._rows.append(row)
        self.flush_if_due()

    def flush_if_due(self) -> None:
        if time.monotonic_ns() - self._flushed_ns >= FLUSH_NS:
            self.flush()

    def flush(self) -> None:
        self._stream.write(pa.RecordBatch.from_pylist(self._rows, schema=self._schema))
        self._rows = []
        self._flushed_ns = time.monotonic_ns()

    def close(self) -> None:
        """The rows that wait are written, unless a flush failed before."""
        with closing(self._stream):
            if self._stream.whole:
                self.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_stream(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the whole batches of a stream; a torn tail (its writer was killed) ends it without an error."""
    with path.open("rb") as file:
        try:
            stream = pa.ipc.open_stream(file)
            yield from stream
        except (pa.ArrowInvalid, OSError, EOFError):
            return
