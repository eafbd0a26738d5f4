"""Jepsen's EDN, read as the same operations as JSON lines."""

import pytest

from history.errors import BadInput
from imports import jepsen

OPS = """
{:process 0, :type :invoke, :f :send, :value [[:send 5 140]], :index 0, :time 10}
{:process 0, :type :ok, :f :send, :value ([:send 5 [272 140]]), :index 1, :time 20}
{:process :nemesis, :type :info, :f :kill, :value {"n1" [:killed #object[foo.Bar 0x1f "x"]]}, :index 2, :time 25}
{:process 1, :type :invoke, :f :poll, :value [[:poll]], :index 3, :time 30}
{:process 1, :type :ok, :f :poll, :value [[:poll {5 [[272 140] [273 :b]]}]], :index 4, :time 40, :ext "a \\" } b"}
{:process 0, :type :invoke, :f :txn, :value [[:send 6 1] [:poll]], :index 5, :time 50} ; a comment {
{:process 0, :type :info, :f :txn, :value [[:send 6 [nil 1]] [:poll {5 ()}]], :error [:timeout "x"], :index 6, :time 60}
{:process 1, :type :ok, :f :debug-topic-partitions, :value {5 {:leader 1}}, :index 7, :time 70}
"""


@pytest.fixture
def read(tmp_path):
    """Read literal EDN."""

    def of(text):
        path = tmp_path / "history.edn"
        path.write_text(text)
        return jepsen.read([path])

    return of


@pytest.mark.parametrize(
    "text",
    [
        OPS,
        f"[{OPS}]",
        f"({OPS})",
        OPS.replace("{:process", "#jepsen.history.Op{:process"),
        "[" + OPS.replace("{:process", "#jepsen.history.Op{:process") + "]",
    ],
    ids=["forms", "vector", "list", "records", "vector of records"],
)
def test_every_way_of_writing_a_history_is_read(read, text):
    """Every form of a history is read: sends with and without offsets, and polls, without the nemesis."""
    history = read(text)

    assert [(s.process, s.key, s.value, s.outcome, s.offset, s.error, s.due_ns, s.done_ns) for s in history.sends] == [
        ("0", 5, 140, "ok", 272, None, 10, 20),
        ("0", 6, 1, "info", None, ":timeout x", 50, 60),
    ]
    assert [(r.consumer, r.key, r.offset, r.value, r.completed) for r in history.reads] == [
        ("1", 5, 272, 140, True),
        ("1", 5, 273, ":b", True),
    ]
    assert history.places == {"5": ("history", 5), "6": ("history", 6)}
    assert history.transactional == {"0"}
    assert history.sends[0].line.number == 3


def test_offsets_may_be_missing_in_an_acknowledgement(read):
    """An acknowledgement [:send k v] has no offset."""
    history = read("{:process 0, :type :ok, :f :send, :value [[:send 5 140]], :index 0, :time 1}")

    assert [(s.outcome, s.offset, s.value) for s in history.sends] == [("ok", None, 140)]


@pytest.mark.parametrize(
    ("between", "consumers"),
    [
        (":f :assign, :value [5 6]", ["1", "1"]),
        (":f :subscribe, :value [6]", ["1", "1~1"]),
        (":f :assign, :value [5], :seek-to-beginning? true", ["1", "1~1"]),
        (":f :crash, :value nil", ["1", "1~1"]),
        (":f :poll, :value [[:poll {}]], :rebalance-log [{:keys [5]}]", ["1", "1~2"]),
        (":f :poll, :value [[:poll {}]], :rebalance-log [{:keys [6]}]", ["1", "1"]),
    ],
)
def test_assignments_and_rebalances_begin_anew(read, between, consumers):
    """A key that is assigned or rebalanced anew is read by a new consumer."""
    polled = "{:process 1, :type :ok, :f :poll, :value [[:poll {5 [[%d 1]]}]]}"
    history = read("\n".join([polled % 3, f"{{:process 1, :type :ok, {between}}}", polled % 1]))

    assert [r.consumer for r in history.reads] == consumers


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("{:process 0, :type :ok", 1, "not EDN"),
        ("{:a 1}\n{:b }", 2, "not EDN"),
        ("{:a 1}\n}", 2, "not EDN"),
        ("{:process 1/0}", 1, "not EDN"),
        ("12", 1, "must be a map"),
        ("\n{:process 0, :f :send}", 2, "'type' is missing"),
        ("{:process 0, :f :send, :type :ok}\n{:process 0, :f :send, :type :done}", 2, ":type must be one of"),
        ("{:process 0, :f :send, :type :ok, :value [[:send 1]]}", 1, "micro-operation"),
        ("{:process 0, :f :send, :type :ok, :value [[:send 1 {:a 1}]]}", 1, "must be a scalar"),
        ("[\n{:process 0, :f :poll, :type :ok, :value [[:poll {1 [[1 2 3]]}]]}]", 2, "[offset value]"),
        ("{:process 0, :f :poll, :type :ok, :value [[:poll {1 [[nil 2]]}]]}", 1, "must have an offset"),
    ],
)
def test_a_bad_form_is_named(read, text, line, says):
    """A bad form is named in one sentence with its line number."""
    with pytest.raises(BadInput, match=f"line {line}: ") as refused:
        read(text)
    assert says in str(refused.value)


def test_no_form_is_an_empty_history(read):
    """A history of comments alone is empty."""
    history = read("; nothing\n")

    assert (list(history.sends), list(history.reads)) == ([], [])
