"""Contracts of the recorded tables: rows that break a rule, and rows that nearly do."""

import pyarrow as pa
import pytest

from expectations.contracts import CONTRACTS
from expectations.tallies import Tallies
from history.tables import IMPORTED, RECORDED
from tests.evidence.folders import MS, TP, S, isr_view, polled, sample, sent, sought

SILENT = {"high_watermark": None, "log_end_offset": None, "error": "timeout", "single_reply": None}
USED = {"t_ns": S, "label": "before", "source": "broker-1", "name": "cpu_ns", "value": 5.0}
NAMED = {**TP, "producer_id": "p", "seq": 0, "key": "0", "value": "1", "operation": 0}


def captured(**other):
    """Return a row of ``offsets``."""
    return {"capture": "after", **sample(1, S, 5, 9)} | other


# Rows of each table, with the rules that they break and how often. The first rows are sound, or nearly break a rule.
AT = {"topic": "orders", "partition": 0}
STRETCH = {"member": "member-1.1", **AT, "first_offset": 7, "last_offset": 9, "received_ns": 5}
STOOD = {"reader": "member-1.1", **AT, "position": 5, "told_ns": 5}
REBALANCED = {"member": "member-1.1", **AT, "change": "assigned", "changed_ns": 5}
GIVEN = STRETCH | {"delivery_count": 1, "since_ns": 4}
ASKED = {"member": "member-1.1", **AT, "first_offset": 7, "last_offset": 9, "kind": "accept", "asked_ns": 10}
ANSWERED = {name: value for name, value in ASKED.items() if name != "asked_ns"} | {"answered_ns": 20}
COMMITTED = {"member": "member-1.1", **AT, "number": 0, "offset": 7, "asked_ns": 10}
TABLES = {
    "sends": (
        [
            sent(0, offset=7),
            sent(0, offset=7, producer_id="load-2"),  # another producer's number
            sent(1, outcome="info", done_ns=None, error="TIMED_OUT", partition=-1),  # an import may not know it
            sent(2, outcome="fail", sent_ns=None, done_ns=None, error="REFUSED"),
            sent(3, offset=-1, transaction=0),  # an anomaly, shown as such
            sent(4, offset=8, outcome="fine"),
            sent(5, offset=9, acks="2"),
            sent(-1, offset=10),
            sent(6, offset=11, transaction=-1),
            sent(7, offset=12),
            sent(7, offset=13),
            sent(8, offset=14, done_ns=S),
            sent(9, offset=15, error="TIMED_OUT"),
            sent(10, offset=16, done_ns=None),
            sent(11, offset=17, partition=-1),
        ],
        {
            "outcome is one of ok, fail, info": 1,
            "acks is one of 0, 1, all": 1,
            "seq is at least 0": 1,
            "transaction is at least 0": 1,
            "producer_id, seq are unique together": 2,
            "sent_ns is not after done_ns": 1,
            "never an acknowledged send with an error": 1,
            "never an acknowledged send without the time of its answer": 1,
            "never an acknowledged send to a partition below 0": 1,
        },
    ),
    "polls": (
        [
            polled(0, 0),
            polled(0, 0, final=False),  # another reader's position
            polled(1, None, producer_id=None),
            polled(2, 2, isolation="serializable"),
            polled(3, 3, **{"pass": "middle"}),
            polled(-1, 4, position=4),
            polled(5, 5, position=-1),
            polled(6, None),
            polled(7, 7, producer_id=None),
            polled(8, 8, position=0),
        ],
        {
            "pass is one of live, final, incomplete": 1,
            "isolation is one of read_uncommitted, read_committed": 1,
            "position is at least 0": 1,
            "offset is at least 0": 1,
            "never a number without a producer": 1,
            "never a producer without a number": 1,
            "consumer_id, pass, topic, partition, position are unique together": 2,
        },
    ),
    "seeks": (
        [sought(0, 9, 0), sought(0, 9, 0), sought(-1, 9, 0), sought(1, -9, 0), sought(2, 9, -1, **{"pass": "x"})],
        {
            "pass is one of live, final": 1,
            "position is at least 0": 1,
            "from_offset is at least 0": 1,
            "to_offset is at least 0": 1,
        },
    ),
    "replicas": (
        [
            sample(1, S, 5, 5),
            sample(2, S, 5, 5),  # another broker, the same moment
            sample(1, 2 * S, 6, 5, single_reply=False),  # two replies: the log may have grown between them
            sample(1, 3 * S, 6, 5),
            sample(1, 4 * S, 5, 9) | SILENT,
            sample(1, 5 * S, 5, 9) | SILENT | {"high_watermark": 5},
            sample(1, 6 * S, 5, 9) | SILENT | {"log_end_offset": 9},
            sample(1, 7 * S, None, 9),
            sample(1, 8 * S, 5, None),
            sample(1, 9 * S, 5, 9, received_ns=9 * S - MS),
            sample(1, 10 * S, 5, 9),
            sample(1, 10 * S, 5, 9),
        ],
        {
            "sent_ns is not after received_ns": 1,
            "never an answer without a high watermark": 1,
            "never an answer without a log end offset": 1,
            "never an error with a high watermark": 1,
            "never an error with a log end offset": 1,
            "never a high watermark beyond the log end offset within one reply": 1,
            "broker_id, topic, partition, sent_ns are unique together": 2,
        },
    ),
    "isr": (
        [
            isr_view(S, 1, 0, [1, 2]),
            isr_view(S, 1, 0, [1, 2], observer="2"),
            isr_view(2 * S, -1, 0, [], source="guess"),
            isr_view(3 * S, 1, 0, [1], received_ns=S),
            isr_view(4 * S, 1, 0, [1]),
            isr_view(4 * S, 1, 0, [1]),
        ],
        {
            "source is one of metadata": 1,
            "sent_ns is not after received_ns": 1,
            "observer, topic, partition, sent_ns are unique together": 2,
        },
    ),
    "offsets": (
        [
            captured(),
            captured(capture="before"),
            captured(sent_ns=S + 1),
            captured(sent_ns=S + 2, high_watermark=None),
            captured(sent_ns=S + 3),
            captured(sent_ns=S + 3),
        ],
        {
            "never an answer without a high watermark": 1,
            "capture, broker_id, topic, partition, sent_ns are unique together": 2,
        },
    ),
    "group_reads": (
        [
            STRETCH,
            STRETCH | {"last_offset": 7},
            STRETCH | {"first_offset": -1},
            STRETCH | {"last_offset": 6},
        ],
        {"first_offset is at least 0": 1, "first_offset is not after last_offset": 1},
    ),
    "rebalances": (
        [REBALANCED, REBALANCED | {"change": "lost"}, REBALANCED | {"change": "gone"}],
        {"change is one of assigned, revoked, lost": 1},
    ),
    "commits": (
        [
            COMMITTED,
            COMMITTED | {"answered_ns": 20},
            COMMITTED | {"answered_ns": 20, "error": "ILLEGAL_GENERATION"},
            COMMITTED | {"answered_ns": 9},
            COMMITTED | {"error": "ILLEGAL_GENERATION"},
            COMMITTED | {"number": -1},
            COMMITTED | {"offset": -1},
        ],
        {
            "number is at least 0": 1,
            "offset is at least 0": 1,
            "asked_ns is not after answered_ns": 1,
            "never an error without the time of its answer": 1,
        },
    ),
    "usage": (
        [
            USED,
            USED | {"label": "after"},
            USED | {"name": "gc_ms", "value": -1.0},
            USED | {"name": "gc"},
            USED | {"name": "gc"},
        ],
        {"value is at least 0": 1, "t_ns, label, source, name are unique together": 2},
    ),
    "share_reads": (
        [
            GIVEN,
            GIVEN | {"delivery_count": None},
            GIVEN | {"first_offset": -1},
            GIVEN | {"last_offset": 6},
            GIVEN | {"delivery_count": -1},
            GIVEN | {"since_ns": 6},
        ],
        {
            "first_offset is at least 0": 1,
            "first_offset is not after last_offset": 1,
            "delivery_count is at least 0": 1,
            "since_ns is not after received_ns": 1,
        },
    ),
    "share_acks": (
        [
            ASKED,
            ANSWERED,
            ANSWERED | {"error": "INVALID_RECORD_STATE"},
            ASKED | {"first_offset": -1},
            ASKED | {"last_offset": 6},
            ASKED | {"kind": "reject"},
            ASKED | {"error": "INVALID_RECORD_STATE"},
        ],
        {
            "first_offset is at least 0": 1,
            "first_offset is not after last_offset": 1,
            "kind is one of accept, release": 1,
            "never an error without the time of its answer": 1,
        },
    ),
    "positions": (
        [
            STOOD,
            STOOD | {"reader": "consumer", "position": None},
            STOOD | {"partition": 1, "position": -1},
            STOOD | {"partition": 2},
            STOOD | {"partition": 2, "position": 9},
        ],
        {"position is at least 0": 1, "reader, topic, partition are unique together": 2},
    ),
    "imported": (
        [
            NAMED,
            NAMED | {"seq": 1, "operation": None},
            NAMED | {"seq": 2, "operation": -1},
            NAMED | {"seq": 3},
            NAMED | {"seq": 3, "partition": 1},
        ],
        {"operation is at least 0": 1, "producer_id, seq are unique together": 2},
    ),
}


