"""The runs of a capacity plan: settings, rejected settings, and each run's changes to its scenario."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from campaigns.campaign import Item
from campaigns.capacity.campaign import WARM_UP, follow_up, plan
from clusters.scenario.scenario import load_scenario
from history.errors import BadInput
from history.results.capacity import CapacityResult
from tests.campaigns.capacity_rows import archive, campaign, item_of, result, settings, told, usual
from tests.junit_schema import outcomes_of


def test_the_question_that_comes_with_the_project_can_be_planned() -> None:
    """capacity.yaml has load steps, a grid and held-out points."""
    told = yaml.safe_load((Path(__file__).resolve().parents[3] / "capacity.yaml").read_text())
    planned = plan(told, campaign_id="plan-1", created_at="2026-11-21T10:00:00+00:00", seed=7)

    assert {item.labels["role"] for item in planned.items} == {"knee", "degraded", "catch_up", "held_out"}


def _refusal(**changes: Any) -> str:
    with pytest.raises(BadInput) as refused:
        plan(settings(**changes), campaign_id="plan-1", created_at="2026-11-21T10:00:00+00:00", seed=7)
    return str(refused.value)


def test_load_steps_come_first_and_held_out_points_last() -> None:
    """Load steps come first, healthy and degraded alternating, then the grid once, then held-out points."""
    roles = [item.labels["role"] for item in campaign().items]

    assert roles == ["knee", "degraded"] * 3 + ["catch_up"] * 9 + ["held_out"] * 3


def test_the_grid_is_run_in_an_order_of_its_own() -> None:
    """The seed decides the order of the grid, and each point is run once."""
    points = [(item.labels["write_mb_per_s"], item.labels["down_s"]) for item in campaign().items[6:15]]
    other = plan(settings(), campaign_id="plan-1", created_at="2026-11-21T10:00:00+00:00", seed=8)

    assert sorted(points) == [(load, down) for load in "124" for down in ("15", "30", "60")]
    assert points != [(item.labels["write_mb_per_s"], item.labels["down_s"]) for item in other.items[6:15]]


def test_every_run_is_one_that_its_scenario_allows() -> None:
    """Each run's changes fit its scenario: production JVM, resource limits and whole rates."""
    for item in campaign().items:
        told = load_scenario(item.scenario, item.changes)
        assert (told.cluster.jvm, told.cluster.brokers) == ("production", 3)
        assert told.cluster.resource_limits is not None
        assert told.cluster.resource_limits.cpus == 0.35
        assert told.cluster.resource_limits.cpu_set is None  # the scenario's value, since the settings do not set it
        assert told.load is not None
        assert (told.load.record_bytes, told.load.p99_limit) == (1000, 0.2)


def test_compression_is_measured_where_it_is_asked_for() -> None:
    """With compression, more records are sent, so that the compressed MB/s are the same."""
    plain, packed = campaign(), campaign(compression="zstd", compresses_to="40%")
    for one, other in zip(plain.items, packed.items, strict=True):
        before, after = (load_scenario(item.scenario, item.changes) for item in (one, other))
        assert before.load
        assert after.load
        assert after.load.payload
        assert (after.load.compression, after.load.payload.compresses_to) == ("zstd", 0.4)
        rates = [
            [step.rate for phase in told.phases for step in phase.steps if step.key == "set_rate"]
            for told in (before, after)
        ]
        assert rates[1] == pytest.approx([rate / 0.4 for rate in rates[0]], abs=1)


@pytest.mark.parametrize(("tls", "protocol"), [(True, "one_way"), (False, None)])
def test_tls_is_measured_where_it_is_asked_for(tls: bool, protocol: str | None) -> None:
    """All runs use TLS, or none does."""
    for item in campaign(tls=tls).items:
        security = load_scenario(item.scenario, item.changes).cluster.security
        assert (security.tls if security else None) == protocol


def test_a_load_step_offers_its_rate_in_a_phase_of_its_own() -> None:
    """4 MB/s of 1,000-byte records are 4,000/s; in a degraded step the rate is set once the broker left the ISR."""
    healthy, degraded = campaign().items[:2]

    assert {"4 MB/s": [{"set_rate": "4000/s"}, {"hold": 30.0}]} in healthy.changes["phases"]
    steps = next(phase for phase in degraded.changes["phases"] if "4 MB/s, one away" in phase)["4 MB/s, one away"]
    assert [next(iter(step)) for step in steps] == ["stop", "wait", "set_rate", "hold", "start", "wait"]


