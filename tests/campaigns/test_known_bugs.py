"""Known bugs by version: the plan, the outcome of a try, and the result of all tries."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from campaigns.campaign import Campaign, Item
from campaigns.known_bugs import campaign as known_bugs
from campaigns.known_bugs.bugs import BUGS, Bug
from clusters.scenario.scenario import load_scenario
from history.errors import BadInput
from tests.junit_schema import outcomes_of

STALLED = Bug(
    issue="KAFKA-13091",
    title="the high watermark stands still",
    scenario="isr_shrinks_at_rest",
    bad="3.0.2",
    good="3.1.2",
    shown_as=("I10",),
)
BY_SETTING = Bug(
    issue="KIP-966",
    title="another leads",
    scenario="steady",
    bad="4.3.0",
    good="4.3.0",
    shown_as=("behaviour_change",),
    bad_changes={"cluster": {"heap": "512m"}},
    good_changes={"cluster": {"heap": "384m"}},
)


@pytest.fixture(autouse=True)
def two_bugs(monkeypatch: pytest.MonkeyPatch) -> None:
    """One bug that depends on the version, and one that depends on a setting."""
    monkeypatch.setattr(known_bugs, "BUGS", (STALLED, BY_SETTING))


def plan(**settings: Any) -> Campaign:
    """Return the plan for these settings."""
    return known_bugs.plan(settings, campaign_id="k1", created_at="2026-11-21T08:00:00+00:00", seed=7)


def row(item: Item, **about: Any) -> dict[str, Any]:
    """Return the archive row of a run."""
    usual = {
        "run_id": f"run-{item.name}",
        "started_at": "2026-11-21T09:00:00Z",
        "host": "h",
        "verdict": "pass",
        "sentence": "Every guarantee held.",
        "anomalies": {},
        "broken": [],
        "known_bugs": {},
        "precondition_met": True,
        "labels": {**item.labels, "campaign": "k1", "item": item.name},
    }
    return {**usual, **about}


STUCK = {"verdict": "fail", "broken": ["I10"]}


# --- the plan --------------------------------------------------------------------------------------


def test_each_try_has_every_bug_on_both_versions() -> None:
    """Each try runs every bug on both versions, so an interrupted campaign has equally many of each."""
    assert [(item.name, item.kafka) for item in plan(tries=2).items] == [
        ("kafka-13091-bad-01", "3.0.2"),
        ("kafka-13091-good-01", "3.1.2"),
        ("kip-966-bad-01", "4.3.0"),
        ("kip-966-good-01", "4.3.0"),
        ("kafka-13091-bad-02", "3.0.2"),
        ("kafka-13091-good-02", "3.1.2"),
        ("kip-966-bad-02", "4.3.0"),
        ("kip-966-good-02", "4.3.0"),
    ]


def test_a_bug_that_no_version_is_without_is_tried_on_the_one_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug without a fixed version is tried on the affected one only; recipes are per mode."""
    changes = {"cluster": {"mode": "zookeeper"}}
    variant = Bug("HW-WAITS", "t", "steady", "3.5.2", None, ("I10",), changes, changes, variant="zookeeper")
    of_kraft = Bug("HW-WAITS", "t", "fenced_yet_awaited", "3.6.0", "3.5.2", ("I10",))
    monkeypatch.setattr(known_bugs, "BUGS", (of_kraft, variant))

    assert [(item.name, item.kafka) for item in plan(tries=1).items] == [
        ("hw-waits-bad-01", "3.6.0"),
        ("hw-waits-good-01", "3.5.2"),
        ("hw-waits-zookeeper-bad-01", "3.5.2"),
    ]
    with pytest.raises(BadInput, match="--mode=zookeeper: the recipe of HW-WAITS is for kraft alone"):
        plan(bugs="hw-waits", kafka="3.9.2", mode="zookeeper")


def test_the_tries_of_one_bug_have_seeds_of_their_own() -> None:
    """The tries of a bug have different seeds, for different random targets."""
    assert len({item.seed for item in plan(bugs="13091", tries=3).items}) == 3


def test_versions_that_are_given_stand_for_the_bugs_own() -> None:
    """Given versions replace the bug's; a bug that depends on a setting is tried with both values."""
    planned = plan(kafka="2.8.2, 4.1.0", tries=1)

    assert [(item.name, item.kafka, item.changes.get("cluster")) for item in planned.items] == [
        ("kafka-13091-given-1-01", "2.8.2", None),
        ("kafka-13091-given-2-01", "4.1.0", None),
        ("kip-966-bad-2-01", "4.1.0", {"heap": "512m"}),
        ("kip-966-good-2-01", "4.1.0", {"heap": "384m"}),
    ]
    assert planned.settings["left_out"] == [
        "KIP-966 is left out: Kafka 2.8.2 is none of the versions in which a setting decides it."
    ]


