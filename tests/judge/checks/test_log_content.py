"""What the replicas' logs must contain, and what may be missing."""

from dataclasses import replace

import numpy as np

from evidence.columns import Markers
from evidence.facts import UNFENCED_NS, Replica, ShortIsr
from judge.checks.log_content import (
    OpenEnds,
    i15_durability,
    i16_no_phantom_read,
    i27_markers,
    i28_enough_replicas,
    open_ends,
)
from tests.evidence.folders import S, polled, sent
from tests.evidence.partitions import evidence, logged


def verdict(checks):
    """Return (checked, violated)."""
    return checks.checked, checks.violated_ns.size


def test_i15_a_promised_record_that_an_isr_member_lacks():
    """I15 is violated if an ISR member lacks an acknowledged record; acks=1 and replicas outside the ISR are exempt."""
    logs = {1: [logged(0, 0), logged(1, 1)], 2: [logged(0, 0)], 3: []}

    def check(*sends, members=None, **facts):
        of = evidence(sends, logs=logs, **facts)
        return verdict(i15_durability(replace(of, members={1: 0, 2: 0} if members is None else members)))

    assert check(sent(0, offset=0), sent(1, offset=1)) == (4, 1)
    assert check(sent(0, offset=0), sent(1, offset=1, acks="1"), sent(2, outcome="info")) == (2, 0)
    # Records that a replica's retention deleted are not checked at that replica.
    assert check(sent(0, offset=0), sent(1, offset=1), members={1: 0, 2: 2}) == (2, 0)
    assert check(sent(0, offset=0), sent(1, offset=1), members={1: 0, 2: 1}) == (3, 1)
    assert check(sent(0, offset=0), sent(1, offset=1), deleted_before=2) == (0, 0)
    assert check(sent(0, offset=0), sent(1, offset=1), members={}) == (0, 0)


def test_i15_another_record_at_the_offset_is_none():
    """I15 compares the record, not only the offset; its evidence has broker and record."""
    of = evidence([sent(0, offset=0)], logs={1: [logged(0, 7)]})
    checks = i15_durability(replace(of, members={1: 0}))

    assert verdict(checks) == (1, 1)
    assert checks.evidence(0) == {"broker_id": 1, "offset": 0, "producer_id": "load-1", "seq": 0}


def test_i16_a_read_that_does_not_stand():
    """I16 is violated if the final log has another record at a read offset, or none."""
    logs = {1: [logged(0, 0), logged(1, 1)], 2: [logged(2, 2)]}

    def check(*polls, log_start=0):
        final = Replica(1, [], None, log_start)
        return verdict(i16_no_phantom_read(evidence(polls=polls, logs=logs, final=1, replicas=(final,))))

    assert check(polled(0, 0), polled(1, 1)) == (2, 0)
    assert check(polled(0, 0), polled(1, 7)) == (2, 1)
    assert check(polled(0, 0, final=False), polled(2, 2, final=False)) == (2, 1)
    assert check(polled(5, 5, producer_id=None)) == (0, 0)
    assert check(polled(0, 0), polled(1, 7), log_start=2) == (0, 0)


def test_i28_acknowledged_although_too_few_were_in_sync():
    """I28 is violated if a send succeeds while the leader has known for 2 s that its ISR is too small."""
    logs = {1: [logged(n, n, leader_epoch=3 if n < 5 else 2) for n in range(6)]}
    short = ShortIsr(1, 3, (1,), 6 * S + UNFENCED_NS, 20 * S)

    def check(at, seq=0, **other):
        of = evidence([sent(seq, offset=seq, at_ns=int(at * S)) | other], logs=logs)
        return verdict(i28_enough_replicas(replace(of, short=[short])))

    assert check(9) == (1, 1)
    assert check(9, outcome="fail", offset=None) == (1, 0)  # refused
    assert check(9, done_ns=21 * S) == (1, 0)  # it waited until others were back
    assert check(9, done_ns=None, outcome="info", offset=None) == (1, 0)
    assert check(7) == check(21) == (0, 0)  # before the leader may be held to it, and after the end
    assert check(9, acks="1") == (0, 0)
    assert check(9, seq=5) == (0, 0)  # appended by the leader of epoch 2


# --- transactions --------------------------------------------------------------------------------


def of_transaction(name, outcome, **other):
    """Return the single record of a transaction."""
    return sent(0, producer_id=name, outcome=outcome, transaction=0, **other)


def with_log(sends, *batches, pid=7):
    """Return evidence with one log: (offset, producer) is a record, (offset, None, committed) a marker."""
    records = [
        logged(offset, 0, producer_id=name, transactional=True, kafka_producer_id=pid)
        for offset, name, *_ in batches
        if name is not None
    ]
    ends = [(offset, kind[0]) for offset, name, *kind in batches if name is None]
    markers = Markers(
        kafka_producer_id=np.full(len(ends), pid),
        offset=np.array([offset for offset, _ in ends], dtype=np.int64),
        committed=np.array([committed for _, committed in ends], dtype=np.bool_),
    )
    return evidence(sends, logs={1: records}, markers={1: markers})


def test_i27_markers_agree_with_the_outcome():
    """I27 is violated if the next marker of a transaction's producer id contradicts its outcome."""
    sends = [of_transaction("ok", "ok"), of_transaction("fail", "fail"), sent(0, producer_id="plain")]
    good = [(0, "ok"), (1, None, True), (2, "fail"), (3, None, False), (4, "plain"), (5, None, False)]
    of = with_log(sends, *good)
    checks, left = i27_markers(of), open_ends(of)
    assert (verdict(checks), left) == ((2, 0), OpenEnds())

    checks = i27_markers(with_log(sends, (0, "ok"), (2, "fail"), (3, None, False), (4, "ok")))
    assert verdict(checks) == (2, 1)  # the record at offset 4 has no marker behind it
    told = checks.evidence(0)
    assert (told["producer_id"], told["held_offset"], told["ends"], told["owed"]) == ("ok", 0, "abort", "commit")


def test_i27_transactions_of_unknown_outcome_are_left_open():
    """I27 counts the markers of transactions with unknown outcome, to be compared over all partitions."""
    left = open_ends(with_log([of_transaction("info", "info")], (6, "info"), (8, None, False)))

    assert left.ended == {("info", 0): {"abort": 1}}
    assert left.first[("info", 0), "abort"][1]["held_offset"] == 6
