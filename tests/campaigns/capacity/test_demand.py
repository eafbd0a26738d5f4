"""Load, peak, consumer groups and growth from a cluster's metrics."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from campaigns.capacity import KIND
from campaigns.capacity.campaign import plan
from campaigns.capacity.demand import DAYS_A_MONTH, Row, demand, filled_in, read
from history.errors import BadInput
from tests.campaigns.capacity_rows import settings

MONDAY_S = 1_790_000_000.0
HOUR_S, HOURS_A_WEEK = 3_600.0, 168


def hours(weeks: int, growth: float = 0.03, noise: float = 0.0, seed: int = 1) -> list[Row]:
    """Return hourly rows of 10 MB/s at first, more by day, half on weekends, and twice as much out."""
    drawn, rows = random.Random(seed), []
    for hour in range(weeks * HOURS_A_WEEK):
        months = hour / 24 / DAYS_A_MONTH
        shape = (1.5 if 8 <= hour % 24 < 20 else 0.5) * (0.5 if hour // 24 % 7 >= 5 else 1.0)
        mb_in = 10 * (1 + growth) ** months * shape * math.exp(drawn.gauss(0, noise))
        rows.append(Row(MONDAY_S + hour * HOUR_S, mb_in, 2 * mb_in))
    return rows


def test_growth_is_found_under_days_and_weekends() -> None:
    """Growth is found under daily and weekly cycles; peak and groups are those of the last weeks."""
    found = demand(hours(8))
    mean = 10 * (5 + 2 * 0.5) / 7

    assert found.growth_per_month == pytest.approx((0.03, 0.03), abs=1e-3)
    assert found.write_mb_per_s == pytest.approx(mean * 1.03 ** (52.5 / DAYS_A_MONTH), rel=0.01)
    assert found.burst == pytest.approx(15 / mean, rel=0.02)
    assert (found.consumer_groups, found.weeks) == (2, 8)


def test_the_interval_covers_the_growth() -> None:
    """The growth interval covers the true growth in about nine of ten noisy series."""
    covered = 0
    for seed in range(100):
        low, high = demand(hours(12, noise=0.4, seed=seed)).growth_per_month
        covered += low <= 0.03 <= high

    assert 80 <= covered <= 98


def test_a_week_with_gaps_is_left_out() -> None:
    """A week with more than a tenth of its rows missing is left out, and the growth is not affected."""
    rows = hours(8)
    gone = [row for number, row in enumerate(rows) if not 2 * HOURS_A_WEEK <= number < 2 * HOURS_A_WEEK + 30]

    assert demand(gone).weeks == 7
    assert demand(gone).growth_per_month == pytest.approx((0.03, 0.03), abs=1e-3)
    assert demand([*rows[:10], *rows[20:]]).weeks == 8


def test_too_few_weeks_are_refused(tmp_path: Path) -> None:
    """Fewer than four whole weeks, or a week without load, are rejected, unless the growth is given."""
    with pytest.raises(BadInput, match="demand has no whole week"):
        demand(hours(3)[:100])
    silent = [row._replace(mb_in=0.0) if number < HOURS_A_WEEK else row for number, row in enumerate(hours(5))]
    with pytest.raises(BadInput, match="a week without any load"):
        demand(silent)

    file = written(tmp_path / "demand.csv", hours(3))
    with pytest.raises(BadInput, match=r"demand has 3 whole weeks; growth needs 4 or more, .* give growth_per_month"):
        filled_in({"demand": file})
    assert filled_in({"demand": file, "growth_per_month": 0.05})["growth_per_month"] == 0.05


def written(file: Path, rows: Sequence[Row]) -> str:
    """Write rows as CSV; return the path."""
    lines = [f"{row.at_s},{row.mb_in * HOUR_S * 1e6},{(row.mb_out or 0) * HOUR_S * 1e6}" for row in rows]
    file.write_text("\n".join(["time,bytes_in,bytes_out", *lines, ""]))
    return str(file)


def prometheus(file: Path, *series: tuple[dict[str, str], Sequence[Row]]) -> Path:
    """Write rows as a query_range response of Prometheus."""
    result = [
        {"metric": labels, "values": [[row.at_s, str(row.mb_in * 1e6)] for row in rows]} for labels, rows in series
    ]
    file.write_text(json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}))
    return file


@pytest.mark.parametrize("factor", [1, 1e3, 1e6, 1e9])
def test_times_are_read_in_their_unit(factor: float, tmp_path: Path) -> None:
    """Times in seconds, milli-, micro- and nanoseconds give the same rows."""
    file = tmp_path / "demand.csv"
    file.write_text(f"time,bytes_in\n{1790553600 * factor:.0f},3600000000\n{1790557200 * factor:.0f},7200000000\n")

    assert read(file).rows == [Row(1790553600.0, 1.0, None), Row(1790557200.0, 2.0, None)]


@pytest.mark.parametrize(
    ("data", "separator"),
    [
        (b"\xef\xbb\xbftime,bytes_in\r\n1790553600,3600000000\r\n1790557200,7200000000\r\n", ","),
        (b"Time;Bytes_In\n1790553600;3600000000,0\n1790557200;7200000000,0\n", ";"),
        ("time\tbytes_in\n1790553600\t3600000000\n1790557200\t7200000000\n".encode("utf-16"), "tab"),
    ],
)
def test_what_spreadsheets_save_is_read(data: bytes, separator: str, tmp_path: Path) -> None:
    """CSV files of spreadsheets are read: byte order marks, semicolons with decimal commas, tabs."""
    (tmp_path / "demand.csv").write_bytes(data)

    assert read(tmp_path / "demand.csv").rows == [Row(1790553600.0, 1.0, None), Row(1790557200.0, 2.0, None)], separator


def test_a_total_and_its_parts_are_not_added(tmp_path: Path) -> None:
    """A total and its parts in one response are rejected with the right query; brokers are added up."""
    rows = hours(1)
    file = prometheus(tmp_path / "d.json", ({"pod": "kafka-0"}, rows), ({"pod": "kafka-0", "topic": "orders"}, rows))
    with pytest.raises(BadInput, match=r'{pod=kafka-0} is a total and .* a part of it.*bytesin_total{topic=""}'):
        read(file)

    brokers = prometheus(tmp_path / "b.json", ({"pod": "kafka-0"}, rows), ({"pod": "kafka-1"}, rows))
    assert read(brokers).rows[0].mb_in == pytest.approx(2 * rows[0].mb_in)


def test_one_series_from_two_prometheus_is_not_added(tmp_path: Path) -> None:
    """The same series from two Prometheus servers is rejected instead of added twice."""
    rows = hours(1)
    twice = [({"pod": "kafka-0", "prometheus_replica": replica}, rows) for replica in "ab"]
    with pytest.raises(BadInput, match="are the same series; keep those of one Prometheus"):
        read(prometheus(tmp_path / "d.json", *twice))


def answer(file: Path, *series: tuple[dict[str, str], Sequence[float]], step_s: float = HOUR_S, **extra: Any) -> Path:
    """Write a query_range response with MB/s at equal steps."""
    result = [
        {"metric": labels, "values": [[MONDAY_S + number * step_s, f"{mb * 1e6}"] for number, mb in enumerate(values)]}
        for labels, values in series
    ]
    file.write_text(json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}, **extra}))
    return file


DAY = (1.0, 3.0, 2.0, 5.0, 8.0, 4.0, 7.0, 6.0, 9.0, 2.0, 3.0, 1.0)
SIXTH, THIRD, HALF = ([mb * share for mb in DAY] for share in (1 / 6, 1 / 3, 1 / 2))
TWICE = r"is within 1% the sum of .*, which would be counted twice; .*bytesin_total{topic=\"\"}"


@pytest.mark.parametrize(
    ("series", "says"),
    [
        (
            [({"topic": "__total__"}, DAY), ({"topic": "a"}, HALF), ({"topic": "b"}, HALF)],
            f"{{topic=__total__}} {TWICE}",
        ),
        ([({"scope": "x"}, DAY), ({"topic": "a"}, HALF), ({"topic": "b"}, HALF)], f"{{scope=x}} {TWICE}"),
        ([({"topic": "_all"}, DAY), ({"topic": "a"}, DAY)], f"{{topic=_all}} {TWICE}"),
        (
            [({"pod": "w"}, DAY), ({"pod": "a"}, HALF), ({"pod": "b"}, THIRD), ({"pod": "c"}, SIXTH)],
            f"{{pod=w}} {TWICE}",
        ),
        (
            [
                *[
                    ({"pod": "0", "topic": topic}, values)
                    for topic, values in (("total", DAY), ("a", HALF), ("b", HALF))
                ],
                *[
                    ({"pod": "1", "topic": topic}, values)
                    for topic, values in (("total", DAY), ("a", HALF), ("b", HALF))
                ],
            ],
            f"{{pod=0, topic=total}} {TWICE}",
        ),
    ],
)
def test_a_total_is_known_by_its_values(
    series: list[tuple[dict[str, str], Sequence[float]]], says: str, tmp_path: Path
) -> None:
    """A total is recognised by its values, also per broker; with only two parts, labels must confirm it."""
    with pytest.raises(BadInput, match=says):
        read(answer(tmp_path / "d.json", *series))


@pytest.mark.parametrize(
    ("series", "mb_in"),
    [
        ([({"pod": "a"}, DAY), ({"pod": "b"}, DAY)], 2.0),
        (
            [
                *[
                    ({"topic": "t", "pod": pod}, each)
                    for pod, each in zip("0123", (DAY, HALF, THIRD, SIXTH), strict=True)
                ],
                ({"topic": "u", "pod": "0"}, DAY),
            ],
            3.0,
        ),
        ([({"pod": "a"}, DAY), ({"pod": "b"}, HALF), ({"pod": "c"}, HALF[:2])], 2.0),
        ([({"topic": "all", "pod": "0"}, DAY), ({"topic": "all", "pod": "1"}, DAY)], 2.0),
        ([({"pod": "w"}, DAY), ({"pod": "a"}, HALF), ({"pod": "b"}, THIRD), ({"pod": "c"}, THIRD)], 13 / 6),
        ([({"pod": "w"}, DAY), ({"pod": "a"}, DAY[:6]), ({"pod": "b"}, [*HALF[:1], *DAY[1:6]])], 2.5),
    ],
)
def test_brokers_alike_are_no_total(
    series: list[tuple[dict[str, str], Sequence[float]]], mb_in: float, tmp_path: Path
) -> None:
    """Brokers with equal load, a topic named "all", and an imprecise sum are not taken for totals."""
    found = read(answer(tmp_path / "d.json", *series))

    assert found.rows[0].mb_in == pytest.approx(mb_in)
    assert found.doubts == ()


def test_a_broker_with_the_load_of_two_others_is_a_doubt(tmp_path: Path) -> None:
    """A broker that carries the sum of two others is reported as a doubt, since it may be their total."""
    found = read(answer(tmp_path / "d.json", ({"pod": "a"}, DAY), ({"pod": "b"}, HALF), ({"pod": "c"}, HALF)))

    assert found.doubts == (
        "{pod=a} is within 1% the sum of {pod=b}, {pod=c}; if it is their total, the load is counted twice",
    )


@pytest.mark.parametrize(
    ("first", "second", "named"),
    [
        ({"name": "BytesInPerSec"}, {"name": "BytesOutPerSec"}, "BytesInPerSec and BytesOutPerSec"),
        ({"name": "BytesInPerSec"}, {"name": "MessagesInPerSec"}, "BytesInPerSec and MessagesInPerSec"),
        ({"direction": "in"}, {"direction": "out"}, "in and out"),
        ({"__name__": "kafka_bytes_in"}, {"__name__": "kafka_b", "pod": "a"}, "kafka_b and kafka_bytes_in"),
    ],
)
def test_several_metrics_are_not_added(
    first: dict[str, str], second: dict[str, str], named: str, tmp_path: Path
) -> None:
    """Series of several metrics, such as bytes in and bytes out, are rejected."""
    with pytest.raises(BadInput, match=f"it has series of several metrics, {named}; query bytes in alone, such as sum"):
        read(answer(tmp_path / "d.json", (first, DAY), (second, HALF)))


@pytest.mark.parametrize("label", ["name", "topic"])
def test_names_of_brokers_and_topics_are_no_metrics(label: str, tmp_path: Path) -> None:
    """Topic and broker names that contain "in" and "out" are not taken for metrics."""
    values = {"name": ("kafka-in-1", "kafka-in-2"), "topic": ("orders-in", "orders-out")}[label]
    series = [({"__name__": "bytes_in", label: value}, DAY) for value in values]

    assert read(answer(tmp_path / "d.json", *series)).rows[0].mb_in == pytest.approx(2.0)


def test_two_prometheus_with_equal_values_are_one_broker(tmp_path: Path) -> None:
    """Two Prometheus servers with equal values are one broker; with different values they are a doubt."""
    pair = [{"instance": "b0", "prometheus": name} for name in "ab"]
    nearly = [mb * 1.001 for mb in DAY]
    with pytest.raises(BadInput, match=r"prometheus=a} and .*prometheus=b} are the same series; keep those of one"):
        read(answer(tmp_path / "d.json", (pair[0], DAY), (pair[1], nearly)))

    found = read(answer(tmp_path / "e.json", (pair[0], DAY), (pair[1], HALF[::-1])))
    assert len(found.doubts) == 1
    assert "differ in the name of their Prometheus alone and were added" in found.doubts[0]


def test_series_with_different_starts_are_refused(tmp_path: Path) -> None:
    """Series with different timestamps are rejected; a series with fewer of the same timestamps is not."""
    file = prometheus(
        tmp_path / "d.json",
        ({"pod": "a"}, hours(1)),
        ({"pod": "b"}, [row._replace(at_s=row.at_s + 1800) for row in hours(1)]),
    )
    with pytest.raises(BadInput, match="its series have values at different times; query all of them with one start"):
        read(file)

    late = prometheus(tmp_path / "e.json", ({"pod": "a"}, hours(1)), ({"pod": "b"}, hours(1)[100:]))
    assert len(read(late).rows) == HOURS_A_WEEK


def test_warnings_of_prometheus_are_doubts(tmp_path: Path) -> None:
    """Warnings of Prometheus are doubts, each named once."""
    extra = {"warnings": ["No StoreAPIs\nmatched.", "No StoreAPIs\nmatched."], "isPartial": True}
    flat = [10.0] * HOURS_A_WEEK
    found = demand(*read(answer(tmp_path / "d.json", ({"pod": "a"}, flat), **extra)))
    silent = demand(*read(answer(tmp_path / "e.json", ({"pod": "a"}, flat), warnings=[], isPartial=False)))

    assert found.doubts == (
        "Prometheus warned of its answer: No StoreAPIs matched",
        "the answer of Prometheus is partial (isPartial), so the load may be larger",
    )
    assert silent.doubts == ()


@pytest.mark.parametrize(
    ("steps_s", "says"),
    [
        (
            [4000, 4000, 3000, 4000],
            "its times are irregular: line 5 is 3000 s after line 4, and the usual step is 4000 s",
        ),
        ([3600, 3600, 5400, 3600], "its times are irregular: line 5 is 5400 s after line 4"),
        ([3600, 3600, 3600, 3800, 3800], "its times are irregular: the usual step is 3600 s, and the mean one 3680 s"),
    ],
)
def test_irregular_times_are_refused(steps_s: list[int], says: str, tmp_path: Path) -> None:
    """Irregular times are rejected, since bytes over a wrong step are a wrong load."""
    with pytest.raises(BadInput, match=says):
        read(steps(tmp_path / "demand.csv", steps_s))


@pytest.mark.parametrize("steps_s", [[3600, 7200, 3600], [3601, 3599, 3600], [86_400] * 30 + [90_000] + [86_400] * 30])
def test_gaps_and_local_days_are_regular(steps_s: list[int], tmp_path: Path) -> None:
    """A missing row, jitter of a second, and a day of 25 hours are regular."""
    assert len(read(steps(tmp_path / "demand.csv", steps_s)).rows) == len(steps_s) + 1


def steps(file: Path, steps_s: list[int]) -> Path:
    """Write a CSV with these seconds between its rows."""
    times = accumulate(steps_s, initial=1_790_553_600)
    file.write_text("\n".join(["time,bytes_in", *(f"{time},3600000000" for time in times), ""]))
    return file


def test_no_number_of_missing_rows_is_negative() -> None:
    """An additional row is not counted as missing; a missing one is."""
    rows = hours(2, growth=0.0)
    more = sorted([*rows, rows[200]._replace(at_s=rows[200].at_s + 60)], key=lambda row: row.at_s)

    assert demand(more).doubts == ()
    assert demand([*rows[:200], *rows[201:]]).doubts == ("1 rows of the week from 2026-09-28 are missing",)


def test_a_series_that_begins_late_is_no_growth(tmp_path: Path) -> None:
    """Weeks before a series began are left out and named; a replaced pod is no gap."""
    flat, start = hours(8, growth=0.0), 3 * HOURS_A_WEEK
    late = demand(*read(prometheus(tmp_path / "late.json", ({"pod": "a"}, flat), ({"pod": "b"}, flat[start:]))))
    replaced = demand(
        *read(prometheus(tmp_path / "new.json", ({"pod": "a"}, flat[:start]), ({"pod": "b"}, flat[start:])))
    )

    assert late.growth_per_month == pytest.approx((0.0, 0.0), abs=1e-6)
    assert (late.weeks, len(late.doubts)) == (5, 1)
    assert late.doubts[0] == (
        "the weeks from 2026-09-21, 2026-09-28 and 2026-10-05 have 1 series and the last one 2; the weeks are left "
        "out, as brokers may have been there unmeasured"
    )
    assert (replaced.weeks, replaced.doubts) == (8, ())


def test_a_series_with_a_gap_is_a_doubt(tmp_path: Path) -> None:
    """Rows in which one series is missing are left out, not counted as less load."""
    flat = hours(4, growth=0.0)
    found = demand(
        *read(prometheus(tmp_path / "d.json", ({"pod": "a"}, flat), ({"pod": "b"}, [*flat[:200], *flat[210:]])))
    )

    assert found.growth_per_month is not None
    assert found.growth_per_month[0] <= 0 <= found.growth_per_month[1]
    assert len(found.doubts) == 1
    assert found.doubts[0].startswith("10 of 168 rows of the week from ")


def test_csv_and_prometheus_tell_the_same(tmp_path: Path) -> None:
    """CSV and Prometheus give the same rows: bytes per interval, or bytes per second of several brokers."""
    table, answer = tmp_path / "demand.csv", tmp_path / "demand.json"
    table.write_text("time,bytes_in\n2026-09-28T01:00:00,7200000000\n1790553600,3600000000\n")
    series = [
        {"metric": {"broker": broker}, "values": [[1790553600, "500000"], [1790557200, "1000000"]]} for broker in "12"
    ]
    answer.write_text(json.dumps({"data": {"resultType": "matrix", "result": series}}))

    assert [(row.at_s, row.mb_in) for row in read(table).rows] == [(1790553600.0, 1.0), (1790557200.0, 2.0)]
    assert read(answer).rows == [row._replace(series=2) for row in read(table).rows]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it is neither CSV with the columns time, bytes_in"),
        ("time,in\n1790553600,2\n", "it is neither CSV with the columns time, bytes_in and perhaps bytes_out nor"),
        ("time,bytes_in\n1790553600,2\n", "it has fewer than two different times"),
        ("time,bytes_in\n1,2\n3,4\n", "line 2: the time 1 is no time since 1970"),
        ("time,bytes_in\nMonday,2\n", "line 2: the time 'Monday' is neither ISO 8601 nor a number"),
        ("time,bytes_in\n1790553600,2\n1790557200000,4\n", "its times are in different units"),
        ("time,bytes_in\n1790553600,x\n1790557200,3\n", "line 2, bytes_in: 'x' is no number of bytes"),
        ("time,bytes_in\n1790553600,1\n1790557200,-1\n", "line 3, bytes_in: '-1' is no number of bytes"),
        (
            "time,bytes_in\n1790553600,1\n1790557200,NaN\n",
            "line 3, bytes_in: 'NaN' is no number of bytes; leave the whole line out",
        ),
        ("time,bytes_in\n1790553600,1\n1790557200,\n", "line 3 has no bytes_in"),
        (
            "time,bytes_in\n1790553600,1\n1790553600,2\n1790557200,2\n",
            "line 2 and line 3 have the same time, 2026-09-28T00:00:00+00:00; write times with their offset from UTC",
        ),
        ("time,bytes_in\n1790553600,1\n1790553600,2\n", "line 2 and line 3 have the same time"),
        (
            "time;bytes_in\n1790553600;147,454,272,000\n1790557200;1\n",
            "line 2, bytes_in: '147,454,272,000' has thousands separators; write its digits alone",
        ),
        ("time;bytes_in\nMonday, 8;1\n", "line 2: the time 'Monday, 8' is neither"),
        (
            "time;bytes_in\n1790553600;0\n1790557200;36.571\n",
            "bytes_in has no more than 0.01 bytes a second (line 3 has '36.571'); they may have thousands separators: ",
        ),
        (
            "time,bytes_in\n1790553600,36.5\n1790557200,36.5\n",
            "bytes_in has no more than 0.01 bytes a second (line 2 has '36.5'); they may be in MB: write whole bytes",
        ),
        ("time,bytes_in\n1790553600,1,2\n", "line 2 has more fields than the first line"),
        ('{"a": 1}', "it is no answer of Prometheus to query_range (it is other JSON)"),
        ('{"a": ', "it is no whole JSON at line 1, column 7"),
        ('[{"Timestamp": 1}]', "it is no answer of Prometheus to query_range (it is other JSON)"),
        (
            '{"status": "error", "errorType": "bad_data", "error": "exceeded maximum resolution."}',
            "Prometheus answered with an error: bad_data: exceeded maximum resolution",
        ),
        ('{"status": "error"}', "Prometheus answered with an error and no text"),
        ('{"status": "error", "error": "too many\\nsamples"}', "Prometheus answered with an error: too many samples."),
        ('{"status": "fail", "message": "unauthorized"}', "Prometheus answered with an error: unauthorized."),
        (
            '{"data": {"resultType": "vector", "result": [{"metric": {}, "value": [1, "2"]}]}}',
            "it is no answer of Prometheus to query_range (its resultType is 'vector')",
        ),
        ('{"data": {"resultType": "matrix", "result": []}}', "it has values of fewer than two times"),
        (
            '{"data": {"result": [{"metric": {"pod": "a"}, "values": [[1790553600, "NaN"]]}]}}',
            "{pod=a}, value 1, at 2026-09-28T00:00:00+00:00: 'NaN' is no number of bytes; leave out this value, "
            "[1790553600, 'NaN']",
        ),
    ],
)
def test_what_cannot_be_read_is_refused(text: str, says: str, tmp_path: Path) -> None:
    """An unreadable file is rejected with file, place and value, and without Python's error names."""
    file = tmp_path / "demand.csv"
    file.write_text(text)

    with pytest.raises(BadInput) as refused:
        read(file)
    assert str(refused.value).startswith(f"demand: {file}: {says}")
    assert "Error" not in str(refused.value)
    with pytest.raises(BadInput, match="cannot be read: No such file"):
        read(tmp_path / "nowhere.csv")


def test_a_file_is_relative_to_the_settings(tmp_path: Path) -> None:
    """A relative path is relative to the settings file, not to the working directory."""
    (tmp_path / "mine.yaml").write_text("question: {demand: demand.csv}\n")

    assert KIND.settings({}, file=tmp_path / "mine.yaml")["question"]["demand"] == str(tmp_path / "demand.csv")


def test_a_plan_takes_its_question_from_the_file(tmp_path: Path) -> None:
    """The plan takes load, growth and groups from the file, unless the settings give them."""
    file = tmp_path / "demand.csv"
    written(file, hours(6))
    told: dict[str, Any] = settings()
    for name in ("write_mb_per_s", "burst", "growth_per_month", "consumer_groups"):
        told["question"].pop(name, None)
    told["question"] |= {"demand": str(file), "burst": 3.0, "brokers": 1_200}

    question = plan(told, campaign_id="p", created_at="2026-11-24T08:00:00+00:00", seed=1).settings["question"]
    assert (question["burst"], question["consumer_groups"], question["demand_weeks"]) == (3.0, 2, 6)
    assert question["growth_per_month"] == pytest.approx([0.03, 0.03], abs=1e-3)
    assert filled_in({"brokers": 3}) == {"brokers": 3}
