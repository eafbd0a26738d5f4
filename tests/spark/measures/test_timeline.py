"""Series for plots keep every change and show what nobody saw as a gap."""

from history.tables import ISR, REPLICAS
from spark.checks.sources import CHANGES
from spark.folder.tables import rows
from spark.measures import timeline
from tests.spark.folders import MS, TP, S, isr_view, sample


def series(spark, *literal):
    """(ms, HW, LEO) of one replica's series."""
    replicas = rows(spark, REPLICAS, literal)
    good = replicas.filter("error IS NULL")
    found = timeline.timeline_replicas(good, replicas, probe_hz=100).orderBy("t_ns").collect()
    return [(row["t_ns"] // MS, row["high_watermark"], row["log_end_offset"]) for row in found]


def refused(t_ns):
    """A probe that nobody answered."""
    return sample(1, t_ns, None, None, error="unreachable", leader_epoch=None, log_start_offset=None)


def test_a_gap_is_a_row_of_nulls(spark):
    """After 400 ms without an answer there is a gap; after 250 ms there is none."""
    assert series(spark, sample(1, 0, 1, 2), refused(200 * MS), sample(1, 400 * MS, 3, 4)) == [
        (1, 1, 2),
        (1, None, None),
        (401, 3, 4),
    ]
    assert series(spark, sample(1, 0, 1, 2), sample(1, 250 * MS, 3, 4)) == [(1, 1, 2), (251, 3, 4)]


def test_silence_at_either_end_is_a_gap(spark):
    """A replica that was asked before it first answered, and after its last answer, was not seen then."""
    assert series(spark, refused(0), sample(1, S, 1, 2), refused(2 * S)) == [
        (1, None, None),
        (1001, 1, 2),
        (1001, None, None),
    ]
    assert series(spark, refused(0)) == [(1, None, None)]


def test_many_samples_become_few_and_no_fall_is_hidden(spark):
    """6,000 samples become at most 2,000, among them the one place where the high watermark dipped."""
    literal = [sample(1, n * 10 * MS, n if n != 3001 else 7, n) for n in range(6000)]
    found = series(spark, *literal)

    assert len(found) <= 2000
    assert (30011, 7, 3001) in found
    assert found[0][1:] == (0, 0)
    assert found[-1][1:] == (5999, 5999)


def test_an_observers_view_is_kept_where_it_changes(spark):
    """Three equal views and a new one are two rows."""
    views = [isr_view(t * S, 1, 0, [1, 2, 3]) for t in range(3)] + [isr_view(3 * S, 1, 0, [3, 1])]
    found = timeline.timeline_isr(rows(spark, ISR, views), rows(spark, CHANGES, [])).orderBy("t_ns").collect()

    assert [row["isr"] for row in found] == [[1, 2, 3], [1, 3]]


def test_the_controllers_own_history_is_among_the_views(spark):
    """What leaders showed in its place is not told twice."""
    views = [isr_view(t * S, 1, 0, isr) for t, isr in ((1, [1, 2, 3]), (5, [1, 3]))]
    state = {**TP, "received_ns": 4 * S, "leader": 1, "leader_epoch": 0, "isr": [1, 3]}
    changes = [state | {"observer": "controller"}, state | {"partition": 1, "observer": "1"}]
    found = timeline.timeline_isr(rows(spark, ISR, views), rows(spark, CHANGES, changes)).orderBy("t_ns").collect()

    assert [(row["t_ns"] // S, row["observer"]) for row in found] == [(1, "1"), (4, "controller"), (5, "1")]