@pytest.mark.parametrize(("mode", "expected"), [("zookeeper", "found"), ("kraft", "clean")])
def test_a_mode_is_that_of_the_given_versions(monkeypatch: pytest.MonkeyPatch, mode: str, expected: str) -> None:
    """The expected outcome follows from version and mode, and the result shows the mode."""
    waits = Bug("HW-WAITS", "it waits", "steady", "3.6.2", "3.5.2", ("I10",))
    monkeypatch.setattr(known_bugs, "BUGS", (waits,))
    planned = plan(kafka="3.5.2", mode=mode, tries=1)

    assert [item.changes for item in planned.items] == [{"cluster": {"mode": mode}}]
    (arm,) = known_bugs.result(planned, []).arms
    assert (arm.version, arm.expected) == (f"3.5.2 mode: {mode}", expected)


def test_a_bug_that_a_version_cannot_run_is_left_out_unless_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug that a given version cannot run is left out with a reason, or rejected if it was named."""
    kraft_only = Bug("KAFKA-18723", "t", "steady", "3.9.0", "3.9.1", ("I6",), {"cluster": {"mode": "kraft"}})
    same = Bug(**{**vars(kraft_only), "good_changes": kraft_only.bad_changes})
    monkeypatch.setattr(known_bugs, "BUGS", (STALLED, same))

    planned = plan(kafka="2.8.2", tries=1)
    assert [item.name for item in planned.items] == ["kafka-13091-given-1-01"]
    assert planned.settings["left_out"][0].startswith(
        "KAFKA-18723 is left out: Kafka 2.8.2 has KRaft as a preview only"
    )
    with pytest.raises(BadInput, match=r"Kafka 2\.8\.2 has KRaft as a preview only"):
        plan(bugs="kafka-18723", kafka="2.8.2")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"bugs": "13092"}, "'13092' is no bug of the list; known: kafka-13091, kip-966"),
        ({"mode": "zookeeper"}, "--mode=zookeeper is for given versions; name them with --kafka"),
        ({"tries": 0}, "--tries=0 is refused: Input should be greater than or equal to 1"),
    ],
)
def test_what_cannot_be_planned_is_refused(settings: dict[str, Any], sentence: str) -> None:
    """Invalid settings are rejected in one sentence with the known values."""
    with pytest.raises(BadInput, match=sentence):
        plan(**settings)


# --- a try -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("about", "said"),
    [
        (STUCK, "found"),
        ({**STUCK, "precondition_met": False}, "found"),  # the finding shows that the precondition held
        ({"verdict": "fail", "broken": ["I12"]}, "clean"),
        ({"verdict": "fail", "broken": ["I12"], "precondition_met": False}, "window missed"),
        ({"precondition_met": False}, "window missed"),
        ({"precondition_met": None}, "clean"),
        ({}, "clean"),
        ({"verdict": "unknown"}, "unknown"),
        ({"verdict": "unknown", "precondition_met": False}, "unknown"),
    ],
)
def test_what_a_try_says(about: Mapping[str, Any], said: str) -> None:
    """A try finds a bug only by the bug's own invariants."""
    (item,) = [item for item in plan(bugs="13091", tries=1).items if item.labels["arm"] == "bad"]

    assert known_bugs.outcome(row(item, **about), STALLED) == said


def test_a_change_of_behaviour_is_found_in_a_run_that_passes() -> None:
    """A change of behaviour is found in a passing run, if it has cases."""
    item = plan(bugs="966", tries=1).items[0]

    assert known_bugs.outcome(row(item, anomalies={"behaviour_change": 2}), BY_SETTING) == "found"
    assert known_bugs.outcome(row(item, anomalies={"behaviour_change": 0}), BY_SETTING) == "clean"


def test_a_try_that_said_nothing_is_made_again_once() -> None:
    """A try without an outcome is repeated once under the next number."""
    planned = plan(bugs="13091", tries=2)
    rows = [
        row(planned.items[0], precondition_met=False),
        row(planned.items[1]),
        row(planned.items[2], verdict="unknown"),
    ]

    again = known_bugs.follow_up(planned, rows)
    assert [(item.name, item.seed) for item in again] == [("kafka-13091-bad-03", 10), ("kafka-13091-bad-04", 11)]
    assert known_bugs.follow_up(planned, rows[1:2]) == []


# --- the result ------------------------------------------------------------------------------------


