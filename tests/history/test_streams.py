"""Arrow streams during a client's run, Parquet files afterwards."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from history import streams
from history.partitioned import streams_to_parquet
from history.streams import RowWriter, StreamTail, batch_of, read_stream

SCHEMA = pa.schema([pa.field("seq", pa.int64(), nullable=False), pa.field("error", pa.string())])


def rows(path: Path) -> list[int]:
    """Return the sequence numbers in a stream."""
    return [row["seq"] for batch in read_stream(path) for row in batch.to_pylist()]


def write(path: Path, *batches: list[int]) -> list[int]:
    """Write some batches and close; return the file's size at the start, after each batch, and at the end."""
    writer = RowWriter(path, SCHEMA)
    sizes = [path.stat().st_size]
    for batch in batches:
        for seq in batch:
            writer.add({"seq": seq, "error": None})
        writer.flush()
        sizes.append(path.stat().st_size)
    writer.close()
    return [*sizes, path.stat().st_size]


def test_a_stream_torn_at_any_byte_keeps_its_whole_batches(tmp_path: Path) -> None:
    """A stream torn at any byte keeps its complete batches."""
    whole, torn = tmp_path / "whole.arrow", tmp_path / "torn.arrow"
    batches = [[0, 1, 2], [3]]
    sizes = write(whole, *batches)
    content = whole.read_bytes()
    for size in range(len(content) + 1):
        torn.write_bytes(content[:size])
        kept = [batch for batch, end in zip(batches, sizes[1:], strict=False) if end <= size]

        assert [seq for batch in kept for seq in batch] == rows(torn), f"torn after {size} bytes"


def test_rows_are_flushed_when_a_second_has_passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are flushed after one second and not before, since a batch per row would need ten times the bytes."""
    now_ns = 5_000_000_000
    monkeypatch.setattr(streams.time, "monotonic_ns", lambda: now_ns)
    writer = RowWriter(tmp_path / "a.arrow", SCHEMA)
    now_ns += streams.FLUSH_NS - 1
    writer.add({"seq": 0, "error": None})
    assert rows(tmp_path / "a.arrow") == []

    now_ns += 1
    writer.flush_if_due()
    assert rows(tmp_path / "a.arrow") == [0]
    writer.close()


def test_leaving_the_block_writes_the_rest(tmp_path: Path) -> None:
    """Leaving the block writes the remaining rows, also after an exception."""

    def interrupted() -> None:
        with RowWriter(tmp_path / "a.arrow", SCHEMA) as writer:
            writer.add({"seq": 7, "error": "REQUEST_TIMED_OUT"})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        interrupted()
    assert rows(tmp_path / "a.arrow") == [7]


def test_each_stream_becomes_one_file(tmp_path: Path) -> None:
    """Each stream becomes one file with the same rows and types; a stream without a batch yields an empty table."""
    write(tmp_path / "sends-a.arrow", [1, 2])
    write(tmp_path / "sends-b.arrow")
    found = streams_to_parquet(sorted(tmp_path.glob("*.arrow")), tmp_path / "sends", SCHEMA)

    tables = {file.name: pq.read_table(file) for file in (tmp_path / "sends").iterdir()}
    assert found == 2
    assert {name: table.num_rows for name, table in tables.items()} == {"sends-a.parquet": 2, "sends-b.parquet": 0}
    assert all(table.schema.equals(SCHEMA) for table in tables.values())
    assert tables["sends-a.parquet"].to_pylist() == [{"seq": 1, "error": None}, {"seq": 2, "error": None}]


def test_no_streams_are_an_empty_table(tmp_path: Path) -> None:
    """Without streams the folder exists and is empty."""
    assert streams_to_parquet([], tmp_path / "sends", SCHEMA) == 0
    assert (tmp_path / "sends").is_dir()


def test_bytes_that_are_no_stream_have_no_rows(tmp_path: Path) -> None:
    """Bytes that are no stream have no rows, as from a client that died before its first byte."""
    (tmp_path / "a.arrow").write_bytes(b"not a stream at all")

    assert rows(tmp_path / "a.arrow") == []


def test_a_stream_is_never_written_twice(tmp_path: Path) -> None:
    """An existing stream is not overwritten; another name is accepted."""
    write(tmp_path / "a.arrow", [1, 2])

    with pytest.raises(FileExistsError):
        RowWriter(tmp_path / "a.arrow", SCHEMA)
    assert rows(tmp_path / "a.arrow") == [1, 2]
    assert write(tmp_path / "b.arrow", [3])


def test_nothing_follows_a_flush_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failed flush the batch is not written again, and earlier batches remain readable."""
    written: list[int] = []

    def full(batch: pa.RecordBatch) -> None:
        written.append(batch.num_rows)
        raise OSError("No space left on device")

    def breaking() -> None:
        with RowWriter(tmp_path / "a.arrow", SCHEMA) as writer:
            writer.add({"seq": 1, "error": None})
            writer.flush()
            writer._stream = SimpleNamespace(write_batch=full)
            writer.add({"seq": 2, "error": None})
            writer.flush()

    with pytest.raises(OSError, match="No space left"):
        breaking()
    assert written == [1]
    assert rows(tmp_path / "a.arrow") == [1]


def test_a_growing_stream_is_read_once_whole_batch_by_whole_batch(tmp_path: Path) -> None:
    """A growing stream is read once in complete batches, wherever a read finds it torn."""
    whole, growing = tmp_path / "whole.arrow", tmp_path / "growing.arrow"
    write(whole, [0, 1, 2], [3], [4, 5])
    content = whole.read_bytes()
    for size in range(len(content) + 1):
        tail = StreamTail(growing)
        growing.write_bytes(content[:size])
        first = [row["seq"] for batch in tail.batches() for row in batch.to_pylist()]
        growing.write_bytes(content)
        then = [row["seq"] for batch in tail.batches() for row in batch.to_pylist()]

        assert first + then == [0, 1, 2, 3, 4, 5], f"torn after {size} bytes"
        assert list(tail.batches()) == []


def test_a_stream_that_is_not_there_yet_has_no_batches(tmp_path: Path) -> None:
    """A missing stream has no batches, until its client starts."""
    tail = StreamTail(tmp_path / "later.arrow")
    assert list(tail.batches()) == []

    write(tmp_path / "later.arrow", [7])
    assert [row["seq"] for batch in tail.batches() for row in batch.to_pylist()] == [7]


def test_attributes_become_columns() -> None:
    """A column has each row's attribute, one value for all, or null."""
    rows = [SimpleNamespace(seq=1, other=5), SimpleNamespace(seq=2, other=6)]

    assert batch_of(rows, SCHEMA).to_pylist() == [{"seq": 1, "error": None}, {"seq": 2, "error": None}]
    assert batch_of(rows, SCHEMA, error="x").to_pylist() == [{"seq": 1, "error": "x"}, {"seq": 2, "error": "x"}]
    assert batch_of([], SCHEMA, error="x").num_rows == 0
