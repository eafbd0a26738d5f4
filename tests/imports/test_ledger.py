"""Ledgers in our own columns."""

import json

import pytest

from history.errors import BadInput
from imports import ledger

SEND = {
    "table": "sends", "producer_id": "p", "seq": 0, "topic": "t", "partition": 0, "due_ns": 1, "sent_ns": 1,
    "done_ns": 2, "outcome": "ok", "error": None, "offset": 0, "acks": "all", "record_bytes": 100,
    "transaction": 3,
}  # fmt: skip
POLL = {
    "table": "polls", "consumer_id": "c", "pass": "live", "position": 0, "topic": "t", "partition": 0, "offset": 0,
    "leader_epoch": None, "producer_id": "p", "seq": 0, "checksum_ok": True, "received_ns": 3,
    "isolation": "read_committed",
}  # fmt: skip


@pytest.fixture
def read(tmp_path):
    """Reads literal rows."""

    def of(*rows):
        path = tmp_path / "ledger.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return ledger.read([path])

    return of


def test_rows_are_taken_as_they_are(read):
    """Nullable columns may be left out, and -1 is no offset."""
    short = {name: value for name, value in SEND.items() if name not in {"error", "sent_ns", "transaction"}}
    found = read(SEND, POLL, {**short, "seq": 1, "offset": -1})

    without_table = {name: value for name, value in SEND.items() if name != "table"}
    assert found.sends[0] == without_table
    assert found.sends[1] == without_table | {"seq": 1, "offset": None, "sent_ns": None, "transaction": None}
    assert found.polls == [{name: value for name, value in POLL.items() if name != "table"}]
    assert found.imported == []


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({**SEND, "table": "send"}, "table must be one of sends, polls"),
        ({name: value for name, value in SEND.items() if name != "outcome"}, "'outcome' is missing"),
        ({**SEND, "outcome": "lost"}, "outcome must be one of ok, fail, info"),
        ({**SEND, "acks": "-1"}, "acks must be one of"),
        ({**SEND, "seq": "0"}, "seq must be of type int64"),
        ({**SEND, "seq": True}, "seq must be of type int64"),
        ({**SEND, "partition": 2**31}, "partition must be of type int32"),
        ({**SEND, "ofset": 1}, "'ofset' is no column of sends"),
        ({**POLL, "checksum_ok": 1}, "checksum_ok must be of type bool"),
        ({**POLL, "pass": "last"}, "pass must be one of"),
        ({**POLL, "offset": -5}, "must have an offset from 0 on, not -5"),
        ({**SEND, "key": [1]}, "key must be a string"),
        ({**SEND, "key": "a", "tombstone": "yes"}, "tombstone must be true or false, not 'yes'"),
        ({"table": "topics", "topic": "a b"}, "the name of a topic of Kafka"),
        ({"table": "topics", "topic": "t", "config": {"cleanup_policy": "compact"}}, "did you mean cleanup.policy?"),
        ({"table": "topics", "topic": "t", "config": {"cleanup.policy": "compacted"}}, "not 'compacted'"),
        ({"table": "topics", "topic": "t", "deleted": 1}, "deleted, true or false"),
        ({"table": "topics", "topic": "t", "lives": 2}, "'lives' is no column of topics"),
    ],
)
def test_a_bad_row_is_named(read, row, says):
    """One sentence with the number of the line."""
    with pytest.raises(BadInput, match="line 2: ") as refused:
        read({**SEND, "seq": 7}, row)
    assert says in str(refused.value)


def test_a_record_is_sent_once(read):
    """The same number of the same producer again would be another record under the same name."""
    with pytest.raises(BadInput, match="line 3: record p/0 was sent before, on line 1"):
        read(SEND, {**SEND, "topic": "u"}, SEND)


@pytest.mark.parametrize("table", ["[]", "{}", "5", "null"])
def test_a_table_that_is_no_text_is_refused(tmp_path, table):
    """One sentence names the line."""
    file = tmp_path / "ledger.jsonl"
    file.write_text(f'{{"table": {table}}}')

    with pytest.raises(BadInput, match="line 1: table must be one of sends, polls"):
        ledger.read([file])