def test_bug_by_version_is_counted_in_tries() -> None:
    """Outcomes are counted in tries per bug and version; tries whose precondition failed do not count."""
    planned = plan(bugs="13091", tries=3)
    bad = [row(item, **STUCK) for item in planned.items if item.labels["arm"] == "bad"]
    good = [row(item) for item in planned.items if item.labels["arm"] == "good"]
    good[0] |= {"verdict": "fail", "broken": ["I12"]}  # by another bug
    found = known_bugs.result(
        planned, [*bad[:2], {**bad[2], "broken": [], "precondition_met": False, "verdict": "pass"}, *good]
    )

    counts = ("found", "decided", "clean", "window_missed", "unknown", "as_expected", "found_by")
    assert [tuple(getattr(arm, name) for name in counts) for arm in found.arms] == [
        (2, 2, 0, 1, 0, True, {"I10": 2}),
        (0, 3, 3, 0, 0, True, {}),
    ]
    assert found.state == "pass"
    assert found.lines == [
        "bug          Kafka  found   clean   precondition not met  unknown  found by  also violated  as expected",
        "KAFKA-13091  3.0.2  2 of 2  0 of 2  1                     0        I10 in 2  -              yes",
        "KAFKA-13091  3.1.2  0 of 3  3 of 3  0                     0        -         I12 in 1       yes",
    ]
    assert found.sentence == (
        "KAFKA-13091 was found in 2 of 2 tries on 3.0.2, which has the bug, and in 0 of 3 tries on 3.1.2, which "
        "does not have it; the precondition was not met in 1 try."
    )


@pytest.mark.parametrize(
    ("of_bad", "of_good", "state"),
    [
        ([STUCK, STUCK], [{}, {}], "pass"),
        ([STUCK, {}], [{}, {}], "fail"),
        ([STUCK, STUCK], [{}, STUCK], "fail"),
        ([STUCK, STUCK], [{}, {"verdict": "fail", "broken": ["I12"]}], "pass"),
        ([{"precondition_met": False}, {"verdict": "unknown"}], [{}, {}], "unknown"),
        ([STUCK, {"precondition_met": False}], [{}, {}], "pass"),
    ],
)
def test_a_bug_must_be_found_where_it_is_and_nowhere_else(of_bad: list[Any], of_good: list[Any], state: str) -> None:
    """A bug must be found in every counted try of the affected version and in none of the other."""
    planned = plan(bugs="13091", tries=2)
    told = {"bad": iter(of_bad), "good": iter(of_good)}
    rows = [row(item, **next(told[item.labels["arm"]])) for item in planned.items]

    found = known_bugs.result(planned, rows)
    assert found.state == state
    assert state in outcomes_of(found).values()


def test_jars_of_ones_own_have_no_expectation() -> None:
    """Custom builds have no expected outcome; releases have."""
    planned = plan(bugs="13091", kafka="/builds/trunk,3.0.1,3.1.0", tries=1)
    found = known_bugs.result(planned, [row(item, **STUCK) for item in planned.items])

    assert [(arm.kafka, arm.expected, arm.as_expected) for arm in found.arms] == [
        ("/builds/trunk", None, None),
        ("3.0.1", "found", True),
        ("3.1.0", "clean", False),
    ]


def test_another_campaigns_runs_do_not_count() -> None:
    """Runs of another campaign do not count."""
    planned = plan(bugs="13091", tries=1)
    other = row(planned.items[0], **STUCK)
    other["labels"] = {**other["labels"], "campaign": "k2"}

    assert known_bugs.result(planned, [other]).arms[0].tries == 0
    assert known_bugs.result(planned, [other]).missing == ["kafka-13091-bad-01", "kafka-13091-good-01"]


def test_a_campaign_that_lacks_tries_is_no_pass() -> None:
    """A campaign with missing tries does not pass, but may fail."""
    planned = plan(bugs="13091", tries=2)
    bad, good = (row(planned.items[0], **about) for about in (STUCK, {}))

    assert known_bugs.result(planned, [bad, row(planned.items[1])]).state == "unknown"
    assert known_bugs.result(planned, [good, row(planned.items[1])]).state == "fail"


# --- the list --------------------------------------------------------------------------------------


def test_each_bug_on_the_list_can_be_looked_for() -> None:
    """Each listed bug has a valid scenario with a precondition, and versions on the right sides."""
    for bug in BUGS:
        for changes in (bug.bad_changes, bug.good_changes):
            told = load_scenario(bug.scenario, changes)
            looks = [step for phase in told.phases for step in phase.steps if step.key == "require"]
            assert looks or bug.shown_as == ("behaviour_change",), bug.issue
        assert bug.affects(bug.bad), bug.issue
        assert bug.good is None or bug.affects(bug.good) == bug.by_setting, bug.issue
    assert len({bug.name for bug in BUGS}) == len(BUGS)


def test_a_result_takes_the_timelines_of_run_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    """A result shows the timelines of the folders that are there."""
    monkeypatch.setattr(known_bugs, "timelines", lambda arms, folders: [len(arms), *folders])
    found = known_bugs.with_recordings(known_bugs.result(plan(), []), {"item-1": Path("runs/run-1")})

    assert found.timelines == [len(found.arms), Path("runs/run-1")]
