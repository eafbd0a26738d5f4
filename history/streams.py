"""Arrow IPC streams that clients write and others follow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

FLUSH_NS = 1_000_000_000
FLUSH_ROWS = 1 << 16  # fits the CPU cache


class BatchWriter:
    """Append batches to a stream; not thread-safe.

    A killed writer loses only unflushed rows.

    Raises: FileExistsError.
    """

    def __init__(self, path: Path, schema: pa.Schema, compression: str | None = None) -> None:
        self.schema = schema
        self._file = path.open("xb")
        options = pa.ipc.IpcWriteOptions(compression=compression, use_threads=False)  # leaves the cores to others
        self._stream = pa.ipc.new_stream(self._file, schema, options=options)
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._whole = True
        self._flushed_ns = time.monotonic_ns()
        self._file.flush()

    def add(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows

    def flush_if_due(self) -> None:
        """Flush each second or many rows; single rows take ten times the bytes."""
        if self.is_due:
            self.flush()

    @property
    def is_due(self) -> bool:
        return self._waiting_rows >= FLUSH_ROWS or time.monotonic_ns() - self._flushed_ns >= FLUSH_NS

    def flush(self) -> None:
        self._write(self._taken())

    def _taken(self) -> list[pa.RecordBatch]:
        taken, self._waiting, self._waiting_rows = self._waiting, [], 0
        self._flushed_ns = time.monotonic_ns()
        return taken

    def _write(self, batches: list[pa.RecordBatch]) -> None:
        self._whole = False
        if batches:
            self._stream.write_batch(pa.concat_batches(batches))
        self._file.flush()
        self._whole = True

    def close(self) -> None:
        """Close the stream; after a failed flush, more would be misread."""
        with closing(self._file):
            if self._whole:
                self.flush()
                self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class BackgroundWriter(BatchWriter):
    """Write in one thread, which first calls ``prepare(*arguments)``."""

    def __init__(
        self,
        path: Path,
        schema: pa.Schema,
        prepare: Callable[..., object] | None = None,
        arguments: tuple[Any, ...] = (),
    ) -> None:
        super().__init__(path, schema, compression="zstd")
        self._writer = ThreadPoolExecutor(1, "writer", prepare, arguments)
        self._writing: Future[None] | None = None

    def _written(self) -> None:
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def close(self) -> None:
        with self._writer:
            try:
                self._written()
            finally:
                super().close()


def batch_of(rows: Sequence[object], schema: pa.Schema, **same: object) -> pa.RecordBatch:
    """Return the rows' attributes as columns, null without one; ``same`` are values for all rows."""
    found = {name: map(attrgetter(name), rows) for name in schema.names if rows and hasattr(rows[0], name)}
    columns = [
        pa.repeat(pa.scalar(same.get(name), kind), len(rows)) if name not in found else pa.array(found[name], kind)
        for name, kind in zip(schema.names, schema.types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class RowWriter(BatchWriter):
    """Append rows, flushing at least once a second."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        super().__init__(path, schema)
        self.rows = 0
        self._rows: list[Mapping[str, Any]] = []

    def add(self, row: Mapping[str, Any]) -> None:
        self.rows += 1
        self._rows.append(row)
        self.flush_if_due()

    def flush(self) -> None:
        if self._rows:
            super().add(pa.RecordBatch.from_pylist(self._rows, schema=self.schema))
            self._rows = []
        super().flush()


def read_stream(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield complete batches, without a killed writer's torn tail."""
    with path.open("rb") as file:
        try:
            stream = pa.ipc.open_stream(file)
            yield from stream
        except (pa.ArrowInvalid, OSError, EOFError):
            return


class StreamTail:
    """Yields a growing stream's new batches."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0
        self._schema: pa.Schema | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        if not self._path.is_file():
            return
        with pa.OSFile(str(self._path)) as file:
            file.seek(self._position)
            while (message := _whole_message(file)) is not None:
                self._position = file.tell()
                if self._schema is None:
                    self._schema = pa.ipc.read_schema(message)
                else:
                    yield pa.ipc.read_record_batch(message, self._schema)


class StreamTails:
    """A folder's growing streams."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tails: dict[Path, StreamTail] = {}

    def new(self, table: str) -> Iterator[tuple[str, list[pa.RecordBatch]]]:
        for path in sorted(self._folder.glob(f"{table}-*.arrow")):
            tail = self._tails.setdefault(path, StreamTail(path))
            if batches := list(tail.batches()):
                yield path.stem.removeprefix(f"{table}-"), batches


def _whole_message(file: pa.NativeFile) -> pa.ipc.Message | None:
    try:
        return pa.ipc.read_message(file)
    except (pa.ArrowInvalid, OSError, EOFError):  # the end, or an unfinished message
        return None
