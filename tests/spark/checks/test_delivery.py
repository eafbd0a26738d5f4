"""What became of a send: literal histories, judged side by side as the partitions of one topic."""

from dataclasses import dataclass

import pyarrow as pa
import pytest

from history.tables import POLLS, SENDS
from spark.checks import delivery
from spark.folder.recorded import DRAINS
from spark.folder.tables import rows
from tests.spark.folders import TP, happened, polled, sent

HELD = pa.schema([field for field in SENDS if field.name in {"topic", "partition", "producer_id", "seq", "offset"}])
DELETIONS = [
    {"effect_verified": False, "why": "no leader"},
    *({"partition": f"or-ders-{p}", "deleted_before": before} for p, before in [(0, 5), (0, 7), (1, 3), (0, 6)]),
]
WHOLE = pa.schema([("topic", pa.string()), ("partition", pa.int32())])


@dataclass
class Case:
    """``held`` are (offset, seq) on some replica; ``fates`` is what is expected, by seq."""

    behaviour: str
    sends: list
    polls: list
    fates: dict
    held: tuple = ()
    position: int | None = None
    end: int | None = None
    complete: bool = True
    whole: bool = True


ABOVE = {"sends": [sent(0, offset=0), sent(1, offset=5)], "polls": [polled(0, 0)]}
WITHOUT_OFFSET = {"sends": [sent(0, offset=0), sent(1, offset=None)], "polls": [polled(0, 0)]}
CASES = [
    Case(
        "an acknowledged record that a later read has passed is lost",
        [sent(n, offset=n) for n in range(3)],
        [polled(0, 0), polled(2, 2)],
        {0: "read", 1: "lost_write", 2: "read"},
    ),
    Case(
        "a record whose offset was given away again is lost",
        [sent(0, offset=0), sent(1, offset=1), sent(2, offset=1)],
        [polled(0, 0), polled(1, 2)],
        {0: "read", 1: "lost_write", 2: "read"},
    ),
    Case(
        "an offset that holds nobody's record (a control record) is a legal gap",
        [sent(0, offset=0), sent(1, offset=2)],
        [polled(0, 0), polled(2, 1)],
        {0: "read", 1: "read"},
    ),
    Case(
        "of two indeterminate sends that were not drained the one that a consumer saw is lost",
        [sent(0, outcome="info"), sent(1, outcome="info"), sent(2, offset=2), sent(3, outcome="fail")],
        [polled(1, 1, final=False), polled(2, 2)],
        {0: None, 1: "lost_write", 2: "read", 3: None},
    ),
    Case(
        "a copy above the bound keeps a record from being lost: only what lies at or below it must have been read",
        [sent(0, offset=0), sent(1, offset=1), sent(2, offset=2)],
        [polled(0, 0), polled(1, 1, final=False), polled(3, 1, final=False), polled(2, 2)],
        {0: "read", 1: "invisible_ack", 2: "read"},
        held=((1, 1),), position=0, end=1, complete=False,
    ),
    Case("above the bound and on no replica", fates={0: "read", 1: "truncated_ack"}, position=1, end=1, **ABOVE),
    Case(
        "above the bound and on a replica at another offset only",
        fates={0: "read", 1: "truncated_ack"}, held=((4, 1),), position=1, end=1, **ABOVE,
    ),
    Case(
        "on a replica, at the high watermark",
        fates={0: "read", 1: "invisible_ack"}, held=((5, 1),), position=1, end=5, **ABOVE,
    ),
    Case(
        "below the high watermark, where the drain stopped early",
        fates={0: "read", 1: "undrained"}, held=((5, 1),), position=3, end=6, complete=False, **ABOVE,
    ),
    Case(
        "below the high watermark, and the drain passed it",
        fates={0: "read", 1: "lost_write"}, held=((5, 1),), position=6, end=6, **ABOVE,
    ),
    Case(
        "acknowledged without an offset and on no replica at all",
        fates={0: "read", 1: "unknown_offset_ack"}, position=1, end=1, **WITHOUT_OFFSET,
    ),
    Case(
        "acknowledged without an offset and on a replica somewhere",
        fates={0: "read", 1: "invisible_ack"}, held=((7, 1),), position=1, end=1, **WITHOUT_OFFSET,
    ),
    Case(
        "without a replica's log absence proves nothing",
        [sent(0, offset=0)], [], {0: "undecided"}, position=0, end=0, whole=False,
    ),
    Case(
        "an empty drain bounds nothing; the replicas decide",
        [sent(0, offset=0)], [], {0: "undrained"}, held=((0, 0),), position=0, end=1, complete=False,
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def fates(spark):
    """(number of the case, seq) → fate."""
    sends, polls, held, drains, whole = [], [], [], [], []
    for number, case in enumerate(CASES):
        at = TP | {"partition": number}
        sends += [row | at for row in case.sends]
        polls += [row | at for row in case.polls]
        held += [{**at, "producer_id": "load-1", "seq": seq, "offset": offset} for offset, seq in case.held]
        drains.append({**at, "position": case.position, "end_offset": case.end, "complete": case.complete})
        whole += [at] if case.whole else []
    seen = rows(spark, POLLS, polls)
    found = (
        rows(spark, SENDS, sends)
        .transform(delivery.with_read, seen)
        .transform(delivery.with_index, seen)
        .transform(delivery.with_fate, rows(spark, HELD, held), rows(spark, DRAINS, drains), rows(spark, WHOLE, whole))
    )
    return {(row["partition"], row["seq"]): row["fate"] for row in found.collect()}


def test_what_was_deleted_is_not_lost(spark):
    """Below the offset that the leader named nothing is owed; at it, or where nothing was deleted, all is. A record
    without an offset stood where a reader or a replica's log had it; where none had, nobody can tell.
    """
    places = ("offset", "seen_at", "held_offset")
    more = {"seen_at": pa.int64(), "held_offset": pa.int64(), "read": pa.bool_(), "fate": pa.string()}
    schema = pa.schema([*HELD, *more.items()])
    told = {
        (4, None, None): None,
        (5, None, None): "lost_write",
        (None, 4, None): None,
        (None, 5, None): "lost_write",
        (None, None, 4): None,
        (None, None, 5): "lost_write",
        (None, None, None): "undecided",
        (-1, None, 5): "lost_write",
        (5, 4, 4): "lost_write",
    }
    unread = {**TP, "producer_id": "p", "read": False, "fate": "lost_write"}
    literal = [unread | {"seq": n} | dict(zip(places, place, strict=True)) for n, place in enumerate(told)]
    others = [
        literal[0] | {"seq": 9, "read": True, "fate": "read"},
        literal[6] | {"seq": 10, "fate": None},
        literal[0] | {"partition": 1},
        literal[6] | {"partition": 1},
    ]
    deleted = rows(spark, delivery.DELETED, [{**TP, "deleted_before": 5}])
    found = rows(spark, schema, [*literal, *others])

    fates = found.transform(delivery.without_deleted, deleted).orderBy("partition", "seq").collect()
    assert [row["fate"] for row in fates] == [*told.values(), "read", None, "lost_write", "lost_write"]
    owed = found.transform(delivery.above_deleted, deleted).orderBy("partition", "seq").collect()
    assert [row["seq"] for row in owed if row["partition"] == 0] == [1, 2, 3, 4, 5, 6, 8, 10]
    assert [row["seq"] for row in owed if row["partition"] == 1] == [0, 6]


def test_a_record_without_an_offset_is_known_by_where_it_was_seen(spark):
    """By any reader, at the furthest; one that was not seen has no place."""
    sends = rows(spark, SENDS, [sent(0, outcome="info"), sent(1, outcome="info")])
    seen = rows(spark, POLLS, [polled(3, 0, final=False), polled(4, 0, final=False)])

    found = sends.transform(delivery.with_read, seen).orderBy("seq").collect()
    assert [(row["seen_at"], row["committed"]) for row in found] == [(4, True), (None, False)]


def test_the_furthest_deletion_of_a_partition_counts():
    """As the leader answered; a deletion that was only ordered deletes nothing."""
    named = [happened(n, "injected", step="delete_records", detail=detail) for n, detail in enumerate(DELETIONS)]

    deleted = delivery.deleted([happened(0, "inject", step="delete_records"), *named])
    assert deleted == {("or-ders", 0): 7, ("or-ders", 1): 3}


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.behaviour for case in CASES])
def test_what_became_of_a_send(fates, number):
    """Each case's behaviour is its name."""
    assert CASES[number].fates == {seq: fate for (case, seq), fate in fates.items() if case == number}
