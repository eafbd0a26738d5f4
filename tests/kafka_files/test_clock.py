"""Wall-clock times on the monotonic clock."""

from datetime import UTC, datetime

import pytest

from evidence.facts import SLACK_NS
from kafka_files.clock import SET_NS, Clock, read_clock, wall_ns
from tests.evidence.folders import MS, S


def test_a_time_takes_the_offset_of_the_pairs_around_it():
    """A time has the offset of the pairs around it; one pair with a delay of 50 ms has no effect."""
    clock = Clock([(100 * S, 0), (101 * S, S), (102 * S + 50 * MS, 2 * S), (103 * S, 3 * S)])

    assert clock.monotonic_ns(101 * S + 500 * MS) == S + 500 * MS
    assert clock.monotonic_ns(99 * S) == -S


def test_where_the_clock_was_set_there_is_no_time():
    """A wall time that occurred twice, after the clock was set back, has no monotonic time.

    After the clock was set ahead by an hour each time has one, and so it does where pairs differ by less than the
    clocks' slack.
    """
    ahead = Clock([(100 * S, 0), (101 * S, S), (102 * S, 2 * S), (3703 * S, 3 * S), (3704 * S, 4 * S)])
    back = Clock(sorted([*((t * S, t * S) for t in range(5, 20)), *((t * S, (t + 10) * S) for t in range(10, 30))]))

    assert [ahead.monotonic_ns(wall * S) for wall in (99, 103, 3702, 3705)] == [-S, 3 * S, 2 * S, 5 * S]
    assert [back.monotonic_ns(wall * S) for wall in (6, 15, 25)] == [6 * S, None, 35 * S]
    assert Clock([(100 * S, 0), (101 * S + 900 * MS, S)]).monotonic_ns(101 * S) is not None


@pytest.mark.parametrize(
    ("by_ms", "unknown"),
    [(150, (6150, 7000)), (900, (6900, 7000)), (-400, (5600, 7000)), (-900, (5100, 7000)), (30, None)],
)
def test_a_clock_that_was_set_by_less_than_a_second(by_ms, unknown):
    """A clock is set at 6.5 s, between the pairs at 6 s and 7 s; ambiguous wall times have no monotonic time.

    All other times have theirs. A step of a third of the slack moves times by no more than the step.
    """

    def wall(t_ms):
        return (t_ms + (by_ms if t_ms >= 6500 else 0)) * MS

    clock = Clock(sorted((wall(t_ms), t_ms * MS) for t_ms in range(0, 13_000, 1000)))
    off = {t_ms: (found - t_ms * MS if (found := clock.monotonic_ns(wall(t_ms))) is not None else None)
           for t_ms in range(3000, 10_000, 25)}  # fmt: skip
    lost = [wall(t_ms) // MS for t_ms, by in off.items() if by is None]

    if unknown is None:
        assert (lost, clock.sets) == ([], [])
        assert max(abs(by) for by in off.values()) <= by_ms * MS < SLACK_NS
    else:
        assert {by for by in off.values() if by is not None} == {0}
        assert all(unknown[0] <= each <= unknown[1] for each in lost)
        assert clock.sets == [(7 * S, by_ms * MS)]


def test_two_pairs_of_a_busy_host_are_no_set_clock():
    """Two pairs delayed by 40 ms on a busy host are no set clock, but 80 ms are; a date's error is twice the limit."""
    apart = [0, 0, 0, 40 * MS, 40 * MS, 0, 0, 0]

    def sets(scale):
        return Clock([(100 * S + n * S + by * scale, n * S) for n, by in enumerate(apart)]).sets

    assert (sets(1), sets(2)) == ([], [(3 * S, 80 * MS), (5 * S, -80 * MS)])
    assert 2 * SET_NS <= SLACK_NS


def test_what_the_clock_was_set_by():
    """A clock set ahead by an hour at 2 s and back at 4 s is found; one pair with a delay of 1.5 s is not."""
    hour = 3600 * S
    ahead = [(100 * S, 0), (101 * S, S), (102 * S + hour, 2 * S), (103 * S + hour, 3 * S)]
    back = [(104 * S, 4 * S), (105 * S, 5 * S)]
    torn = [(100 * S, 0), (101 * S, S), (103 * S + 500 * MS, 2 * S), (103 * S, 3 * S), (104 * S, 4 * S)]

    assert Clock(sorted([*ahead, *back])).sets == [(2 * S, hour), (4 * S, -hour)]
    assert Clock(sorted(torn)).sets == []
    assert Clock(sorted(torn[:3])).sets == Clock([]).sets == []


def test_without_a_pair_there_is_no_time():
    """Without a pair a wall time has no monotonic time."""
    assert Clock([]).monotonic_ns(S) is None


def test_a_torn_line_is_left_out(tmp_path):
    """A torn last line is skipped, and a run without the file has no pair."""
    file = tmp_path / "clock.jsonl"
    file.write_text('{"t_ns": 5, "wall": "1970-01-01T00:00:01.000002+00:00"}\n{"t_ns": 6, "wa')

    assert read_clock(file).pairs == [(1_000_002_000, 5)]
    assert read_clock(tmp_path / "none.jsonl").pairs == []


def test_a_wall_time_keeps_its_microseconds():
    """A wall time keeps its microseconds, which a float of nanoseconds would round."""
    assert wall_ns(datetime(2026, 1, 1, 0, 0, 0, 123_457, UTC)) == 1_767_225_600_123_457_000


def test_lines_of_something_else_give_no_pairs(tmp_path):
    """Lines that are no text, infinite or deeply nested are skipped, and a valid line among them is read."""
    file = tmp_path / "clock.jsonl"
    whole = b'{"wall": "2026-01-01T00:00:00+00:00", "t_ns": 5}\n'
    file.write_bytes(
        b"\xff\xfe\n" + b'{"wall": "2026-01-01T00:00:00+00:00", "t_ns": 1e999}\n' + b"[" * 20_000 + b"\n" + whole
    )

    assert [t_ns for _, t_ns in read_clock(file).pairs] == [5]
