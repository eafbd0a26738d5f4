"""The records of a share group's members as columns."""

import numpy as np
import pyarrow as pa

from evidence.columns import NULL, Names
from evidence.shares import ACCEPT, RELEASE, Acks, Deliveries, ShareEvidence, ShareFacts
from history.tables import SHARE_ACKS, SHARE_READS
from tests.evidence.folders import TP

FACTS = ShareFacts("orders", 4, 13, 5, 100, frozenset(), (30,))


def stretch(first, last, **more):
    """Return a row of member a's records."""
    return {"member": "a", **TP, "first_offset": first, "last_offset": last, **more}


def reads(*rows):
    """Return a table of deliveries; the poll before ended at 1."""
    return pa.Table.from_pylist([{"since_ns": 1, **row} for row in rows], SHARE_READS)


def test_a_stretch_is_a_row_for_each_record():
    """A stretch yields a row for each record, by offset and then by time; an unknown delivery count stays unknown."""
    told = reads(stretch(2, 3, received_ns=20), stretch(1, 2, received_ns=10, delivery_count=1))
    found = Deliveries.of(told, Names())

    assert found.offset.tolist() == [1, 2, 2, 3]
    assert found.received_ns.tolist() == [10, 10, 20, 20]
    assert found.count.tolist() == [1, 1, NULL, NULL]
    share = ShareEvidence(found, Acks.of(SHARE_ACKS.empty_table(), Names()), FACTS)
    assert share.again.tolist() == [2]


def test_nothing_recorded_is_no_record():
    """A partition without deliveries has no records."""
    share = ShareEvidence(Deliveries.of(reads(), Names()), Acks.of(SHARE_ACKS.empty_table(), Names()), FACTS)
    assert len(share.reads) == len(share.accepted) == share.again.size == 0


def test_an_acknowledgement_counts_as_taken_by_its_answer():
    """An acknowledgement counts from its answer; a request alone, a rejection and a release do not count."""
    rows = [
        stretch(5, 6, kind="accept", asked_ns=1),
        stretch(5, 5, kind="accept", answered_ns=2),
        stretch(6, 6, kind="accept", answered_ns=2, error="INVALID_RECORD_STATE"),
        stretch(7, 7, kind="release", answered_ns=3),
    ]
    share = ShareEvidence(
        Deliveries.of(reads(), Names()), Acks.of(pa.Table.from_pylist(rows, SHARE_ACKS), Names()), FACTS
    )

    assert share.accepted.offset.tolist() == [5]
    assert share.asked.offset.tolist() == [5, 6]
    assert share.acks.kind.tolist() == [ACCEPT, ACCEPT, ACCEPT, ACCEPT, RELEASE]


def test_a_group_is_disturbed_by_faults_and_by_members_that_start():
    """A group is disturbed from the start to the end of each fault and of each start of a member."""
    share = ShareEvidence(
        Deliveries.of(reads(), Names()), Acks.of(SHARE_ACKS.empty_table(), Names()), FACTS, [(10, 20)]
    )
    from_ns, to_ns = np.array([1, 1, 20, 21, 29, 31]), np.array([9, 10, 25, 29, 30, 40])

    assert share.disturbed(from_ns, to_ns).tolist() == [False, True, True, False, True, False]
