"""Wall-clock times placed on the monotonic clock."""

from datetime import UTC, datetime

from kafka_files.clock import Clock, read_clock, wall_ns
from tests.evidence.folders import MS, S


def test_a_time_takes_the_offset_of_the_pairs_around_it():
    """Wall and monotonic time differ by 100 s here; one pair torn apart by 50 ms changes nothing."""
    clock = Clock([(100 * S, 0), (101 * S, S), (102 * S + 50 * MS, 2 * S), (103 * S, 3 * S)])

    assert clock.monotonic_ns(101 * S + 500 * MS) == S + 500 * MS
    assert clock.monotonic_ns(99 * S) == -S


def test_where_the_clock_was_set_there_is_no_time():
    """Back by so little that some times came twice: such a time may mean either. Each is one after an hour ahead, and
    where pairs differ by less than the clocks' slack.
    """
    ahead = Clock([(100 * S, 0), (101 * S, S), (102 * S, 2 * S), (3703 * S, 3 * S), (3704 * S, 4 * S)])
    back = Clock(sorted([*((t * S, t * S) for t in range(5, 20)), *((t * S, (t + 10) * S) for t in range(10, 30))]))

    assert [ahead.monotonic_ns(wall * S) for wall in (99, 103, 3702, 3705)] == [-S, 3 * S, 2 * S, 5 * S]
    assert [back.monotonic_ns(wall * S) for wall in (6, 15, 25)] == [6 * S, None, 35 * S]
    assert Clock([(100 * S, 0), (101 * S + 900 * MS, S)]).monotonic_ns(101 * S) is not None


def test_what_the_clock_was_set_by():
    """Ahead by an hour at 2 s, and back again at 4 s; one pair that was torn apart by 1.5 s is no such thing."""
    hour = 3600 * S
    ahead = [(100 * S, 0), (101 * S, S), (102 * S + hour, 2 * S), (103 * S + hour, 3 * S)]
    back = [(104 * S, 4 * S), (105 * S, 5 * S)]
    torn = [(100 * S, 0), (101 * S, S), (103 * S + 500 * MS, 2 * S), (103 * S, 3 * S), (104 * S, 4 * S)]

    assert Clock(sorted([*ahead, *back])).sets == [(2 * S, hour), (4 * S, -hour)]
    assert Clock(sorted(torn)).sets == []
    assert Clock(sorted(torn[:3])).sets == Clock([]).sets == []


def test_without_a_pair_there_is_no_time():
    """No statement is better than a wrong one."""
    assert Clock([]).monotonic_ns(S) is None


def test_a_torn_line_is_left_out(tmp_path):
    """The file's last line may have been cut by a kill; a run without the file has no pair."""
    file = tmp_path / "clock.jsonl"
    file.write_text('{"t_ns": 5, "wall": "1970-01-01T00:00:01.000002+00:00"}\n{"t_ns": 6, "wa')

    assert read_clock(file).pairs == [(1_000_002_000, 5)]
    assert read_clock(tmp_path / "none.jsonl").pairs == []


def test_a_wall_time_keeps_its_microseconds():
    """A float of nanoseconds since 1970 would round them."""
    assert wall_ns(datetime(2026, 1, 1, 0, 0, 0, 123_457, UTC)) == 1_767_225_600_123_457_000


def test_lines_of_something_else_give_no_pairs(tmp_path):
    """Bytes that are no text, infinity, and lists without end are passed over; a whole line among them is read."""
    file = tmp_path / "clock.jsonl"
    whole = b'{"wall": "2026-01-01T00:00:00+00:00", "t_ns": 5}\n'
    file.write_bytes(
        b"\xff\xfe\n" + b'{"wall": "2026-01-01T00:00:00+00:00", "t_ns": 1e999}\n' + b"[" * 20_000 + b"\n" + whole
    )

    assert [t_ns for _, t_ns in read_clock(file).pairs] == [5]
