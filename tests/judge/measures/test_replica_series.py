"""Series for plots keep every change and show missing samples as gaps."""

from evidence.views import Change
from history.tables import TIMELINE_ISR, TIMELINE_REPLICAS
from judge.measures import replica_series
from tests.evidence.folders import MS, S, isr_view, sample
from tests.evidence.probed import partition


def drawn(of):
    """Return a partition's series, from one window."""
    found = replica_series.ReplicaSeries(of, probe_hz=100)
    found.add(of.samples)
    return found.table()


def series(*literal):
    """Return (ms, HW, LEO) of one replica's series."""
    table = drawn(partition(literal))
    assert table.schema.equals(TIMELINE_REPLICAS)
    rows = sorted(table.to_pylist(), key=lambda row: row["t_ns"])
    return [(row["t_ns"] // MS, row["high_watermark"], row["log_end_offset"]) for row in rows]


def refused(t_ns):
    """Return a probe without an answer."""
    return sample(1, t_ns, None, None, error="unreachable", leader_epoch=None, log_start_offset=None)


def test_a_gap_is_a_row_of_nulls():
    """400 ms without an answer are a gap, shown as a row of nulls; 250 ms are not."""
    assert series(sample(1, 0, 1, 2), refused(200 * MS), sample(1, 400 * MS, 3, 4)) == [
        (1, 1, 2),
        (1, None, None),
        (401, 3, 4),
    ]
    assert series(sample(1, 0, 1, 2), sample(1, 250 * MS, 3, 4)) == [(1, 1, 2), (251, 3, 4)]


def test_silence_at_either_end_is_a_gap():
    """Failed probes before the first and after the last answer are gaps."""
    assert series(refused(0), sample(1, S, 1, 2), refused(2 * S)) == [
        (1, None, None),
        (1001, 1, 2),
        (1001, None, None),
    ]
    assert series(refused(0)) == [(1, None, None)]


def test_many_samples_become_few_and_no_fall_is_hidden():
    """6,000 samples are reduced to at most 2,000 that include a dip of the HW."""
    literal = [sample(1, n * 10 * MS, n if n != 3001 else 7, n) for n in range(6000)]
    found = series(*literal)

    assert len(found) <= 2000
    assert (30011, 7, 3001) in found
    assert found[0][1:] == (0, 0)
    assert found[-1][1:] == (5999, 5999)


def test_a_log_end_that_grew_and_was_cut_within_a_bucket_shows():
    """A log end that grows and is truncated within a bucket is shown with both values."""
    literal = [sample(1, n * MS, 0, 9_000 if n == 5_005 else n) for n in range(10_000)]
    grown = [row | {"log_end_offset": n} for n, row in enumerate(literal)]

    assert {(5_006, 0, 9_000), (5_007, 0, 5_006)} <= set(series(*literal))
    assert not {(5_006, 0, 5_005), (5_007, 0, 5_006)} & set(series(*grown))


def test_a_change_of_the_epoch_is_kept():
    """A sample with a new leader epoch is kept; one without an epoch is not."""
    literal = [sample(1, n * MS, n, n, epoch=int(n >= 5003)) for n in range(10_000)]
    unknown = [row | {"leader_epoch": None} if n == 5003 else row for n, row in enumerate(literal)]
    unknown = [row | {"leader_epoch": 0} if row["leader_epoch"] == 1 else row for row in unknown]

    assert (5004, 5003, 5003) in series(*literal)
    assert (5004, 5003, 5003) not in series(*unknown)


def test_each_replica_has_its_own_series():
    """Each replica has its own series; without samples there is no row."""
    table = drawn(partition([sample(2, 0, 1, 2), sample(1, 0, 3, 4)]))

    assert [(row["topic"], row["partition"], row["broker_id"], row["high_watermark"]) for row in table.to_pylist()] == [
        ("orders", 0, 1, 3),
        ("orders", 0, 2, 1),
    ]
    assert drawn(partition()).num_rows == 0


def views(told):
    """Return the rows of the ISR timeline in order of time."""
    table = replica_series.timeline_isr(told)
    assert table.schema.equals(TIMELINE_ISR)
    return sorted(table.to_pylist(), key=lambda row: row["t_ns"])


def test_an_observers_view_is_kept_where_it_changes():
    """An observer's view is kept only where it changes."""
    shown = [isr_view(t * S, 1, 0, [1, 2, 3]) for t in range(3)] + [isr_view(3 * S, 1, 0, [3, 1])]

    assert [row["isr"] for row in views(partition([], shown))] == [[1, 2, 3], [1, 3]]


def test_a_view_without_a_leader_or_an_isr_is_told_as_such():
    """Views without leader or ISR are rows of nulls, and equal ones are merged."""
    unknown = [isr_view(t * S, None, None, None) for t in (1, 2)]
    shown = [isr_view(0, 1, 0, []), *unknown, isr_view(3 * S, 1, 0, [1], observer="2")]

    assert [(row["leader"], row["leader_epoch"], row["isr"]) for row in views(partition([], shown))] == [
        (1, 0, []),
        (None, None, None),
        (1, 0, [1]),
    ]


def test_the_controllers_own_history_is_among_the_views():
    """The ISR timeline has the controller's history; changes taken from a leader's view are not repeated."""
    shown = [isr_view(t * S, 1, 0, isr) for t, isr in ((1, [1, 2, 3]), (5, [1, 3]))]

    def told(observer):
        changes = (Change(4 * S, 1, 0, (1, 3), observer),)
        return [(row["t_ns"] // S, row["observer"]) for row in views(partition([], shown, changes=changes))]

    assert told("controller") == [(1, "1"), (4, "controller"), (5, "1")]
    assert told("1") == [(1, "1"), (5, "1")]
