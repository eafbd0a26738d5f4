"""The three outcomes of a send: ok, fail and info (unknown)."""

from __future__ import annotations

from pathlib import Path
from threading import Event

import numpy as np
import pyarrow as pa
import pytest

from clusters.clients.ledger import NOT_SEEN, About, Ledger, error_names, outcome, sends_of
from history.streams import RowWriter
from history.tables import SENDS


def test_success_is_ok() -> None:
    """Without an error, the broker acknowledged."""
    assert outcome(None, may_have_retried=True) == "ok"


@pytest.mark.parametrize(
    "error",
    ["never_sent", "transaction_aborted", "MESSAGE_TOO_LARGE", "TOPIC_AUTHORIZATION_FAILED", "INVALID_TOPIC_EXCEPTION"],
)
def test_refused_for_good_is_fail(error: str) -> None:
    """An error that every attempt meets before the append means that the record is not in the log."""
    assert outcome(error, may_have_retried=True) == "fail"


@pytest.mark.parametrize(
    "error",
    [
        "NOT_LEADER_OR_FOLLOWER",
        "REQUEST_TIMED_OUT",
        "NOT_ENOUGH_REPLICAS",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "UNKNOWN_SERVER_ERROR",
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "KafkaConnectionError",
        "KafkaTimeoutError",
        "_MSG_TIMED_OUT",
        "timeout",
        "no_answer",
        "no_acknowledgement",
        "an error of tomorrow",
        "commit _TIMED_OUT",
        "commit TOPIC_AUTHORIZATION_FAILED",
    ],
)
@pytest.mark.parametrize("may_have_retried", [True, False])
def test_anything_else_is_unknown(error: str, may_have_retried: bool) -> None:
    """Time-outs, disconnects, retriable errors and unknown errors are info: the record may be in the log."""
    assert outcome(error, may_have_retried=may_have_retried) == "info"


def test_unknown_topic_is_definite_only_without_retries() -> None:
    """UNKNOWN_TOPIC_OR_PARTITION is definite only without retries: an earlier attempt may have been appended."""
    assert outcome("UNKNOWN_TOPIC_OR_PARTITION", may_have_retried=False) == "fail"
    assert outcome("UNKNOWN_TOPIC_OR_PARTITION", may_have_retried=True) == "info"


ABOUT = About("p1", "orders", "1", may_have_retried=False)


