"""Runs are paired, or rejected with a reason."""

import pytest

from campaigns.compare.runs import pairs_of, refusals, runs_of, sides
from tests.campaigns.comparison import campaign, rows, run_rows

PLAN = campaign(pairs=2, aa_pairs=2)


def runs(**about):
    """Return the runs of the plan, with other columns for some roles."""
    return runs_of(PLAN, rows(PLAN, about={item.name: about.get(item.labels["role"], {}) for item in PLAN.items}))


def test_runs_of_other_campaigns_are_left_alone():
    """Only this campaign's rows are used, in the plan's order."""
    own = rows(PLAN)
    others = [{**row, "run_id": "x", "labels": {**row["labels"], "campaign": "c2"}} for row in own]
    bare = [{**row, "run_id": "y", "labels": {}} for row in own]

    assert [run.label("item") for run in runs_of(PLAN, others + own[::-1] + bare)] == [i.name for i in PLAN.items]


def test_the_rows_of_a_run_are_told_by_metric_and_phase():
    """A run has its values by metric and phase; another phase has none."""
    (run,) = runs_of(PLAN, run_rows(PLAN.items[0], {("latency_p99_ms", "steady"): 50.0}, run_id="first"))

    assert run.run_id == "first"
    assert run.value("latency_p99_ms", "steady") == 50.0
    assert run.value("latency_p99_ms") is None


def test_a_run_that_measured_nothing_is_a_run():
    """A run without any metric is a run without values."""
    (run,) = runs_of(PLAN, run_rows(PLAN.items[0], {("", ""): None}))

    assert dict(run.measured) == {}
    assert run.why_not("latency_p99_ms", "steady") == "not measured"


def test_pairs_are_those_of_the_plan():
    """Pairs follow the plan by role; a missing run leaves its place empty."""
    found = pairs_of(PLAN, runs(), "comparison", ("base", "head"))
    missing = pairs_of(PLAN, [run for run in runs() if run.arm == "base"], "comparison", ("base", "head"))

    assert [[run.label("role") for run in pair.runs] for pair in found] == [["base", "head"]] * 2
    assert [pair.first.label("order") for pair in found if pair.first] == ["1", "2"]
    assert [pair.second for pair in missing] == [None, None]


@pytest.mark.parametrize(
    ("about", "why"),
    [
        ({"verdict": "fail", "sentence": "Lost."}, "its verdict is fail: Lost."),
        ({"verdict": "unknown", "sentence": "Who knows."}, "its verdict is unknown: Who knows."),
        ({"trusted": False, "note": "host_steal_ratio was 9%"}, "host_steal_ratio was 9%"),
        ({"value": None, "note": "no send was acknowledged"}, "no send was acknowledged"),
        ({"censored": True}, "at least this value: the observation ended first"),
        ({}, None),
    ],
)
def test_what_is_no_basis_for_a_comparison_says_why(about, why):
    """A run that cannot be compared has its reason, such as a violation, host pressure or a censored time."""
    run = runs(base=about)[0]

    assert run.why_not("latency_p99_ms", "steady") == why
    assert run.why_not("latency_p99_ms", "storm") == why if about.get("verdict") else "not measured"


@pytest.mark.parametrize(
    ("about", "why"),
    [
        ({"head": {"host": "other"}}, "come from 2 hosts"),
        ({"head": {"runtime": "process"}}, "runtime process; a comparison needs runtime docker"),
        ({"base2": {"jvm": "fast_start"}}, "jvm fast_start; a comparison needs jvm production"),
        ({"base2": {"kafka_jars_digest": "rebuilt"}}, "jars of base changed"),
        ({"base2": {"scenario_digest": "edited"}}, "scenario of base changed"),
    ],
)
def test_runs_that_are_no_comparison_are_refused(about, why):
    """Runs of different hosts, runtimes or JVMs are rejected; head may have other jars and another scenario."""
    (told,) = refusals(runs(**about))

    assert why in told
    assert refusals(runs(head={"kafka_jars_digest": "rebuilt", "scenario_digest": "changed"})) == []


def test_zookeeper_against_kraft_is_called_what_it_is():
    """If the modes differ, they are part of the names."""
    differ = sides(PLAN.settings, runs(base={"mode": "zookeeper"}, base2={"mode": "zookeeper"}))
    same = sides(PLAN.settings, runs())

    assert (differ.base.name, differ.head.name) == ("Kafka 3.9.0 (ZooKeeper)", "Kafka 3.9.1 (KRaft)")
    assert same.head.name == "Kafka 3.9.1"
    assert same.head.jars == ["jars-3.9.1"]


@pytest.mark.parametrize(("again_at", "split", "first"), [("09:30", False, 0), ("09:47", True, 0), ("09:20", False, 1)])
def test_a_run_that_was_made_again_later_is_in_no_pair(again_at, split, first):
    """A pair whose second run was repeated later, after another run, is split; the earlier one counts as first."""
    head, base = PLAN.items[5], PLAN.items[4]
    assert (head.labels["role"], base.labels["role"]) == ("head", "base")
    about = {base.name: {"started_at": "2026-11-01T09:24:00Z"}, head.name: {"started_at": f"2026-11-01T{again_at}:00Z"}}
    late = runs_of(PLAN, rows(PLAN, about=about))
    pair = pairs_of(PLAN, late, "comparison", ("base", "head"))[0]

    assert (pair.split, pair.ran_first) == (split, first)


@pytest.mark.parametrize(
    ("clusters", "found"),
    [(("a", "a"), []), (("a", "b"), ["The runs of base come from several clusters; compare again, with one."])],
)
def test_a_side_is_one_cluster_of_others(clusters, found):
    """There, flags of the JVM and the runtime are no reason; a cluster that was replaced is."""
    others = {"jvm": "", "runtime": "process"}
    given = runs(
        base={"cluster": clusters[0], **others},
        base2={"cluster": clusters[1], **others},
        head={"cluster": "c", **others},
    )

    assert refusals(given) == found
