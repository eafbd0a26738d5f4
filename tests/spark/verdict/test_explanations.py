"""What became of one lost record, told from samples, elections, epoch files and the brokers' own lines."""

import pytest

from history.tables import RECORDED
from kafka_files.broker_log import BROKER_LOG
from spark.checks.anomalies import CASE
from spark.folder.recorded import EPOCHS, good_samples, leaders
from spark.folder.tables import rows
from spark.verdict.explanations import Witnesses, with_explanation
from tests.spark.folders import TP, S, isr_view, sample

pytestmark = pytest.mark.pipeline  # many queries: it belongs to the part that may take long

LOST = dict.fromkeys(CASE) | TP | {"anomaly": "lost_write", "producer_id": "load-1", "seq": 7, "offset": 7, "acks": "1"}
LINE = {**TP, "t_ns": 22 * S, "line": 31, "text": ""}


def line(kind, broker_id, **other):
    """A line of a broker's log, as ``kafka_files.broker_log`` reads it."""
    return LINE | {"kind": kind, "broker_id": broker_id} | other


@pytest.fixture
def explanation(spark):
    """The sentence on record 7, acknowledged at +11 s by broker 1 at offset 7, with some broker lines."""

    def told(*lines, epochs=()):
        samples = [sample(1, 20 * S, 5, 8), sample(2, 19 * S, 5, 5), sample(2, 23 * S, 5, 5, epoch=1)]
        views = [isr_view(9 * S, 1, 0, [1, 2, 3]), isr_view(22 * S, 2, 1, [2, 3])]
        case = spark.createDataFrame(
            [[{**LOST, "at_ns": 21 * S, "evidence": "{}", "explanation": ""}[name] for name in CASE]],
            "anomaly string, topic string, partition int, offset bigint, producer_id string, seq bigint, acks string, "
            "at_ns bigint, evidence string, explanation string",
        )
        seen = Witnesses(
            good_samples(rows(spark, RECORDED["replicas"], samples)),
            leaders(rows(spark, RECORDED["isr"], views)),
            rows(spark, EPOCHS, [{**TP, "broker_id": 2, "leader_epoch": e, "start_offset": at} for e, at in epochs]),
            rows(spark, BROKER_LOG, lines),
        )
        return with_explanation(case, seen, 10 * S).collect()[0]["explanation"]

    return told


def test_the_lines_that_prove_it_are_named(explanation):
    """Election and truncation are told with the lines of the brokers that say so."""
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


def test_a_cut_above_the_record_or_before_it_explains_nothing(explanation):
    """A truncation to above the record, one before its acknowledgement, and another broker's are not its end."""
    told = explanation(
        line("truncating", 1, log_end_offset=8, t_ns=25 * S),
        line("truncating", 1, log_end_offset=5, t_ns=20 * S),
        line("truncating", 3, log_end_offset=5, t_ns=25 * S),
    )
    assert told.endswith("; no election or truncation that removed it was seen.")