def _columns(*seqs: int, **seen: list[int]) -> dict[str, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    columns = {"partition": [1], "due_ns": [5], "record_bytes": [100], "sent_ns": [NOT_SEEN], "done_ns": [NOT_SEEN]}
    columns |= {"offset": [NOT_SEEN], "transaction": [NOT_SEEN]}
    every = {name: (seen.get(name) or values * len(seqs)) for name, values in columns.items()}
    return {name: np.array(values) for name, values in {"seq": list(seqs), **every}.items()}


def test_a_ledger_becomes_rows_of_sends(tmp_path: Path) -> None:
    """A ledger becomes rows with producer, topic, acks and outcome; unknown values are null."""
    with Ledger(tmp_path / "sends-p1.arrow", ABOUT) as ledger:
        ledger.record(error_names([None, "never_sent"]), _columns(7, 8, offset=[40, NOT_SEEN], done_ns=[9, NOT_SEEN]))
        ledger.record(error_names(["UNKNOWN_TOPIC_OR_PARTITION"]), _columns(6, transaction=[3]))
    rows = [row for batch in sends_of(tmp_path / "sends-p1.arrow") for row in batch.to_pylist()]

    assert [(row["seq"], row["outcome"], row["error"], row["offset"], row["done_ns"]) for row in rows] == [
        (7, "ok", None, 40, 9),
        (8, "fail", "never_sent", None, None),
        (6, "fail", "UNKNOWN_TOPIC_OR_PARTITION", None, None),
    ]
    assert {(row["producer_id"], row["topic"], row["acks"], row["due_ns"], row["sent_ns"]) for row in rows} == {
        ("p1", "orders", "1", 5, None)
    }
    assert [row["transaction"] for row in rows] == [None, None, 3]


def test_a_partition_that_nobody_named_is_no_null(tmp_path: Path) -> None:
    """An unknown partition is -1, as in an imported history."""
    with Ledger(tmp_path / "sends-p1.arrow", ABOUT) as ledger:
        ledger.record(error_names(["no_answer"]), _columns(7, partition=[NOT_SEEN]))
    (batch,) = sends_of(tmp_path / "sends-p1.arrow")

    assert batch["partition"].to_pylist() == [-1]


def test_a_killed_producer_leaves_what_it_flushed(tmp_path: Path) -> None:
    """A killed producer leaves everything that it flushed; a batch that is torn at any byte is ignored."""
    ledger = Ledger(tmp_path / "sends-p1.arrow", ABOUT)
    ledger.record(error_names([None]), _columns(1))
    ledger.flush()
    flushed = (tmp_path / "sends-p1.arrow").stat().st_size
    ledger.record(error_names([None]), _columns(2))
    ledger.flush()
    ledger.record(error_names([None]), _columns(3))
    content, torn = (tmp_path / "sends-p1.arrow").read_bytes(), tmp_path / "torn.arrow"

    for size in range(flushed, len(content) + 1):
        torn.write_bytes(content[:size])
        kept = [1, 2] if size == len(content) else [1]
        assert [row["seq"] for batch in sends_of(torn) for row in batch.to_pylist()] == kept, f"torn after {size} bytes"


def test_what_waits_behind_a_write_is_written_when_the_ledger_closes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that wait behind a slow write are written when the ledger closes."""
    begun, awaited = Event(), Event()
    ledger = Ledger(tmp_path / "sends-p1.arrow", ABOUT)
    stream, written = ledger._stream, ledger._written

    class Slow:
        """A stream that completes a write once the ledger waits for it."""

        close = stream.close

        def write_batch(self, batch: pa.RecordBatch) -> None:
            begun.set()
            awaited.wait(5)
            stream.write_batch(batch)

    monkeypatch.setattr(ledger, "_stream", Slow())
    ledger.record(error_names([None]), _columns(1))
    ledger.flush_soon()
    assert begun.wait(5)
    monkeypatch.setattr(ledger, "_written", lambda: (awaited.set(), written()))
    ledger.record(error_names([None]), _columns(2))
    ledger.close()

    assert [row["seq"] for batch in sends_of(tmp_path / "sends-p1.arrow") for row in batch.to_pylist()] == [1, 2]


def test_a_stream_of_sends_is_read_as_it_is(tmp_path: Path) -> None:
    """Single rows, as steps write them, are read from a stream of sends like a ledger's."""
    row = {"producer_id": "w", "seq": 0, "topic": "orders", "partition": 0, "due_ns": 1, "outcome": "ok", "acks": "1"}
    with RowWriter(tmp_path / "sends-w.arrow", SENDS) as writer:
        writer.add({**row, "record_bytes": 100})

    assert [row["producer_id"] for batch in sends_of(tmp_path / "sends-w.arrow") for row in batch.to_pylist()] == ["w"]


def test_a_record_takes_few_bytes_on_disk(tmp_path: Path) -> None:
    """A record takes at most 24 bytes on disk, at 100,000 records a second in batches of 0.1 s."""
    rng, count, rounds = np.random.default_rng(1), 10_000, 20
    path = tmp_path / "sends-p1.arrow"
    with Ledger(path, ABOUT) as ledger:
        for at in range(rounds):
            seq = np.arange(at * count, (at + 1) * count)
            due_ns = 10**15 + seq * 10_000
            sent_ns = due_ns + rng.integers(1_000, 900_000, count)
            done_ns = sent_ns + np.repeat(rng.integers(2_000_000, 9_000_000, count // 100), 100)
            rows = {"seq": seq, "partition": seq % 6, "due_ns": due_ns, "sent_ns": sent_ns, "done_ns": done_ns}
            nothing = np.full(count, NOT_SEEN)
            more = {"offset": seq // 6, "transaction": nothing, "record_bytes": np.full(count, 100)}
            ledger.record(error_names([None] * count), rows | more)
            ledger.flush()

    assert path.stat().st_size / (count * rounds) <= 24
