"""Histories of operations, as sends and reads."""

import json

import pytest

from history.errors import BadInput
from imports import operations
from imports.records import NOBODY, tables
from tests.imports.histories import invoked, poll, send, write


@pytest.fixture
def read(tmp_path):
    """Read literal operations and return the history."""
    return lambda *lines: operations.read([write(tmp_path / "history.jsonl", *lines)])


def sends_of(history):
    """Return a history's sends without their times."""
    return [(s.process, s.key, s.value, s.outcome, s.offset, s.operation) for s in history.sends]


def test_a_send_is_what_its_completion_says(read):
    """A send's due time is that of its invocation; all else is from its completion."""
    completion = send(3, "ok", ("x", 1, 7))
    history = read(invoked(completion), completion)

    assert sends_of(history) == [("3", "x", 1, "ok", 7, None)]
    assert (history.sends[0].due_ns, history.sends[0].sent_ns, history.sends[0].done_ns) == (0, 0, 1_000_000)


def test_an_invocation_without_a_completion_is_unknown(read):
    """A send whose invocation has no completion is unknown, not failed."""
    opened = [invoked(send(n, "ok", ("x", n, None))) for n in (1, 2)]
    history = read(*opened, invoked(send(1, "ok", ("x", 3, None))), send(1, "fail", ("x", 3, None)))

    assert {s.value: (s.outcome, s.done_ns) for s in history.sends} == {
        1: ("info", None),
        2: ("info", None),
        3: ("fail", 3_000_000),
    }


def test_lines_are_ordered_by_index(read):
    """Lines are ordered by index, not by their place in the file."""
    completion = send(1, "ok", ("x", 1, 0))
    history = read({"index": 5, **completion}, {"index": 4, **invoked(completion)})

    assert sends_of(history) == [("1", "x", 1, "ok", 0, None)]


def test_what_a_completion_leaves_out_was_asked_for(read):
    """A completion with fewer mops than its invocation, or none, ends the invocation's sends."""
    asked = invoked(send(1, "ok", ("x", 1, None), ("x", 2, None)))
    nothing = read(asked, {**asked, "type": "info", "mops": None})
    one = read(asked, send(1, "info", ("x", 2, 8)))

    assert [(s.value, s.outcome, s.offset) for s in nothing.sends] == [(1, "info", None), (2, "info", None)]
    assert [(s.value, s.offset) for s in one.sends] == [(2, 8), (1, None)]


def test_sends_of_one_operation_belong_together(read):
    """Two sends of one operation share its number; a single send has none."""
    history = read(send(1, "info", ("x", 1, None), ("y", 1, None)), send(1, "ok", ("x", 2, 0)))

    numbers = [s.operation for s in history.sends]
    assert numbers[0] is not None
    assert numbers == [numbers[0], numbers[0], None]


def test_minus_one_is_no_offset(read):
    """The offset -1, as with acks=0, is unknown; 0 is an offset."""
    assert [s.offset for s in read(send(1, "ok", ("x", 1, -1)), send(1, "ok", ("x", 2, 0))).sends] == [None, 0]


def test_reads_of_an_operation_that_did_not_end_well_are_not_completed(read):
    """Reads of an operation that failed or is unknown are not completed; their records are kept."""
    history = read(poll(1, "ok", ("x", 0, "a")), poll(1, "info", ("x", 1, "b")), poll(1, "fail", ("x", 2, "c")))

    assert [(r.value, r.completed) for r in history.reads] == [("a", True), ("b", False), ("c", False)]


def test_keys_that_are_numbers_are_partitions(read):
    """Numeric keys are partitions; other keys, true included, are numbered in order of appearance."""
    assert read(send(1, "ok", (4, 1, 0)), send(1, "ok", (2, 1, 0))).places == {"4": ("history", 4), "2": ("history", 2)}
    assert read(send(1, "ok", (True, 1, 0)), send(1, "ok", (0, 1, 0))).places == {
        "true": ("history", 0),
        "0": ("history", 1),
    }


def test_records_are_known_by_sender_and_number(read):
    """1, "1" and true are three values; a value that was not sent to its key has a separate sender."""
    history = read(
        send(7, "ok", ("x", 1, 0)), send(7, "ok", ("x", "1", 1)), send(7, "ok", ("x", True, 2)),
        poll(8, "ok", ("x", 2, True), ("x", 0, 1), ("x", 3, "ghost"), ("y", 0, 1)),
    )  # fmt: skip
    found = tables(history, "all", "read_uncommitted")

    assert [(row["producer_id"], row["seq"], row["partition"]) for row in found.sends] == [
        ("7", 0, 0),
        ("7", 1, 0),
        ("7", 2, 0),
    ]
    assert [(row["producer_id"], row["seq"], row["partition"]) for row in found.polls] == [
        ("7", 2, 0),
        ("7", 0, 0),
        (NOBODY, 0, 0),
        (NOBODY, 1, 1),
    ]
    assert [row["value"] for row in found.imported] == ["1", '"1"', "true", '"ghost"', "1"]
    assert found.keys == {"history-0": '"x"', "history-1": '"y"'}


def test_positions_count_the_reads_of_one_consumer(read):
    """Positions are counted separately for each consumer."""
    history = read(poll(1, "ok", ("x", 0, "a"), ("x", 1, "b")), poll(2, "ok", ("x", 0, "a")))
    rows = tables(history, "all", "read_uncommitted").polls

    assert [(row["consumer_id"], row["position"], row["pass"]) for row in rows] == [
        ("1", 0, "live"),
        ("1", 1, "live"),
        ("2", 0, "live"),
    ]


