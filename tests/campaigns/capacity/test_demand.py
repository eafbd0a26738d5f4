"""Load, peak, groups and growth by a cluster's own metrics."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from campaigns.capacity import KIND
from campaigns.capacity.campaign import plan
from campaigns.capacity.demand import DAYS_A_MONTH, Row, asked, demand, read
from history.errors import BadInput
from tests.campaigns.capacity_rows import settings

MONDAY_S = 1_790_000_000.0
HOUR_S, HOURS_A_WEEK = 3_600.0, 168


def hours(weeks: int, growth: float = 0.03, noise: float = 0.0, seed: int = 1) -> list[Row]:
    """10 MB/s at first, more by day than by night and half on weekends; twice as much out."""
    drawn, rows = random.Random(seed), []
    for hour in range(weeks * HOURS_A_WEEK):
        months = hour / 24 / DAYS_A_MONTH
        shape = (1.5 if 8 <= hour % 24 < 20 else 0.5) * (0.5 if hour // 24 % 7 >= 5 else 1.0)
        mb_in = 10 * (1 + growth) ** months * shape * math.exp(drawn.gauss(0, noise))
        rows.append(Row(MONDAY_S + hour * HOUR_S, mb_in, 2 * mb_in))
    return rows


def test_growth_is_found_under_days_and_weekends() -> None:
    """Without noise it is what was put in; peak and groups are those of the last weeks."""
    found = demand(hours(8))
    mean = 10 * (5 + 2 * 0.5) / 7

    assert found.growth_per_month == pytest.approx((0.03, 0.03), abs=1e-3)
    assert found.write_mb_per_s == pytest.approx(mean * 1.03 ** (52.5 / DAYS_A_MONTH), rel=0.01)
    assert found.burst == pytest.approx(15 / mean, rel=0.02)
    assert (found.consumer_groups, found.weeks) == (2, 8)


def test_the_interval_covers_the_growth() -> None:
    """In about nine of ten series of three months with noise."""
    covered = 0
    for seed in range(100):
        low, high = demand(hours(12, noise=0.4, seed=seed)).growth_per_month
        covered += low <= 0.03 <= high

    assert 80 <= covered <= 98


def test_a_week_with_gaps_is_left_out() -> None:
    """A tenth may be missing, and not more; the growth stays by the weeks that are whole."""
    rows = hours(8)
    gone = [row for number, row in enumerate(rows) if not 2 * HOURS_A_WEEK <= number < 2 * HOURS_A_WEEK + 30]

    assert demand(gone).weeks == 7
    assert demand(gone).growth_per_month == pytest.approx((0.03, 0.03), abs=1e-3)
    assert demand([*rows[:10], *rows[20:]]).weeks == 8


def test_too_few_weeks_are_refused(tmp_path: Path) -> None:
    """No whole one, one without load; fewer than four, unless the growth is given."""
    with pytest.raises(BadInput, match="demand has no whole week"):
        demand(hours(3)[:100])
    silent = [row._replace(mb_in=0.0) if number < HOURS_A_WEEK else row for number, row in enumerate(hours(5))]
    with pytest.raises(BadInput, match="a week without any load"):
        demand(silent)

    file = written(tmp_path / "demand.csv", hours(3))
    with pytest.raises(BadInput, match=r"demand has 3 whole weeks; growth needs 4 or more, .* give growth_per_month"):
        asked({"demand": file})
    assert asked({"demand": file, "growth_per_month": 0.05})["growth_per_month"] == 0.05


def written(file: Path, rows: Sequence[Row]) -> str:
    """A CSV of rows, by its name."""
    lines = [f"{row.at_s},{row.mb_in * HOUR_S * 1e6},{(row.mb_out or 0) * HOUR_S * 1e6}" for row in rows]
    file.write_text("\n".join(["time,bytes_in,bytes_out", *lines, ""]))
    return str(file)


def prometheus(file: Path, *series: tuple[dict[str, str], Sequence[Row]]) -> Path:
    """An answer to query_range."""
    result = [
        {"metric": labels, "values": [[row.at_s, str(row.mb_in * 1e6)] for row in rows]} for labels, rows in series
    ]
    file.write_text(json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}))
    return file


@pytest.mark.parametrize("factor", [1, 1e3, 1e6, 1e9])
def test_times_are_read_in_their_unit(factor: float, tmp_path: Path) -> None:
    """Seconds, milli-, micro- and nanoseconds since 1970 give the same rows."""
    file = tmp_path / "demand.csv"
    file.write_text(f"time,bytes_in\n{1790553600 * factor:.0f},3600000000\n{1790557200 * factor:.0f},7200000000\n")

    assert read(file) == [Row(1790553600.0, 1.0, None), Row(1790557200.0, 2.0, None)]


@pytest.mark.parametrize(
    ("data", "separator"),
    [
        (b"\xef\xbb\xbftime,bytes_in\r\n1790553600,3600000000\r\n1790557200,7200000000\r\n", ","),
        (b"Time;Bytes_In\n1790553600;3600000000,0\n1790557200;7200000000,0\n", ";"),
        ("time\tbytes_in\n1790553600\t3600000000\n1790557200\t7200000000\n".encode("utf-16"), "tab"),
    ],
)
def test_what_spreadsheets_save_is_read(data: bytes, separator: str, tmp_path: Path) -> None:
    """Byte order marks, semicolons with decimal commas, tabs."""
    (tmp_path / "demand.csv").write_bytes(data)

    assert read(tmp_path / "demand.csv") == [Row(1790553600.0, 1.0, None), Row(1790557200.0, 2.0, None)], separator


def test_a_total_and_its_parts_are_not_added(tmp_path: Path) -> None:
    """An exporter has both under one name; the sentence has the query that is right. Brokers alone are added."""
    rows = hours(1)
    file = prometheus(tmp_path / "d.json", ({"pod": "kafka-0"}, rows), ({"pod": "kafka-0", "topic": "orders"}, rows))
    with pytest.raises(BadInput, match=r'{pod=kafka-0} is a total and .* a part of it.*bytesin_total{topic=""}'):
        read(file)

    brokers = prometheus(tmp_path / "b.json", ({"pod": "kafka-0"}, rows), ({"pod": "kafka-1"}, rows))
    assert read(brokers)[0].mb_in == pytest.approx(2 * rows[0].mb_in)


def test_one_series_from_two_prometheus_is_not_added(tmp_path: Path) -> None:
    """A highly available pair scrapes each broker twice."""
    rows = hours(1)
    twice = [({"pod": "kafka-0", "prometheus_replica": replica}, rows) for replica in "ab"]
    with pytest.raises(BadInput, match="are the same series; keep those of one Prometheus"):
        read(prometheus(tmp_path / "d.json", *twice))


def test_a_series_that_begins_late_is_no_growth(tmp_path: Path) -> None:
    """The weeks without it are left out, and named; a pod that was replaced by another is no gap."""
    flat, start = hours(8, growth=0.0), 3 * HOURS_A_WEEK
    late = demand(read(prometheus(tmp_path / "late.json", ({"pod": "a"}, flat), ({"pod": "b"}, flat[start:]))))
    replaced = demand(
        read(prometheus(tmp_path / "new.json", ({"pod": "a"}, flat[:start]), ({"pod": "b"}, flat[start:])))
    )

    assert late.growth_per_month == pytest.approx((0.0, 0.0), abs=1e-6)
    assert (late.weeks, len(late.doubts)) == (5, 3)
    assert "has 1 series and the last one 2; the week is left out" in late.doubts[0]
    assert (replaced.weeks, replaced.doubts) == (8, ())


def test_a_series_with_a_gap_is_a_doubt(tmp_path: Path) -> None:
    """The rows without it are left out, not taken for less load."""
    flat = hours(4, growth=0.0)
    found = demand(
        read(prometheus(tmp_path / "d.json", ({"pod": "a"}, flat), ({"pod": "b"}, [*flat[:200], *flat[210:]])))
    )

    assert found.growth_per_month is not None
    assert found.growth_per_month[0] <= 0 <= found.growth_per_month[1]
    assert len(found.doubts) == 1
    assert found.doubts[0].startswith("10 of 168 rows of the week from ")


def test_csv_and_prometheus_tell_the_same(tmp_path: Path) -> None:
    """Bytes by hour, and bytes a second of two brokers; times as ISO 8601 or seconds."""
    table, answer = tmp_path / "demand.csv", tmp_path / "demand.json"
    table.write_text("time,bytes_in\n2026-09-28T01:00:00,7200000000\n1790553600,3600000000\n")
    series = [
        {"metric": {"broker": broker}, "values": [[1790553600, "500000"], [1790557200, "1000000"]]} for broker in "12"
    ]
    answer.write_text(json.dumps({"data": {"resultType": "matrix", "result": series}}))

    assert [(row.at_s, row.mb_in) for row in read(table)] == [(1790553600.0, 1.0), (1790557200.0, 2.0)]
    assert read(answer) == [row._replace(series=2) for row in read(table)]


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
        ("time,bytes_in\n1790553600,1\n1790557200,NaN\n", "line 3, bytes_in: 'NaN' is no number of bytes"),
        ("time,bytes_in\n1790553600,1\n1790557200,\n", "line 3 has no bytes_in"),
        ("time,bytes_in\n1790553600,1\n1790553600,2\n", "the time 1790553600 is there 2 times"),
        ("time,bytes_in\n1790553600,1,2\n", "line 2 has more fields than the first line"),
        ('{"a": 1}', "it is no answer of Prometheus to query_range (it is other JSON)"),
        ('{"a": ', "it is no whole JSON at line 1, column 7"),
        ('[{"Timestamp": 1}]', "it is no answer of Prometheus to query_range (it is other JSON)"),
        (
            '{"status": "error", "errorType": "bad_data", "error": "exceeded maximum resolution."}',
            "Prometheus answered with an error: bad_data: exceeded maximum resolution",
        ),
        (
            '{"data": {"resultType": "vector", "result": [{"metric": {}, "value": [1, "2"]}]}}',
            "it is no answer of Prometheus to query_range (its resultType is 'vector')",
        ),
        ('{"data": {"resultType": "matrix", "result": []}}', "it has values of fewer than two times"),
        (
            '{"data": {"result": [{"metric": {"pod": "a"}, "values": [[1790553600, "NaN"]]}]}}',
            "{pod=a}, value 1: 'NaN' is no number of bytes",
        ),
    ],
)
def test_what_cannot_be_read_is_refused(text: str, says: str, tmp_path: Path) -> None:
    """In a sentence with the file, the place and the value, and without a name of Python's."""
    file = tmp_path / "demand.csv"
    file.write_text(text)

    with pytest.raises(BadInput) as refused:
        read(file)
    assert str(refused.value).startswith(f"demand: {file}: {says}")
    assert "Error" not in str(refused.value)
    with pytest.raises(BadInput, match="cannot be read: No such file"):
        read(tmp_path / "nowhere.csv")


def test_a_file_is_relative_to_the_settings(tmp_path: Path) -> None:
    """Wherever the command is called from."""
    (tmp_path / "mine.yaml").write_text("question: {demand: demand.csv}\n")

    assert KIND.settings({}, file=tmp_path / "mine.yaml")["question"]["demand"] == str(tmp_path / "demand.csv")


def test_a_plan_takes_its_question_from_the_file(tmp_path: Path) -> None:
    """And what is said beside it stays."""
    file = tmp_path / "demand.csv"
    written(file, hours(6))
    told: dict[str, Any] = settings()
    for name in ("write_mb_per_s", "burst", "growth_per_month", "consumer_groups"):
        told["question"].pop(name, None)
    told["question"] |= {"demand": str(file), "burst": 3.0, "brokers": 1_200}

    question = plan(told, campaign_id="p", created_at="2026-11-24T08:00:00+00:00", seed=1).settings["question"]
    assert (question["burst"], question["consumer_groups"], question["demand_weeks"]) == (3.0, 2, 6)
    assert question["growth_per_month"] == pytest.approx([0.03, 0.03], abs=1e-3)
    assert asked({"brokers": 3}) == {"brokers": 3}
