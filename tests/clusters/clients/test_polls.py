"""Reads of a client become rows of the polls table."""

from pathlib import Path

import pyarrow as pa

from clusters.clients.polls import SEEN, About, PollLog, in_common, in_runs, polls_of
from history.streams import RowWriter
from history.tables import POLLS

SEEN_ROW = {
    "position": 3,
    "topic": "orders",
    "partition": 1,
    "offset": 40,
    "leader_epoch": 2,
    "producer_id": None,
    "seq": None,
    "checksum_ok": False,
    "received_ns": 99,
}
OF_READER = {"consumer_id": "c1", "pass": "live", "isolation": "read_committed"}


def test_rows_have_their_reader(tmp_path: Path) -> None:
    """Each row has the reader, the pass and the isolation level; the other columns are unchanged."""
    with PollLog(tmp_path / "polls-c1.arrow", About("c1", "live", "read_committed")) as seen:
        seen.add(pa.RecordBatch.from_pylist([SEEN_ROW], schema=SEEN))
        seen.add(pa.RecordBatch.from_pylist([SEEN_ROW | {"position": 4}], schema=SEEN))
    found = pa.Table.from_batches(polls_of(tmp_path / "polls-c1.arrow"), schema=POLLS)

    assert found.to_pylist() == [SEEN_ROW | OF_READER, SEEN_ROW | OF_READER | {"position": 4}]


def test_what_neighbours_have_in_common_is_written_once() -> None:
    """Equal neighbouring values are stored once per run; null values form runs of their own."""
    names = pa.array(["p1", "p1", None, "p2"]).dictionary_encode()

    assert in_runs(names).to_pylist() == ["p1", "p1", None, "p2"]
    assert in_runs(names).run_ends.to_pylist() == [2, 3, 4]
    assert in_common(7, pa.int64(), 3).to_pylist() == [7, 7, 7]


def test_a_stream_of_polls_is_read_as_it_is(tmp_path: Path) -> None:
    """Single rows, as steps write them, are read from a stream of polls like a client's."""
    with RowWriter(tmp_path / "polls-r.arrow", POLLS) as writer:
        writer.add(SEEN_ROW | OF_READER)

    assert [row for batch in polls_of(tmp_path / "polls-r.arrow") for row in batch.to_pylist()] == [
        SEEN_ROW | OF_READER
    ]
