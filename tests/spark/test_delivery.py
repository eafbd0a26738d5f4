"""What became of a send: literal histories of one partition."""

import pyarrow as pa

from history.tables import POLLS, SENDS
from spark import delivery
from spark.recorded import DRAINS
from spark.tables import rows
from tests.spark.folders import TP, polled, sent

HELD = pa.schema([field for field in SENDS if field.name in {"topic", "partition", "producer_id", "seq", "offset"}])
WHOLE = pa.schema([("topic", pa.string()), ("partition", pa.int32())])


def fates(spark, sends, polls, *, held=(), position=None, end=None, complete=True, whole=True):
    """seq → fate; ``held`` are (offset, seq) on some replica."""
    drain = {**TP, "position": position, "end_offset": end, "complete": complete}
    logs = [{**TP, "producer_id": "load-1", "seq": seq, "offset": offset} for offset, seq in held]
    polls = rows(spark, POLLS, polls)
    found = (
        rows(spark, SENDS, sends)
        .transform(delivery.with_read, polls)
        .transform(delivery.with_index, polls)
        .transform(
            delivery.with_fate,
            rows(spark, HELD, logs),
            rows(spark, DRAINS, [drain]),
            rows(spark, WHOLE, [TP] if whole else []),
        )
    )
    return {row["seq"]: row["fate"] for row in found.collect()}


def test_an_acknowledged_record_below_the_bound_that_nobody_read_is_lost(spark):
    """Record 1 is lost: record 2 was read behind it. Record 0 was read."""
    found = fates(spark, [sent(n, offset=n) for n in range(3)], [polled(0, 0), polled(2, 2)])

    assert found == {0: "read", 1: "lost_write", 2: "read"}


def test_an_offset_given_away_again_is_lost(spark):
    """Record 1 was acknowledged at offset 1, where record 2 stands now."""
    found = fates(spark, [sent(0, offset=0), sent(1, offset=1), sent(2, offset=1)], [polled(0, 0), polled(1, 2)])

    assert found == {0: "read", 1: "lost_write", 2: "read"}


def test_gaps_in_the_offsets_are_legal(spark):
    """Offset 1 holds nobody's record (a control record): nothing is lost."""
    assert fates(spark, [sent(0, offset=0), sent(1, offset=2)], [polled(0, 0), polled(2, 1)]) == {0: "read", 1: "read"}


def test_an_indeterminate_send_is_never_lost_unless_it_was_seen(spark):
    """Both unread: the one that a live consumer saw had been written and is lost, the other promised nothing."""
    sends = [sent(0, outcome="info"), sent(1, outcome="info"), sent(2, offset=2), sent(3, outcome="fail")]
    found = fates(spark, sends, [polled(1, 1, final=False), polled(2, 2)])

    assert found == {0: None, 1: "lost_write", 2: "read", 3: None}


def test_a_copy_above_the_bound_keeps_a_record_from_being_lost(spark):
    """Record 1 stands at offsets 1 and 3; only what lies at or below the bound must have been read."""
    sends = [sent(0, offset=0), sent(1, offset=1), sent(2, offset=2)]
    found = fates(
        spark, sends, [polled(0, 0), polled(1, 1, final=False), polled(3, 1, final=False), polled(2, 2)],
        held=[(1, 1)], position=3, end=4, complete=False,
    )  # fmt: skip

    assert found[1] != "read"
    assert found[0] == found[2] == "read"


def test_the_unseen_are_told_apart_by_the_replicas(spark):
    """Above the bound: on no replica, above the high watermark, below it and undrained, passed by the drain."""
    sends = [sent(0, offset=0), sent(1, offset=5)]
    read = [polled(0, 0)]

    assert fates(spark, sends, read, position=1, end=1)[1] == "truncated_ack"
    assert fates(spark, sends, read, held=[(4, 1)], position=1, end=1)[1] == "truncated_ack"
    assert fates(spark, sends, read, held=[(5, 1)], position=1, end=5)[1] == "invisible_ack"
    assert fates(spark, sends, read, held=[(5, 1)], position=3, end=6, complete=False)[1] == "undrained"
    assert fates(spark, sends, read, held=[(5, 1)], position=6, end=6)[1] == "lost_write"


def test_an_acknowledgement_without_an_offset_is_looked_for_everywhere(spark):
    """Without an offset a record is gone only if no replica holds it at any offset."""
    sends = [sent(0, offset=0), sent(1, offset=None)]

    assert fates(spark, sends, [polled(0, 0)], position=1, end=1)[1] == "unknown_offset_ack"
    assert fates(spark, sends, [polled(0, 0)], held=[(7, 1)], position=1, end=1)[1] == "invisible_ack"


def test_without_a_replicas_log_absence_proves_nothing(spark):
    """A missing export leaves the record undecided, never lost."""
    assert fates(spark, [sent(0, offset=0)], [], position=0, end=0, whole=False) == {0: "undecided"}


def test_nothing_read_bounds_nothing(spark):
    """With an empty drain no record is lost_write; the replicas decide."""
    assert fates(spark, [sent(0, offset=0)], [], held=[(0, 0)], position=0, end=1, complete=False) == {0: "undrained"}
