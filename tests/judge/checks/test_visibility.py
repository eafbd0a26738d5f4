"""Reads compared with what leaders showed: each anomaly and its near misses."""

from history.payload import MAX_SEQ
from judge.checks import visibility
from tests.evidence.folders import S, isr_view, polled, sample, sent
from tests.evidence.probed import partition

LED = [isr_view(0, 1, 0, [1, 2, 3]), isr_view(18 * S, 2, 1, [2, 3])]


def found(cases):
    """Return the rows of these cases."""
    return [cases.example(place) for place in range(cases.values.size)]


def given(*samples, at=10 * S, epoch=0, isr=LED):
    """Return the offsets read too early, with offset 5 read at this time."""
    read = polled(5, 5, final=False, received_ns=at, leader_epoch=epoch)
    return [case["offset"] for case in found(visibility.precommitted_read(partition(samples, isr, polls=[read])))]


def test_precommitted_read():
    """A read at or above the leader's HW, as a later sample shows, is precommitted."""
    assert given(sample(1, 11 * S, 5, 9)) == [5]
    assert given(sample(1, 11 * S, 6, 9)) == []
    assert given(sample(1, 9 * S, 5, 9), sample(1, 11 * S, 6, 9)) == []  # asked before the read
    assert given(sample(3, 11 * S, 5, 9)) == []  # a follower's may lag
    assert given(sample(2, 26 * S, 5, 9, epoch=1), at=25 * S) == []  # the leader before had committed it
    assert given(sample(2, 26 * S, 5, 9, epoch=1), at=25 * S, epoch=1) == [5]


def test_precommitted_read_of_an_unknown_epoch_says_nothing():
    """A read of an unknown epoch, without a known leader or a later sample, is not checked."""
    assert given(sample(1, 11 * S, 5, 9), epoch=None) == []
    assert given(sample(1, 11 * S, 5, 9), isr=[]) == []
    assert given(sample(1, 9 * S, 5, 9)) == []


def test_precommitted_read_tells_what_the_leader_showed():
    """The case has the record, and its explanation the leader's sample."""
    samples = [sample(1, 11 * S, 5, 9, last_stable_offset=None)]
    cases = visibility.precommitted_read(partition(samples, LED, polls=[polled(7, 3), polled(5, 4), polled(4, 2)]))
    late = visibility.precommitted_read(
        partition(samples, LED, polls=[polled(offset, seq, received_ns=10 * S) for offset, seq in ((7, 3), (5, 4))])
    )

    assert found(cases) == []
    assert [case["offset"] for case in found(late)] == [5, 7]
    assert [value & MAX_SEQ for value in late.values.tolist()] == [4, 3]
    assert found(late)[0] == {
        "offset": 5,
        "explanation": "Consumer drain-1 was given offset 5 while broker 1, leader in epoch 0, was at HW 5, "
        "last stable offset unknown.",
        "evidence": {
            "received_ns": 10 * S,
            "sample": {
                "high_watermark": 5,
                "broker_id": 1,
                "leader_epoch": 0,
                "until_ns": 18 * S + 1_000_000,
                "sent_ns": 11 * S,
            },
        },
    }


def test_a_leader_that_was_cut_off_serves_nobody():
    """Samples of a former leader do not count for reads after another one may have led."""
    old = sample(1, 20 * S, 5, 9)

    assert given(old, at=19 * S) == []
    assert given(old, at=17 * S) == []  # it may have been elected some time before anyone saw it
    assert given(old, at=15 * S) == [5]


def test_a_committed_reader_stops_at_the_last_stable_offset():
    """A read_committed reader must stop below the LSO, a read_uncommitted one below the HW."""
    reads = [
        polled(offset, n, final=False, received_ns=20 * S, isolation=isolation)
        for n, (offset, isolation) in enumerate(
            [(40, "read_committed"), (39, "read_committed"), (40, "read_uncommitted"), (50, "read_uncommitted")]
        )
    ]
    samples = [sample(1, 21 * S, 50, 50, last_stable_offset=40)]
    cases = visibility.precommitted_read(partition(samples, [isr_view(9 * S, 1, 0, [1, 2, 3])], polls=reads))

    assert [value & MAX_SEQ for value in cases.values.tolist()] == [0, 3]


def held_back(seconds, stable, hw=50, *, since=20, broker_id=1):
    """Return one sample per second of a replica with a constant LSO."""
    return [sample(broker_id, (since + n) * S, hw, hw, last_stable_offset=stable) for n in range(seconds + 1)]


def hanging(*samples, sends=(), faults=()):
    """Return the hanging transactions of a partition, with a limit of 30 s."""
    known = {"transaction_limit_ns": 30 * S, "active_faults": faults}
    return visibility.hanging_transaction(partition(samples, [isr_view(9 * S, 1, 0, [1, 2, 3])], sends=sends, **known))


def test_hanging_transaction():
    """A leader's LSO that stays below the HW for longer than the limit, without a fault, is a hanging transaction."""
    offsets = [
        [case["offset"] for case in found(hanging(*samples))]
        for samples in (
            held_back(31, 40),
            held_back(30, 40),
            held_back(40, 50),
            [*held_back(20, 40), *held_back(20, 45, since=41)],
            held_back(40, 40, broker_id=2),
            held_back(40, 41),
        )
    ]

    assert offsets == [[40], [], [], [], [], [41]]
    assert found(hanging(*held_back(31, 40), faults=[(22 * S, 25 * S)])) == []
    assert len(found(hanging(*held_back(40, 41), faults=[(22 * S, 25 * S)]))) == 1


def test_hanging_transaction_names_whose_record_stands_there():
    """A hanging transaction is attributed to the send at the LSO; without one, to no producer of the run."""
    begun = sent(3, offset=40, transaction=7, outcome="info")
    cases = hanging(*held_back(31, 40), sends=[begun, sent(4, offset=41, transaction=8)])
    (case,), (other,) = found(cases), found(hanging(*held_back(40, 41), sends=[begun, sent(4, offset=41)]))

    assert case["explanation"] == (
        "The last stable offset stayed at 40 for 31.0 s with no fault active, below the high watermark 50: "
        "transaction 7 of load-1 never ended."
    )
    assert (case["acks"], case["evidence"]["transaction"], cases.values[0] & MAX_SEQ) == ("all", 7, 3)
    assert other["explanation"].endswith(": a transaction that nobody here began never ended.")
    assert hanging(*held_back(40, 41)).values.tolist() == [-1]