@pytest.mark.parametrize(
    ("between", "consumers"),
    [
        ({"f": "assign", "mops": ["x", "y"]}, ["1", "1"]),
        ({"f": "assign", "mops": ["y"]}, ["1", "1~1"]),
        ({"f": "subscribe", "keys": ["x"]}, ["1", "1"]),
        ({"f": "assign", "mops": ["x"], "from_beginning": True}, ["1", "1~1"]),
        ({"f": "assign"}, ["1", "1~1"]),
        ({"f": "crash"}, ["1", "1~1"]),
    ],
)
def test_a_key_that_was_given_up_is_read_by_another_consumer(read, between, consumers):
    """A key that a consumer gave up is read by a new consumer; a kept key continues at its position."""
    history = read(poll(1, "ok", ("x", 5, "a")), {"process": 1, "type": "ok", **between}, poll(1, "ok", ("x", 0, "b")))

    assert [r.consumer for r in history.reads] == consumers


def test_only_transactions_that_send_make_a_process_transactional(read):
    """Only a transaction with sends makes its process transactional."""
    history = read(send(1, "ok", ("x", 1, 0), f="txn"), poll(2, "ok", ("x", 0, 1), f="txn"), send(3, "ok", ("x", 2, 1)))

    assert history.transactional == {"1"}


def test_operations_without_a_time_are_judged_by_their_order(tmp_path):
    """An operation without a time has its index as time."""
    told = [{"index": n, **send(1, "ok", ("x", n, n))} for n in range(2)]
    file = tmp_path / "history.jsonl"
    file.write_text("".join(json.dumps(each) + "\n" for each in told))

    assert [each.done_ns for each in operations.read([file]).sends] == [0, 1]
    file.write_text(json.dumps(told[0] | {"time": 70}) + "\n")
    assert [each.done_ns for each in operations.read([file]).sends] == [70]


GOOD = {"index": 0, "process": 1, "type": "ok", "f": "send", "time": 0}
MOP = {"op": "send", "key": "x", "offset": 0, "value": 1}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("not json", "not JSON"),
        ("[1]", "JSON object"),
        ('{"a": NaN}', "not JSON"),
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "an object has the name 'c' twice"),
        (json.dumps({**GOOD, "mops": [MOP], "type": "done"}), "type must be one of"),
        (json.dumps({**GOOD, "mops": [MOP], "f": "read"}), "f must be one of"),
        (json.dumps(GOOD), "'mops' is missing"),
        (json.dumps({name: value for name, value in GOOD.items() if name != "process"}), "'process' is missing"),
        (json.dumps({**GOOD, "mops": [{"op": "send", "key": "x"}]}), "'value' is missing"),
        (json.dumps({**GOOD, "mops": [{**MOP, "offset": "0"}]}), "offset must be a whole number"),
        (json.dumps({**GOOD, "mops": [{**MOP, "offset": 2**63}]}), "offset must be a whole number"),
        (json.dumps({**GOOD, "mops": [{**MOP, "key": []}]}), "key must be a string, a number"),
        (json.dumps({**GOOD, "mops": [{"op": "read"}]}), "op must be send or poll"),
        (json.dumps({**GOOD, "f": "poll", "mops": [{"op": "poll", "records": [{"key": 1, "value": 1}]}]}), "'offset'"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, says):
    """A bad line is named in one sentence with its number; blank lines count."""
    path = tmp_path / "history.jsonl"
    path.write_text(json.dumps({**GOOD, "mops": [MOP]}) + "\n\n" + line + "\n")

    with pytest.raises(BadInput, match="line 3: ") as refused:
        operations.read([path])
    assert says in str(refused.value)


def test_a_value_that_was_sent_twice_is_refused(read):
    """A value sent twice to a key is rejected, as its reads are ambiguous; under another key it is another record."""
    history = read(send(1, "ok", ("x", 1, 0)), send(1, "ok", ("y", 1, 0)), send(2, "ok", ("x", 1, 1)))

    with pytest.raises(BadInput, match='line 3: value 1 was sent to key "x" before, on line 1'):
        tables(history, "all", "read_uncommitted")


def test_a_last_line_that_is_cut_off_is_a_gap(tmp_path):
    """An incomplete last line is a gap; one in the middle, or another text, is rejected."""
    line = json.dumps({"index": 0, "time": 0, **send(1, "ok", ("k", "a", 0))})
    file = tmp_path / "history.jsonl"
    file.write_text(f"{line}\n{line[:50]}\n")
    history = operations.read([file])

    assert (len(history.sends), list(history.gaps)) == (
        1,
        ["history.jsonl: output cut off in the middle of line 2."],
    )
    for text in (f"{line[:50]}\n{line}", f"{line}\nxyz"):
        file.write_text(text)
        with pytest.raises(BadInput, match="this is not JSON"):
            operations.read([file])


def test_a_value_that_was_sent_twice_names_both_lines(tmp_path):
    """A value sent twice is rejected with both lines, the other file's name and advice."""
    files = [write(tmp_path / name, send(1, "ok", ("k", "a", 0))) for name in ("one.jsonl", "two.jsonl")]

    with pytest.raises(BadInput, match=r"two\.jsonl, line 1: .* on line 1 of .*one\.jsonl; .* unique: number them\.$"):
        tables(operations.read(files), "all", "read_committed")