def test_a_catch_up_run_is_away_as_long_as_its_label_says() -> None:
    """A catch-up run kills a broker for the labelled time, starts it, waits up to the limit, and rebalances leaders."""
    item = next(item for item in campaign().items if item.name == "held-out-2-3mb-90s")

    steps = item.changes["phases"][-1]["away and back"]
    assert (item.labels["write_mb_per_s"], item.labels["down_s"]) == ("3", "90")
    assert steps[:3] == [{"kill": "A"}, {"hold": 90.0}, {"start": "A"}]
    assert steps[3]["wait"]["limit"] == 240
    assert [next(iter(step)) for step in steps[4:]] == ["elect", "wait"]


def test_a_cold_run_drops_the_page_cache_before_the_broker_is_back() -> None:
    """A cold run drops the page cache before the broker starts, and cold and other runs are mixed."""
    planned = campaign(cold={"write_mb_per_s": [1, 2], "down_s": [30, 60], "repetitions": 2})
    runs = [item for item in planned.items if item.labels["role"] == "catch_up"]
    cold = [item for item in runs if item.labels["backlog"] == "cold"]

    assert (len(runs), len(cold)) == (9 + 8, 8)
    assert runs[:8] != cold
    dropped = [any("drop_cache" in step for step in item.changes["phases"][-1]["away and back"]) for item in runs]
    assert dropped == [item in cold for item in runs]
    steps = [next(iter(step)) for step in cold[0].changes["phases"][-1]["away and back"]]
    assert steps.index("drop_cache") == steps.index("start") - 1


def test_partitions_are_measured_where_they_are_asked_for() -> None:
    """Each partition count is run three times between grid and held-out points: a steady phase, then a kill."""
    items = campaign(partitions=[50, 10]).items
    runs = [item for item in items if item.labels["role"] == "partitions"]

    assert [item.labels["role"] for item in items[15:]] == ["partitions"] * 6 + ["held_out"] * 3
    assert sorted(item.name for item in runs) == [
        f"partitions-{turn}-{count}" for turn in (1, 2, 3) for count in (10, 50)
    ]
    for item in runs:
        told = load_scenario(item.scenario, item.changes)
        assert told.topics["orders"].partitions == int(item.labels["partitions"])
        steady, away = item.changes["phases"][1:]
        assert steady == {"steady": [{"set_rate": "1000/s"}, {"hold": 30.0}]}
        assert [next(iter(step)) for step in away["away and back"]] == ["kill", "hold", "start", "wait"]


@pytest.mark.parametrize(
    ("changes", "measured"),
    [
        ({"topic": 12}, 12),
        ({"topic": 12, "brokers": 6}, 6),
        ({"topic": 13, "brokers": 6}, 7),
        ({"topic": 600, "partitions": [10, 50]}, 50),
        ({"topic": 20, "partitions": [10, 50]}, 20),
    ],
)
def test_a_measured_broker_holds_as_many_replicas_as_one_of_the_question(
    changes: dict[str, Any], measured: int
) -> None:
    """A measured broker holds as many replicas as one of the planned cluster, up to the tested maximum."""
    counts = {
        load_scenario(item.scenario, item.changes).topics["orders"].partitions
        for item in campaign(**changes).items
        if item.labels["role"] != "partitions"
    }

    assert counts == {measured}


def test_only_what_the_host_disturbed_is_recorded_once_more() -> None:
    """A slow run adds nothing, since points chosen by results would not test the model; a disturbed warm-up or a second
    try adds nothing.
    """
    planned = campaign()
    slow, busy, quiet = (item.name for item in planned.items[:3])

    def row(item: str, metric: str, value: float, phase: str = "0.1 MB/s") -> dict[str, Any]:
        labels = {"campaign": planned.campaign_id, "item": item}
        return {"labels": labels, "phase": phase, "metric": metric, "value": value}

    rows = [row(slow, "latency_p99_ms", 9e9), row(quiet, "host_other_cpu_ratio", 0.25)]
    rows += [row(busy, "host_other_cpu_ratio", 0.26), row(busy, "host_steal_ratio", 0.0)]
    rows += [row(quiet, "host_steal_ratio", 0.9, WARM_UP)]
    (again,) = follow_up(planned, rows)

    assert (again.name, again.labels, again.changes) == (f"{busy}-again", *_of(planned.items[1]))
    assert follow_up(planned, [*rows, row(again.name, "host_steal_ratio", 0.9)]) == [again]
    assert follow_up(planned, []) == []


