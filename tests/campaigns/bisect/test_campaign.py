"""Bisection: the difference between good and bad build, the judgement of each build, and the search."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from campaigns import rounds
from campaigns.bisect import builds, search
from campaigns.bisect.campaign import Search, Slower, Violation, items_of, plan, result
from campaigns.campaign import Campaign, CampaignFolder, Item
from campaigns.places import Places
from history.errors import BadInput, HarnessError
from tests.campaigns.comparison import run_rows

P99 = ("latency_p99_ms", "steady")
LOST = {"verdict": "fail", "broken": ["I6"], "sentence": "Records are gone."}
BUILDS = ["3.8.0", "3.8.1", "3.9.0", "3.9.1", "4.0.0", "4.0.1", "4.1.0", "4.1.1"]


def campaign(**settings: Any) -> Campaign:
    """Return the plan for eight builds with two tries of each end; ``settings`` replace some of it."""
    usual = {"builds": BUILDS, "scenario": "steady", "tries": 2}
    return plan(usual | settings, campaign_id="c1", created_at="2026-11-24T08:00:00+00:00", seed=7)


def rows_of(item: Item, bad_from: int, p99: float = 10.0, **about: Any) -> list[dict[str, Any]]:
    """Return the rows of a run: builds from that place on lose records and are 50% slower."""
    is_bad = int(item.labels["place"]) >= bad_from and item.labels["role"] == "build"
    return run_rows(item, {P99: p99 * (1.5 if is_bad else 1.0)}, **(LOST if is_bad and not about else about))


def ends(planned: Campaign, bad_from: int = 7, **about: Any) -> list[dict[str, Any]]:
    """Return the rows of the good and the bad build's runs."""
    return [row for item in planned.items for row in rows_of(item, bad_from, **about)]


# --- the plan ------------------------------------------------------------------------------------------


def test_the_ends_are_run_in_turn() -> None:
    """The two ends alternate in who runs first; for a metric each try is a pair of bad and good build."""
    assert [(item.name, item.kafka) for item in campaign().items] == [
        ("build-0001-01", "3.8.0"),
        ("build-0008-01", "4.1.1"),
        ("build-0008-02", "4.1.1"),
        ("build-0001-02", "3.8.0"),
    ]
    assert [(item.name, item.kafka) for item in campaign(metric="latency_p99_ms", phase="steady").items] == [
        ("build-0008-01", "4.1.1"),
        ("build-0008-01-beside", "3.8.0"),
        ("build-0008-02-beside", "3.8.0"),
        ("build-0008-02", "4.1.1"),
    ]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"builds": "3.9.1"}, "--builds=3.9.1 is refused: it takes a good build and a bad one"),
        ({"builds": "3.9.1 3.9.0,3.9.1"}, "each of them once"),
        ({"metric": "speed"}, "--metric=speed is refused: it has no better direction"),
        ({"phase": "steady"}, "--phase=steady is refused: it belongs to a metric"),
        ({"metric": "latency_p99_ms", "phase": "now"}, "--phase=now is refused: there is no phase 'now', known: "),
        ({"metric": "latency_p99_ms"}, "--phase= is refused: latency_p99_ms is measured in each phase; name one of "),
        ({"scenario": "nowhere"}, "nowhere"),
        ({"tries": 1}, "--tries=1 is refused"),
    ],
)
def test_what_cannot_be_asked_is_refused(settings: dict[str, Any], sentence: str) -> None:
    """Invalid settings are rejected in one sentence before anything runs."""
    with pytest.raises(BadInput, match=sentence):
        campaign(**settings)


def test_a_build_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each build is made once, by a command in the user's folder; a failed command is named with its exit code."""
    left = tmp_path / "left"
    left.mkdir()
    monkeypatch.setattr(builds, "MADE", tmp_path / "made")
    monkeypatch.setattr(builds, "build_of", lambda _: type("Build", (), {"jars": left}))
    settings = {"command": 'echo "$BUILD" >> said', "kafka": "left", "cwd": str(tmp_path)}

    assert [builds.made(settings, "a1"), builds.made(settings, "b2"), builds.made(settings, "a1")] == [str(left)] * 3
    assert (tmp_path / "said").read_text() == "a1\nb2\n"
    assert builds.made({"command": "", "kafka": "", "cwd": ""}, "3.9.1") == "3.9.1"
    with pytest.raises(HarnessError, match="c3 was not made: exit code 5 of exit 5"):
        builds.made({"command": "exit 5", "kafka": "", "cwd": str(tmp_path)}, "c3")


# --- the ends ------------------------------------------------------------------------------------------


