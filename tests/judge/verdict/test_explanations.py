"""The explanation of one lost record from samples, elections, epoch files and brokers' logs."""

import pyarrow as pa
import pytest

from evidence.samples import Samples
from history.tables import REPLICAS
from judge.verdict.explanations import Case, Witnesses
from tests.evidence.folders import TP, S, sample

LOST = Case("lost_write", "load-1", 7, "1", 7, 21 * S)
LINE = {**TP, "t_ns": 22 * S, "line": 31, "text": ""}
SAMPLES = [sample(1, 20 * S, 5, 8), sample(2, 19 * S, 5, 5), sample(2, 23 * S, 5, 5, epoch=1)]
LEADERS = {0: [(1, 9 * S + 1_000_000)], 1: [(2, 22 * S + 1_000_000)]}
NOTHING = "; no election or truncation that removed it was seen."
ACKED = "Record load-1/7 (acks=1) was acknowledged at +11.000 s while broker 1 led epoch 0 at offset 7"
STOOD = "; last seen before that: broker 1 at HW 5 and LEO 8 (1.0 s before), broker 2 at HW 5 and LEO 5 (2.0 s before)"


def line(kind, broker_id, **other):
    """Return a line of a broker's log, as ``kafka_files.broker_log`` reads it."""
    return LINE | {"kind": kind, "broker_id": broker_id} | other


def explanation(*lines, epochs=(), samples=SAMPLES, leaders=LEADERS, **case):
    """Return the explanation of record 7, acknowledged at +11 s by broker 1 at offset 7.

    ``epochs`` are the entries of broker 2's epoch file, or have a broker each.
    """
    starts = [each if len(each) == 3 else (2, *each) for each in epochs]
    columns = Samples.of(pa.Table.from_pylist(samples, REPLICAS))
    return Witnesses(columns, leaders, starts, lines, 10 * S).explain(LOST._replace(**case))


def test_the_lines_that_prove_it_are_named():
    """Election and truncation are explained with the brokers' log lines."""
    told = explanation(
        line("leader_started", 2, leader_epoch=1, log_end_offset=5),
        line("truncating", 1, log_end_offset=5, line=99, t_ns=25 * S),
        epochs=[(0, 0), (1, 5)],
    )
    assert told == (
        "Record load-1/7 (acks=1) was acknowledged at +11.000 s while broker 1 led epoch 0 at offset 7; last seen "
        "before that: broker 1 at HW 5 and LEO 8 (1.0 s before), broker 2 at HW 5 and LEO 5 (2.0 s before); broker 2 "
        "began epoch 1 at offset 5 without it, seen at +12.001 s (its server.log, line 31); broker 1 logged at "
        '+15.000 s "Truncating to offset 5" (server.log, line 99).'
    )


def test_a_cut_above_the_record_or_before_it_explains_nothing():
    """A truncation above the record, before its acknowledgement, or on another broker does not explain the loss."""
    told = explanation(
        line("truncating", 1, log_end_offset=8, t_ns=25 * S),
        line("truncating", 1, log_end_offset=5, t_ns=20 * S),
        line("truncating", 3, log_end_offset=5, t_ns=25 * S),
    )
    assert told.endswith("; no election or truncation that removed it was seen.")


def test_the_leaders_own_fall_is_told_before_anothers():
    """The fall of the acknowledging leader's log end is preferred to an earlier one of another replica."""
    fallen = [sample(3, 21 * S, 5, 8), sample(3, 23 * S, 5, 6), sample(1, 24 * S, 5, 5, epoch=1)]
    told = explanation(samples=[*SAMPLES, *fallen], epochs=[(1, 1, 5)])

    assert told == (
        f"{ACKED}{STOOD}; broker 2 began epoch 1 at offset 5 without it, seen at +12.001 s; "
        "broker 1's log end fell from 8 to 5 at +14.001 s."
    )


def test_another_replicas_fall_leaves_the_leaders_own_log_to_be_told():
    """If only another replica's fall was sampled, the leader's epoch file is quoted too."""
    fallen = [sample(3, 21 * S, 5, 8), sample(3, 23 * S, 5, 6)]
    told = explanation(samples=[*SAMPLES, *fallen], epochs=[(1, 1, 6), (2, 1, 5)])

    assert told == (
        f"{ACKED}{STOOD}; broker 2 began epoch 1 at offset 5 without it, seen at +12.001 s; "
        "broker 3's log end fell from 8 to 6 at +13.001 s; broker 1's own log now has epoch 1 from offset 6."
    )


def test_an_epoch_that_began_above_the_record_did_not_remove_it():
    """An epoch that began above the record did not remove it; one without a known leader may have."""
    assert explanation(epochs=[(0, 0), (1, 8)]).endswith(NOTHING)
    assert explanation(epochs=[(0, 0), (1, 8), (3, 7)]).endswith("; a leader began epoch 3 at offset 7 without it.")


@pytest.mark.parametrize(
    ("anomaly", "fate"),
    [
        ("invisible_ack", "it is in a log, above where readers stop"),
        ("undrained", "it is below the high watermark; the final drain stopped early"),
        ("unseen", "it was not read, and a log that may have it is incomplete"),
    ],
)
def test_what_is_not_gone_has_no_end_to_tell(anomaly, fate):
    """A record that is not lost has its place as explanation, whatever election took place."""
    assert explanation(epochs=[(1, 5)], anomaly=anomaly) == f"{ACKED}{STOOD}; {fate}."


def test_what_is_not_known_is_left_out():
    """Unknown times, offsets, samples and leaders are left out."""
    assert explanation(at_ns=None, offset=None) == f"Record load-1/7 (acks=1) was acknowledged{NOTHING}"
    assert explanation(at_ns=None) == f"Record load-1/7 (acks=1) was acknowledged at offset 7{NOTHING}"
    assert explanation(at_ns=9 * S) == f"Record load-1/7 (acks=1) was acknowledged at +-1.000 s at offset 7{NOTHING}"


def test_a_sample_is_called_old_from_half_a_second_on():
    """A sample's age is shown from 0.5 s on; thousands are separated."""
    samples = [sample(1, 0, 5, 8, received_ns=0), sample(2, 0, 5, 8, received_ns=0)]
    samples += [sample(2, S, 6, 9, received_ns=2000 * S - 499_999_999), sample(3, S, 7, 9, received_ns=2000 * S)]
    told = explanation(samples=samples, at_ns=2000 * S, anomaly="unseen")

    assert "acknowledged at +1,990.000 s" in told
    assert (
        "broker 1 at HW 5 and LEO 8 (2,000.0 s before), broker 2 at HW 6 and LEO 9, broker 3 at HW 7 and LEO 9;" in told
    )