def _of(item: Item) -> tuple[dict[str, str], dict[str, Any]]:
    return item.labels, item.changes


def test_a_single_growth_rate_is_a_range_without_width() -> None:
    """A single growth rate is a range of zero width."""
    assert campaign(growth_per_month=0.03).settings["question"]["growth_per_month"] == [0.03, 0.03]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"runtime": "process"}, "capacity needs the docker runtime"),
        ({"compression": "gzip"}, "compression gzip with compresses_to None; say both"),
        ({"compresses_to": "40%"}, "compression none with compresses_to 0.4; say both"),
        ({"brokers": 2}, "replication_factor 3 is above the 2 brokers"),
        ({"held_out": [[2, 30]]}, "2 MB/s for 30 s, which lies inside the grid"),
        ({"grid": {"write_mb_per_s": [1, 2], "down_s": [5, 30]}}, "greater than or equal to 12"),
        ({"racks": 2}, "racks 2 is below replication_factor 3, so one rack away takes more than one replica"),
        ({"racks": 3, "brokers": 7}, "brokers 7 is no multiple of racks 3; each rack must have as many brokers"),
        ({"racks": 1}, "greater than or equal to 2"),
        ({"disk_gb": 0}, "greater than 0"),
        ({"old_reads_share": "120%"}, "question.old_reads_share"),
        ({"partitions": [100]}, "[100] is no curve; give two different numbers"),
        ({"partitions": [100, 100]}, "[100, 100] is no curve"),
        ({"growth_per_month": [0.04, 0.02]}, "0.04 to 0.02 is no growth; give a number such as 0.03, or"),
        ({"growth_per_month": "3%"}, "'3%' is no growth; give a number such as 0.03, or two: [least, most]"),
        ({"growth_per_month": [0.01, 0.02, 0.03]}, "[0.01, 0.02, 0.03] is no growth; give a number such as 0.03, or"),
        ({"load_steps": [1, 2]}, "at least 3 items"),
        ({"target_p99_ms": 0}, "greater than 0"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_one_sentence(changes: dict[str, Any], words: str) -> None:
    """Invalid settings are rejected in one sentence that starts with the error."""
    refusal = _refusal(**changes)

    assert refusal.startswith("Capacity plan: the settings are wrong: ")
    assert words in refusal


def test_a_question_without_a_target_is_refused() -> None:
    """A missing or unknown field of the question is named."""
    told = settings()
    del told["question"]["target_p99_ms"]
    with pytest.raises(BadInput, match=r"question\.target_p99_ms is missing"):
        plan(told, campaign_id="plan-1", created_at="2026-11-21", seed=7)
    told = settings()
    told["question"]["colour"] = "blue"
    with pytest.raises(BadInput, match=r"question\.colour is unknown"):
        plan(told, campaign_id="plan-1", created_at="2026-11-21", seed=7)


# --- the result --------------------------------------------------------------------------------------


def test_nothing_measured_is_unknown_and_says_what_is_missing() -> None:
    """Without measurements the result is unknown and lists what is missing."""
    found = result(usual(), [])

    assert (found["state"], found["plan"], found["recommendation"]["verdict"]) == ("unknown", None, "unknown")
    assert found["sentence"].startswith("No plan yet for 3 MB/s on 3 brokers: no healthy load step")
    assert len(found["missing"]) == 3


def test_rows_of_other_campaigns_do_not_count() -> None:
    """Rows of other campaigns in the archive do not count."""
    others = [{**row, "labels": {**row["labels"], "campaign": "plan-2"}} for row in archive(usual())]

    assert result(usual(), others)["runs"]["count"] == 0


ENOUGH = campaign(brokers=6)
HELD_OUT = "held_out"


@pytest.mark.parametrize(
    ("change", "state", "why"),
    [
        (lambda item, row: row, "pass", None),
        (lambda item, row: None if item.name == "knee-1" else row, "unknown", "1 of 18 runs are missing"),
        (lambda item, row: {**row, "host": item.name[:4]}, "unknown", "the runs come from 4 hosts"),
        (
            lambda item, row: {**row, "value": 2 * row["value"]} if item.labels["role"] == HELD_OUT else row,
            "unknown",
            "only 0 of 3 held-out runs lie inside their prediction interval",
        ),
        (
            lambda item, row: {**row, "trusted": False, "note": "steal"} if item.labels["role"] == HELD_OUT else row,
            "unknown",
            "no held-out run tested the catch-up model",
        ),
    ],
    ids=["whole", "missing", "hosts", "wrong", "untried"],
)
def test_enough_brokers_are_a_pass_only_where_the_plan_is_sound(change: Any, state: str, why: str | None) -> None:
    """Enough brokers pass only if the plan is sound: all runs, one host, and a model that was tested and held."""
    rows = [kept for row in archive(ENOUGH) if (kept := change(item_of(ENOUGH, row), row)) is not None]
    found = result(ENOUGH, rows)

    assert (found["recommendation"]["verdict"], found["state"]) == ("over", state)
    assert found["unsure"] == ([why] if why else [])
    assert len(outcomes_of(CapacityResult.model_validate(found))) == len(found["unsure"])
    assert found["sentence"].startswith(f"Not sure, as {why}: 6 brokers carry" if why else "6 brokers carry")


def test_too_few_brokers_are_a_failure_whatever_is_missing() -> None:
    """Too few brokers fail, whatever is missing."""
    found = result(usual(), [row for row in archive(usual()) if row["labels"]["item"] != "knee-1"])

    assert (found["state"], found["unsure"]) == ("fail", ["1 of 18 runs are missing"])


def test_the_result_is_json_without_infinities() -> None:
    """The JSON has null instead of infinity."""
    assert json.loads(json.dumps(told(), allow_nan=False))["sentence"] == told()["sentence"]


# --- on a cluster of others ------------------------------------------------------------------------------


def _on_cluster(**changes: Any) -> dict[str, Any]:
    told = settings(kafka=None, resource_limits=None)
    told["measurement"] |= {"cluster": "/c/staging.yaml", **changes}
    return told


def test_a_cluster_of_others_is_measured_as_it_is() -> None:
    """As many of its brokers as replicas; nobody sets their flags and limits."""
    planned = plan(_on_cluster(), campaign_id="plan-1", created_at="2026-11-21T10:00:00+00:00", seed=7)

    assert {(item.kafka, item.cluster) for item in planned.items} == {("", "/c/staging.yaml")}
    assert {json.dumps(item.changes["cluster"]) for item in planned.items} == {'{"brokers": 3}'}
    found = result(planned, [row | {"cluster": "abc", "jvm": ""} for row in archive(planned)])
    assert found["runs"]["kafka"] == ["cluster abc"]
    assert found["limits"][0].startswith("The runs used as many brokers of the cluster as a partition has replicas")
    doubt = "others wrote an unknown number of records/s to the cluster meanwhile; their load is part of each figure"
    assert doubt in found["recommendation"]["doubts"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"kafka": "3.9.1"}, "name either kafka"),
        ({"resource_limits": {"cpus": 1}}, "not set on your own cluster"),
    ],
)
def test_a_cluster_of_others_has_no_version_and_no_limits(changes: dict[str, Any], sentence: str) -> None:
    """Both would be ignored."""
    with pytest.raises(BadInput, match=sentence):
        plan(_on_cluster(**changes), campaign_id="plan-1", created_at="2026-11-21T10:00:00+00:00", seed=7)


@pytest.mark.parametrize(("note", "points"), [("at most: no history", 12), ("the host was busy", 0)])
def test_times_of_a_cluster_of_others_are_upper_bounds(note: str, points: int) -> None:
    """They are used there, unless the host disturbed the run."""
    planned = plan(_on_cluster(), campaign_id="plan-1", created_at="2026-11-21T10:00:00+00:00", seed=7)
    rows = [
        row | ({"trusted": False, "note": note} if row["metric"] == "catch_up_s" else {}) for row in archive(planned)
    ]
    assert len(result(planned, rows)["catch_up"]["points"]) == points
    of_versions = [row | {"trusted": False, "note": note} for row in archive(usual()) if row["metric"] == "catch_up_s"]
    assert result(usual(), of_versions)["catch_up"]["points"] == []
