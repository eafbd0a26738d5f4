"""Load, peak, groups and growth by a cluster's own metrics."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

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


def test_too_few_weeks_are_refused() -> None:
    """Three whole ones, or one without load."""
    with pytest.raises(BadInput, match="demand has 3 whole weeks; growth needs 4 or more"):
        demand(hours(3))
    silent = [row._replace(mb_in=0.0) if number < HOURS_A_WEEK else row for number, row in enumerate(hours(5))]
    with pytest.raises(BadInput, match="a week without any load"):
        demand(silent)


def test_csv_and_prometheus_tell_the_same(tmp_path: Path) -> None:
    """Bytes by hour, and bytes a second of two brokers; times as ISO 8601 or seconds."""
    table, answer = tmp_path / "demand.csv", tmp_path / "demand.json"
    table.write_text("time,bytes_in\n2026-09-28T01:00:00,7200000000\n1790553600,3600000000\n")
    series = [
        {"metric": {"broker": broker}, "values": [[1790553600, "500000"], [1790557200, "1000000"]]} for broker in "12"
    ]
    answer.write_text(json.dumps({"data": {"resultType": "matrix", "result": series}}))

    assert read(table) == read(answer) == [Row(1790553600.0, 1.0, None), Row(1790557200.0, 2.0, None)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "time,in\n1,2\n3,4\n",
        "time,bytes_in\n1,2\n",
        "time,bytes_in\n1,x\n2,3\n",
        "time,bytes_in\n1,-1\n2,3\n",
        '{"a": 1}',
    ],
)
def test_what_has_neither_form_is_refused(text: str, tmp_path: Path) -> None:
    """In a sentence that says what would do."""
    file = tmp_path / "demand.csv"
    file.write_text(text)

    with pytest.raises(BadInput, match="is neither CSV with the columns time, bytes_in"):
        read(file)
    with pytest.raises(BadInput, match="cannot be read"):
        read(tmp_path / "nowhere.csv")


def test_a_plan_takes_its_question_from_the_file(tmp_path: Path) -> None:
    """And what is said beside it stays."""
    file = tmp_path / "demand.csv"
    rows = "".join(f"{row.at_s},{row.mb_in * HOUR_S * 1e6},{(row.mb_out or 0) * HOUR_S * 1e6}\n" for row in hours(6))
    file.write_text(f"time,bytes_in,bytes_out\n{rows}")
    told: dict[str, Any] = settings()
    for name in ("write_mb_per_s", "burst", "growth_per_month", "consumer_groups"):
        told["question"].pop(name, None)
    told["question"] |= {"demand": str(file), "burst": 3.0, "brokers": 1_200}

    question = plan(told, campaign_id="p", created_at="2026-11-24T08:00:00+00:00", seed=1).settings["question"]
    assert (question["burst"], question["consumer_groups"], question["demand_weeks"]) == (3.0, 2, 6)
    assert question["growth_per_month"] == pytest.approx([0.03, 0.03], abs=1e-3)
    assert asked({"brokers": 3}) == {"brokers": 3}
