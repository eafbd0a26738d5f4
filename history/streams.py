"""Arrow IPC streams, which clients write, and which may be followed meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

FLUSH_NS = 1_000_000_000
FLUSH_ROWS = 1 << 16  # more would leave the processor's cache before they are written


class BatchWriter:
    """Appends batches to one Arrow IPC stream, those together that were added since the last flush.

    A writer that is killed loses what it has not flushed; what was flushed stays readable. A stream that is there
    already is never written again. Not safe for several threads.

    Raises:
        FileExistsError: there is such a stream.
    """

    def __init__(self, path: Path, schema: pa.Schema, compression: str | None = None) -> None:
        self.schema = schema
        self._file = path.open("xb")
        options = pa.ipc.IpcWriteOptions(compression=compression, use_threads=False)  # others may have the cores
        self._stream = pa.ipc.new_stream(self._file, schema, options=options)
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._whole = True  # no batch was broken off
        self._flushed_ns = time.monotonic_ns()
        self._file.flush()

    def add(self, batch: pa.RecordBatch) -> None:
        """Rows, to be written with the next flush."""
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows

    def flush_if_due(self) -> None:
        """Once a second, or when many rows wait: a batch for each row would be ten times the bytes."""
        if self.is_due:
            self.flush()

    @property
    def is_due(self) -> bool:
        return self._waiting_rows >= FLUSH_ROWS or time.monotonic_ns() - self._flushed_ns >= FLUSH_NS

    def flush(self) -> None:
        self._write(self._taken())

    def _taken(self) -> list[pa.RecordBatch]:
        """What waits, which waits no more."""
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
        """After a flush that failed nothing follows: a batch behind half of another would be read as its rest."""
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
    """Writes in one thread, which begins with ``prepare`` called with ``arguments``; one write at a time."""

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
        """Wait for the thread.

        Raises:
            OSError: it could not write.
        """
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def close(self) -> None:
        with self._writer:
            try:
                self._written()  # before it is asked whether a batch was broken off: one that is being written is not
            finally:
                super().close()


class RowWriter(BatchWriter):
    """Appends rows, and flushes at least once a second; ``rows`` counts them."""

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
    """Yield the whole batches of a stream; a torn tail (its writer was killed) ends it without an error."""
    with path.open("rb") as file:
        try:
            stream = pa.ipc.open_stream(file)
            yield from stream
        except (pa.ArrowInvalid, OSError, EOFError):
            return


class StreamTail:
    """Yields the batches that a growing stream gained since the last look; the stream may not be there yet."""

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
    """The streams of a folder, by table, as clients write them; more may come."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tails: dict[Path, StreamTail] = {}

    def new(self, table: str) -> Iterator[tuple[str, list[pa.RecordBatch]]]:
        """What clients recorded in a table since the last look: the client, and its batches."""
        for path in sorted(self._folder.glob(f"{table}-*.arrow")):
            tail = self._tails.setdefault(path, StreamTail(path))
            if batches := list(tail.batches()):
                yield path.stem.removeprefix(f"{table}-"), batches


def _whole_message(file: pa.NativeFile) -> pa.ipc.Message | None:
    try:
        return pa.ipc.read_message(file)
    except (pa.ArrowInvalid, OSError, EOFError):  # its end, or what is still being written
        return None
