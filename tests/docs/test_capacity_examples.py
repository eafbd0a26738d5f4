"""The worked examples of docs/capacity.md: each can be planned, and the page quotes its plan."""

import re
from collections.abc import Mapping
from functools import cache

import pytest

from campaigns.capacity import campaign as results
from campaigns.capacity.campaign import plan
from campaigns.capacity.settings import read_settings
from clusters.paths import ROOT
from history.results.capacity import CapacityResult
from tests.campaigns.capacity_rows import Machine, archive

# The "measurements" are simulated: brokers with a multiple of the speed of tests/campaigns/capacity_rows.py.
EXAMPLES: Mapping[str, tuple[str, Machine]] = {
    "Small": ("capacity.yaml", Machine(speed=0.06, cpu_s_per_gb=2200)),
    "Medium": ("docs/examples/capacity/medium.yaml", Machine(speed=6)),
    "Large": ("docs/examples/capacity/large.yaml", Machine(speed=14)),
}


@cache
def _planned(name: str) -> CapacityResult:
    file, machine = EXAMPLES[name]
    asked = plan(read_settings(ROOT / file), campaign_id=name, created_at="2026-11-25T10:00:00+00:00", seed=7)
    return results.result(asked, archive(asked, machine=machine))


def _section(name: str) -> str:
    page = (ROOT / "docs" / "capacity.md").read_text()
    return page.split(f"\n### {name}", 1)[1].split("\n#", 1)[0]


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_page_quotes_the_answer_of_each_example(name: str) -> None:
    """The page quotes each example's answer word for word, and the plan is complete."""
    quoted = " ".join(line.removeprefix("> ") for line in _section(name).splitlines() if line.startswith("> "))

    assert _planned(name).missing == []
    assert quoted == _planned(name).sentence


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_figure_of_the_walk_through_is_one_of_the_plan(name: str) -> None:
    """Each row of a walk-through's table is a line of the plan with its value."""
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| [^|]+ \|$", _section(name), re.MULTILINE)[1:]
    lines = {line.what: line.value for line in _planned(name).plan_table}

    assert len(rows) > 1
    assert [row for row in rows if lines.get(row[0]) != row[1]] == []


def test_the_walk_through_names_what_decides() -> None:
    """The walk-through names the deciding limit: latency for the small and large examples, the disk for the medium."""
    small, medium, large = map(_planned, EXAMPLES)
    assert (small.recommendation.brokers, medium.recommendation.brokers, large.recommendation.brokers) == (3, 18, 189)
    assert "each would store" in next(option.why for option in medium.options if option.brokers == 15)
    assert "latency is safe" in next(option.why for option in large.options if option.brokers == 186)
    assert (large.question.demand_weeks, large.question.consumer_groups, large.question.racks) == (8, 4, 3)