def test_what_the_bad_end_shows_alone_is_searched_for() -> None:
    """The search looks for violations that only the bad build shows; without any, more tries are proposed."""
    planned = campaign()
    search_ = Search(planned, ends(planned))

    assert search_.difference == Violation(frozenset({"I6"}), 0.1)
    more = "29 tries show with 95 % certainty what 10 % of runs show (--tries=29)."
    both = Search(planned, ends(planned, **LOST)).difference
    assert both == f"In 2 runs the bad end violated no guarantee, which the good one violates, too; {more}"
    assert f"violated no guarantee; {more}" in str(Search(planned, ends(planned, bad_from=8)).difference)
    assert str(Search(planned, []).difference).startswith("One of the ends has no run with a verdict")


def test_a_metric_has_to_differ_for_the_worse() -> None:
    """For a metric, the bad build must be slower with an interval above zero."""
    planned = campaign(metric="latency_p99_ms", phase="steady", tries=3)

    def told(*p99: float) -> Any:
        rows = [
            row
            for item in planned.items
            for row in run_rows(
                item, {P99: 10.0 if item.labels["role"] == "good" else p99[int(item.labels["try"]) - 1]}
            )
        ]
        return Search(planned, rows).difference

    slower = told(14.8, 15.0, 15.2)
    assert isinstance(slower, Slower)
    assert slower.sentence == (
        "In a bad build p99 latency of the phase steady changes by +10 % or more against the good one; "
        "+50.0 % in the bad end."
    )
    assert "by 3 pairs; about 16 pairs show a change of 10 % (--tries=16)." in told(9.0, 10.0, 11.5)
    assert told(10.5, 10.52, 10.48).startswith("The bad end differs by less than --least=10: ")
    assert told(5.0, 5.1, 5.2).startswith("The bad end is the better one: ")


# --- the search ----------------------------------------------------------------------------------------


def searched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bad_from: int, broken: tuple[int, ...] = (), **settings: Any
) -> tuple[Campaign, list[dict[str, Any]], list[str]]:
    """Search to the end with builds bad from this place on; return plan, rows and recorded items."""
    planned = campaign(**settings)
    rows, recorded = ends(planned, bad_from), list[str]()
    folder = CampaignFolder(tmp_path / "c1")
    folder.write_plan(planned)

    def made(_settings: Any, build: str) -> str:
        if BUILDS.index(build) in broken:
            raise HarnessError(f"{build} was not made")
        return build

    monkeypatch.setattr(search, "made", made)
    monkeypatch.setattr(search.archive, "read", lambda *_, **__: rows)
    monkeypatch.setattr(search, "counted", lambda read: read)
    places = Places.beside(tmp_path / "runs")
    rounds.begin(folder)
    while items := search.next_items(folder, places):
        for item in items:
            recorded.append(item.name)
            rows.extend(rows_of(item, bad_from))
    return planned, rows, recorded