SCHEMAS = RECORDED | {"imported": IMPORTED}


def counted(name, rows):
    """Return the tallies of literal rows, with strings as the reader encodes them."""
    tallies, table = Tallies(), pa.Table.from_pylist(rows, SCHEMAS[name])
    for at, column in enumerate(table.columns):
        if pa.types.is_string(column.type):
            parts = [column.slice(start, 3).dictionary_encode().chunk(0) for start in range(0, len(column), 3)]
            table = table.set_column(at, table.column_names[at], pa.chunked_array(parts))
    tallies.add(name, table)
    return tallies


def broken(tallies):
    """Return the number of rows that break each rule."""
    return {rule: count for _, rule, count, _ in tallies.violations()}


def test_every_recorded_table_has_a_contract():
    """Every recorded table has a contract."""
    assert set(CONTRACTS) == set(SCHEMAS) == set(TABLES)


@pytest.mark.parametrize("name", TABLES)
def test_every_rule_is_broken_by_the_rows_that_break_it(name):
    """Every rule is broken by exactly the rows that break it, among sound rows and near misses."""
    rows, expected = TABLES[name]

    assert broken(counted(name, rows)) == expected
    assert set(expected) <= {rule.name for rule in CONTRACTS[name].rules}


@pytest.mark.parametrize("cut", [1, 4, 10, 13])
def test_tallies_of_parts_add_up(cut):
    """The tallies of two parts of a table are those of the table, also for a key that is in both."""
    rows, expected = TABLES["sends"]
    parts = counted("sends", rows[:cut]).merge([counted("sends", rows[cut:])])

    assert broken(parts) == expected
    assert [*parts.violations()] == [*counted("sends", rows).violations()]


def test_rules_name_columns_that_are_there():
    """A contract names only columns of its table."""
    named = {(name, column) for name, of in CONTRACTS.items() for rule in of.rules for column in rule.columns}

    assert named <= {(name, column) for name, contract in CONTRACTS.items() for column in contract.schema.names}