@pytest.mark.parametrize("bad_from", range(1, 8))
def test_the_first_bad_build_is_found(bad_from: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The first bad build is found wherever it is, by testing at most three of eight builds."""
    planned, rows, recorded = searched(monkeypatch, tmp_path, bad_from)
    told = result(planned, rows)

    assert (told.state, told.first_bad, told.last_good) == ("pass", BUILDS[bad_from], BUILDS[bad_from - 1])
    assert told.sentence.startswith(f"{BUILDS[bad_from]} is the first bad build; ")
    assert len({name[:10] for name in recorded}) <= 3
    assert len(recorded) == len(set(recorded))
    assert told.wrong_at_most <= 0.03


@pytest.mark.parametrize("share", [0.1, 0.3, 0.9])
def test_a_build_that_shows_the_bug_in_some_runs_is_hardly_ever_called_good(share: float) -> None:
    """A build that shows the bug in an unknown share of runs is called good in at most 1% of the answers."""
    planned, drawn = campaign(tries=3), random.Random(7)
    answers: Counter[str] = Counter()
    for _ in range(120):
        rows = [row for item in planned.items for row in rows_of(item, 7 if drawn.random() < share else 8)]
        found = Search(planned, rows)
        for number in range(1, planned.settings["limit"] + 1):
            if isinstance(found.difference, str):
                break
            (item,) = items_of(planned, 3, number, BUILDS[3])
            rows += rows_of(item, 0 if drawn.random() < share else 8)
            found = Search(planned, rows)
            if found.answer(3) != "open":
                answers[found.answer(3)] += 1
                break

    assert answers["good"] <= 0.01 * answers.total() + 3
    assert answers["bad"] > answers["undecided"]


@pytest.mark.parametrize(("least", "runs"), [(10, 49), (50, 7), (90, 3)])
def test_a_build_without_the_bug_is_called_good_after_so_many_runs(least: int, runs: int) -> None:
    """The smaller the share of bad runs to detect, the more runs are needed to call a build good."""
    planned = campaign(least=least)
    items = [item for number in range(1, runs + 1) for item in items_of(planned, 3, number, BUILDS[3])]
    rows = [*ends(planned), *(row for item in items for row in rows_of(item, 8))]

    assert Search(planned, rows).answer(3) == "good"
    assert Search(planned, rows[:-1]).answer(3) == "open"


def test_a_slower_build_is_found_beside_the_good_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """For a metric, each try of a build is a pair with the good build."""
    planned = campaign(metric="latency_p99_ms", phase="steady")
    rows = [
        row
        for index in (3, 4, 7)
        for number in range(1, 6)
        for item in items_of(planned, index, number, BUILDS[index])
        for row in run_rows(
            item,
            {P99: 10.0 if item.labels["role"] == "good" or index == 3 else (15.0, 14.9, 15.1)[number % 3]},
        )
    ]

    told = result(planned, rows)
    assert (told.state, told.first_bad) == ("pass", "4.0.0")
    more = "p99 latency of the phase steady: +50.0 % against the good build, in 5 pairs."
    assert told.lines[2] == f"bad       4.0.0: {more}"


def test_a_build_that_cannot_be_made_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A build that cannot be made is skipped; if it borders the first bad build, both are named."""
    planned, rows, recorded = searched(monkeypatch, tmp_path, 4, broken=(3,))
    told = result(planned, rows)

    assert not any(name.startswith("build-0004") for name in recorded)
    assert (told.state, told.candidates) == ("unknown", ["3.9.1", "4.0.0"])
    assert told.sentence.startswith("The first bad build is one of 2: after 3.9.0 and up to 4.0.0.")
    planned, rows, _ = searched(monkeypatch, tmp_path / "near", 2, broken=(3,))
    assert result(planned, rows).first_bad == "3.9.0"


def test_missing_evidence_is_no_violation() -> None:
    """Missing evidence, and anomalies that the good build shows too, are not searched for."""
    planned = campaign()
    about = {"verdict": "unknown", "sentence": "The drain ended early.", "anomalies": {"unseen": 5}}
    bad = {**LOST, "anomalies": {"unseen": 5, "truncated_ack": 3}}
    rows = [
        row
        for item in planned.items
        for row in run_rows(item, {P99: 1.0}, **(bad if item.kafka == "4.1.1" else {"anomalies": {"truncated_ack": 1}}))
    ]
    between = [row for item in items_of(planned, 3, 1, "3.9.1") for row in run_rows(item, {P99: 1.0}, **about)]
    found = Search(planned, [*rows, *between])

    assert found.difference == Violation(frozenset({"I6"}), 0.1)
    assert found.so_far(3) == "evidence +0.0 of 4.6"


def test_a_time_that_is_a_bound_has_no_ratio() -> None:
    """A censored time has no ratio, so the build stays undecided."""
    planned = campaign(metric="elect_s", phase="steady")
    rows = [row for item in planned.items for row in run_rows(item, {("elect_s", "steady"): 10.0})]
    bounds = [{**row, "censored": True} for row in rows]

    assert str(Search(planned, rows).difference).startswith("The ends do not differ")
    assert str(Search(planned, bounds).difference).startswith("Fewer than two pairs of the ends have a figure")


def test_commits_are_told_by_their_first_characters() -> None:
    """The sentence shortens commits to their first characters; the result keeps them whole."""
    commits = [f"{number:040x}" for number in range(0xABC, 0xABE)]
    planned = campaign(builds=commits)
    told = result(planned, ends(planned, bad_from=1))

    assert told.first_bad == commits[1]
    assert told.sentence == "000000000000 is the first bad build; 000000000000, the one before it, is good."


def test_runs_without_a_verdict_end_at_the_limit() -> None:
    """A build whose runs have no verdict stays undecided once the limit is reached."""
    planned = campaign(limit=2)
    unknown = {"verdict": "unknown", "sentence": "The prober died.", "broken": []}
    more = [item for number in (1, 2) for item in items_of(planned, 3, number, "3.9.1")]
    rows = [*ends(planned), *(row for item in more for row in rows_of(item, 7, **unknown))]
    found = Search(planned, rows)

    assert (found.answer(3), found.so_far(3)) == ("undecided", "evidence +0.0 of 4.6")
    assert found.next == 4
    assert Search(planned, rows[:-1]).answer(3) == "open"
    assert result(planned, rows).state == "unknown"
