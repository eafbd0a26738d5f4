"""The runs of a comparison and their order."""

import json
import re
import shlex
from pathlib import Path

import pytest
import typer
import yaml

from campaigns.compare import KIND, rate
from campaigns.compare import items as planned
from campaigns.compare.campaign import follow_up, plan, result
from campaigns.compare.items import combined
from campaigns.compare.question import Settings
from clusters.paths import ROOT
from clusters.scenario.scenario import load_scenario
from commands.app import app
from history.errors import BadInput
from history.kafka_versions import Version
from reports.compare_page import render
from tests.campaigns.comparison import P99, run_rows

WHEN = {"campaign_id": "c1", "created_at": "2026-11-01T08:00:00Z", "seed": 7}
ASKED = {"base": "3.9.0", "head": "3.9.1", "scenarios": "steady", "pairs": 4, "aa_pairs": 2, "view": "same_settings"}


def made(**more):
    """Return the plan for these settings."""
    return plan({**ASKED, **more}, **WHEN)


def test_base_runs_against_itself_first_and_then_head_in_abba_order():
    """Calibration pairs (base with base) come first, then pairs in ABBA order."""
    items = made().items
    parts = [item.labels["part"] for item in items]
    first = [item.labels["role"] for item in items if item.labels["order"] == "1"]

    assert parts == ["calibration"] * 4 + ["comparison"] * 8
    assert first[:2] in (["base", "base2"], ["base2", "base"])
    assert first[2:] in (["base", "head"] * 2, ["head", "base"] * 2)
    assert [item.labels["pair"] for item in items] == ["1", "1", "2", "2", "1", "1", "2", "2", "3", "3", "4", "4"]
    assert len({item.name for item in items}) == 12


def test_who_begins_is_up_to_the_seed():
    """The seed decides which side begins, and the same seed gives the same plan."""
    plans = [plan(ASKED, **{**WHEN, "seed": seed}) for seed in range(6)]

    assert plans[3] == plan(ASKED, **{**WHEN, "seed": 3})
    assert {found.items[4].labels["role"] for found in plans} == {"base", "head"}


def test_both_runs_of_a_pair_aim_at_the_same_targets():
    """Both runs of a pair have the same seed; pairs have different ones."""
    seeds = [item.seed for item in made().items]

    assert seeds[::2] == seeds[1::2]
    assert len(set(seeds)) == 6


def test_every_run_has_the_stock_jvm_and_records_why():
    """All runs have the production JVM, metrics and resource limits; base2 is a copy of base."""
    found = made(head={"kafka": "3.9.1", "changes": {"load": {"rate": 200}}}, changes={"load": {"record_bytes": 200}})
    by_role = {item.labels["role"]: item for item in found.items}
    usual = {"jvm": "production", "metrics": True, "resource_limits": {"cpus": 1.0}}

    assert by_role["base"].changes == by_role["base2"].changes == {"cluster": usual, "load": {"record_bytes": 200}}
    assert by_role["head"].changes == {"cluster": usual, "load": {"record_bytes": 200, "rate": 200}}
    assert (by_role["base2"].kafka, by_role["head"].kafka) == ("3.9.0", "3.9.1")


def test_what_was_left_open_is_filled_in():
    """Defaults are filled in: names, and primary metrics of the longest phase without a fault."""
    found = made().settings

    assert (found["base"]["name"], found["head"]["name"]) == ("Kafka 3.9.0", "Kafka 3.9.1")
    assert found["primary"] == {
        "latency_p99_ms@steady": 0.10,
        "end_to_end_p99_ms@steady": 0.10,
        "broker_cpu_s_per_gb@steady": 0.05,
    }
    assert found["scenarios"] == ["steady"]
    assert found["phases"] == {"steady": ["steady"]}


def test_what_a_comparison_is_where_nothing_is_said():
    """Two versions are compared with default settings, one version with a change under the same settings."""
    two = plan({"base": "3.9.0", "head": "3.9.1"}, **WHEN).settings
    one = plan({"base": "3.9.0", "change": "load: {compression: zstd}"}, **WHEN).settings

    assert (two["scenarios"], two["view"], one["view"]) == (["benchmark"], "default_settings", "same_settings")
    assert [key.partition("@")[2] for key in two["primary"]] == ["measured"] * 3
    assert two["warm_ups"] == {"benchmark": ["warm up"]}
    named = made(scenarios=["benchmark"], primary={"latency_p99_ms@warm up": 0.1})
    assert named.settings["warm_ups"] == {"benchmark": []}


def test_recovery_is_primary_where_a_broker_is_away():
    """With a fault, the time until the ISR is full again is a primary metric per phase."""
    found = made(scenarios="failover").settings["primary"]

    assert {key: margin for key, margin in found.items() if key.startswith("catch_up_s")} == {
        "catch_up_s@follower pauses": 0.20,
        "catch_up_s@leader dies": 0.20,
    }


def test_matched_keeps_the_short_timers_and_shipped_drops_them():
    """``same_settings`` keeps the scenario's short timers, ``default_settings`` uses Kafka's and waits longer."""
    name = "follower_lag_then_leader_kill"
    same_settings, default_settings = (
        load_scenario(name, made(scenarios=name, view=view).items[-1].changes)
        for view in ("same_settings", "default_settings")
    )

    assert same_settings.cluster.config == {"replica.lag.time.max.ms": "4000"}
    assert default_settings.cluster.config == {
        "auto.leader.rebalance.enable": "true",
        "broker.heartbeat.interval.ms": "2000",
        "controlled.shutdown.retry.backoff.ms": "5000",
        "replica.high.watermark.checkpoint.interval.ms": "5000",
    }
    assert [phase.steps[-2].limit for phase in same_settings.phases[2:]] == [60]
    assert [phase.steps[-2].limit for phase in default_settings.phases[2:]] == [120]
    assert same_settings.topics == default_settings.topics


@pytest.mark.parametrize(("kafka", "own"), [("3.9.1", {"controlled.shutdown.retry.backoff.ms"}), ("4.4.0", set())])
def test_default_settings_are_those_of_the_version(kafka: str, own: set[str]):
    """A timer that only older versions have is set on these alone, since a run rejects unknown settings."""
    items = made(base=kafka, head=kafka, view="default_settings").items
    scenarios = [load_scenario(item.scenario, item.changes) for item in items]

    assert {scenario.unknown_setting([Version.parse(kafka)]) for scenario in scenarios} == {None}
    timers = {"auto.leader.rebalance.enable", "broker.heartbeat.interval.ms"}
    timers |= {"replica.high.watermark.checkpoint.interval.ms", *own}
    assert {frozenset(scenario.cluster.config) for scenario in scenarios} == {frozenset(timers)}


def test_each_side_is_shipped_with_the_timers_of_its_own_mode():
    """With default settings each side has the session time-out of its mode: 18 s with ZooKeeper, 9 s in KRaft."""
    found = made(base="2.8.2", scenarios="survived_faults", view="default_settings").items
    timeouts = {item.kafka: item.changes["cluster"]["session_timeout"] for item in found}

    assert timeouts == {"2.8.2": "18s", "3.9.1": "9s"}


def test_unfinalised_lets_head_alone_speak_as_base():
    """``unfinalised`` keeps head at base's metadata version or protocol; base is not changed."""
    for mode, base in (("kraft", "3.9.0"), ("zookeeper", "3.0.2")):
        changes = {"cluster": {"mode": mode}}
        found = made(base=base, head="3.9.1", view="unfinalised", changes=changes)
        told = {item.labels["role"]: load_scenario(item.scenario, item.changes).cluster for item in found.items}

        assert {role: cluster.metadata_version for role, cluster in told.items()} == {
            "base": None,
            "base2": None,
            "head": base[:3],
        }


def test_head_that_cannot_speak_as_base_is_refused():
    """``unfinalised`` is rejected if base's version is a KRaft preview."""
    with pytest.raises(BadInput, match=r"3\.0 is a preview of KRaft"):
        made(base="3.0.2", head={"kafka": "4.3.0"}, view="unfinalised")


def test_a_version_may_be_compared_with_itself():
    """A version can be compared with itself; the sides then have different names."""
    again = made(head="3.9.0").settings
    changed, many = (
        made(head={"kafka": "3.9.0", "changes": {"load": changes}}).settings
        for changes in ({"rate": 200}, {"rate": 200, "record_bytes": 200, "compression": "gzip"})
    )

    assert (again["base"]["name"], again["head"]["name"]) == ("Kafka 3.9.0", "Kafka 3.9.0, again")
    assert changed["head"]["name"] == "Kafka 3.9.0 with load.rate 200"
    assert many["head"]["name"] == "Kafka 3.9.0, changed"


def test_a_change_is_heads():
    """``change`` applies to head, on base's version if no head is given, in addition to head's own changes."""
    change = "load: {compression: zstd}"
    alone = plan({"base": "3.9.0", "change": change}, **WHEN).settings
    side = {"kafka": "3.9.1", "name": "mine", "changes": {"load": {"linger": "5ms"}}}
    beside = plan({"base": {"kafka": "3.9.0"}, "head": side, "change": change}, **WHEN).settings

    assert (alone["head"]["kafka"], alone["head"]["changes"]) == ("3.9.0", {"load": {"compression": "zstd"}})
    assert alone["head"]["name"] == "Kafka 3.9.0 with load.compression zstd"
    assert beside["head"] == side | {"cluster": "", "changes": {"load": {"linger": "5ms", "compression": "zstd"}}}


@pytest.mark.parametrize("own", ["build/kafka", "kafka-4.4.0.tgz", "image:kafka-trunk"])
def test_head_may_be_a_build_of_ones_own(own, monkeypatch):
    """Head can be a folder, an archive or an image, with the mode of the version that it reports."""
    monkeypatch.setattr(planned, "reported_version", lambda kafka: "4.4.0" if kafka == own else kafka)
    assert {item.kafka for item in made(head=own, view="default_settings").items} == {"3.9.0", own}


def test_a_slowdown_is_injected_into_head_alone():
    """An injected slowdown affects head only, and its metric is a primary one."""
    injected_slowdown = {
        "metric": "broker_cpu_s_per_gb@steady",
        "changes": {"cluster": {"resource_limits": {"cpus": 0.5}}},
        "words": "half a CPU",
    }
    found = made(head="3.9.0", injected_slowdown=injected_slowdown)
    cpus = {item.labels["role"]: item.changes["cluster"]["resource_limits"]["cpus"] for item in found.items}

    assert cpus == {"base": 1.0, "base2": 1.0, "head": 0.5}
    assert found.settings["head"]["name"] == "Kafka 3.9.0, injected slowdown: half a CPU"


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"scenarios": "no_such"}, "no scenario 'no_such'"),
        ({"pairs": 1}, "--pairs=1 is refused: one pair has no interval"),
        ({"colour": "red"}, "colour"),
        ({"head": "nonsense"}, "nonsense is not a version"),
        ({"base": {"kafka": "2.8.2", "changes": {"cluster": {"mode": "kraft"}}}}, "KRaft as a preview only"),
        ({"runtime": "process"}, "comparisons need the docker runtime"),
        ({"changes": {"cluster": {"jvm": "fast_start"}}}, "comparisons need jvm: production"),
        ({"change": "load: {compression"}, "--change=load: {compression is refused: it is no part of a scenario"),
        ({"change": "zstd"}, "--change=zstd is refused: it is no part of a scenario"),
        ({"primary": {"loss_ratio": 0.1}}, "primary names 'loss_ratio'"),
        ({"primary": {"gc_ms@steady": 0.1}}, "primary names 'gc_ms@steady'"),
        ({"primary": {"latency_p99_ms@storm": 0.1}}, "no phase 'storm', known: steady"),
        (
            {"primary": {"latency_p99_ms": 0.1}},
            "'latency_p99_ms'; latency_p99_ms is measured in each phase; name one of",
        ),
        ({"primary": {"broker_memory_peak_mb@steady": 0.1}}, "is measured over the whole run; name no phase"),
        ({"primary": {"latency_p99_ms@steady": 5}}, "is a share such as 0.05"),
        ({"injected_slowdown": {"metric": "elect_s", "changes": {}, "words": "x"}}, "injected slowdown is 'elect_s'"),
        ({"changes": {"load": {"rate": "fast"}}}, "not a rate such as 1000/s"),
        ({"of_knee": "1.5"}, "--of-knee=1.5 is refused"),
        ({"of_knee": 0.5, "changes": {"load": {"rate": "9/s"}}}, "of_knee finds the rate, and load.rate names one"),
        ({"of_knee": 0.5, "scenarios": "steady,failover"}, "of_knee finds the rate of one load"),
        ({"of_knee": 0.5, "scenarios": "several_producers"}, "of_knee finds the rate of one load"),
    ],
)
def test_what_cannot_be_compared_is_refused(wrong, why):
    """Invalid settings are rejected in one sentence before anything starts."""
    assert made().items
    with pytest.raises(BadInput, match=why):
        made(**wrong)


def test_nothing_follows_up():
    """Results add no runs to the plan, which would invalidate the intervals."""
    assert follow_up(made(), []) == []


def knee_rows(found, *values, **about):
    """Return the rows of the runs with rising rates: base's, then head's."""
    rising = [item for item in found.items if item.labels["part"] == rate.PART]
    return [
        row
        for item, value in zip(rising, values, strict=False)
        for row in run_rows(item, {(rate.METRIC, ""): value}, scenario_digest="rising", **about)
    ]


def test_the_rate_is_measured_first_and_then_all_pairs_are_fixed():
    """With ``of_knee`` the sustainable rate of each side is measured first; pairs run at a share of the lower one."""
    found, usual = made(of_knee=0.5), made()
    told = load_scenario("steady", found.items[0].changes)
    pairs = follow_up(found, knee_rows(found, 2468.4, 3000.0))

    assert [(item.kafka, item.labels["role"]) for item in found.items] == [("3.9.0", "base"), ("3.9.1", "head")]
    assert [phase.name for phase in told.phases][:2] == ["warm up", "0.5 MB/s"]
    assert [step.rate for phase in told.phases for step in phase.steps if step.key == "set_rate"][-1] == 320_000
    assert follow_up(found, []) == follow_up(found, knee_rows(found, 2468.4)) == []
    assert [item.name for item in pairs] == [item.name for item in usual.items]
    assert {item.changes["load"]["rate"] for item in pairs} == {"1234/s"}
    assert pairs == follow_up(found, knee_rows(found, 2468.4, 3000.0) + run_rows(pairs[0], {P99: 5.0}))
    assert [item.labels["role"] for item in made(of_knee=0.5, pairs=0).items] == ["base"]


def test_the_runs_of_rising_rates_are_in_no_pair():
    """Runs with rising rates are in no pair, and the result shows the rates."""
    found = made(of_knee=0.5)
    rows = knee_rows(found, 2468.4, 3000.0)
    of_pairs = [row for item in follow_up(found, rows) for row in run_rows(item, {P99: 5.0})]
    told = result(found, rows + of_pairs)
    shown = "1,234 records/s, 50 % of what is sustained here: base 2,468/s, head 3,000/s"

    assert (told.runs.recorded, told.runs.planned, told.refusals) == (12, 12, [])
    assert shown in render(told, {})
    assert "base at least 2,468/s" in render(result(found, knee_rows(found, 2468.4, 3000.0, censored=True)), {})


def test_a_side_that_did_not_run_has_no_mode_to_differ_in():
    """A calibration runs base only, so it does not report different modes."""
    found = made(pairs=0)
    told = result(found, [row for item in found.items for row in run_rows(item, {P99: 5.0})])

    assert told.sides.head.mode == ""
    assert "One side runs with ZooKeeper" not in render(told, {})
    zookeeper = told.sides.model_copy(update={"head": told.sides.head.model_copy(update={"mode": "ZooKeeper"})})
    assert "One side runs with ZooKeeper" in render(told.model_copy(update={"sides": zookeeper}), {})


def test_without_a_rate_nothing_is_compared():
    """If no sustainable rate was found, nothing is compared, and the sentence has the reason."""
    found = made(of_knee=0.5)
    without = knee_rows(found, 2468.4, None, note="p99 is above 1000 ms at every rate that was offered")
    told = result(found, without)

    assert follow_up(found, without) == []
    assert told.sentence == (
        "Kafka 3.9.1 is not compared with Kafka 3.9.0: the rate that both sides sustain is not known, so that nothing "
        "else was run: head: p99 is above 1000 ms at every rate that was offered."
    )
    assert told.state == "unknown"
    assert result(found, []).refusals == []


@pytest.mark.parametrize(
    ("first", "then", "both"),
    [
        ({"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"b": 1, "c": 2}}),
        ({"a": {"b": 1}}, {"a": {"b": None}}, {"a": {"b": None}}),  # the file may have b, too
        ({"a": None}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ({"a": {"b": 1}}, {"a": 2}, {"a": 2}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
    ],
)
def test_two_patches_become_one(first, then, both):
    """Of two patches the later one wins key by key, and null is kept."""
    assert combined(first, then) == both


EXAMPLES = re.findall(r"`(\./plimsoll compare [^`]+)`", (ROOT / "docs" / "examples" / "comparisons.md").read_text())


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_of_the_docs_can_be_compared(example, monkeypatch):
    """The command line accepts each example and plans it; no example occurs twice, and nothing is started."""
    own = "../kafka/build/dist"
    monkeypatch.setattr(planned, "reported_version", lambda kafka: "4.4.0" if kafka == own else kafka)
    command = typer.main.get_command(app).commands["compare"]
    options = command.make_context("compare", shlex.split(example)[2:]).params
    found = plan(KIND.settings(options, file=options["settings"]), **WHEN)
    items = [*found.items, *follow_up(found, knee_rows(found, 1000.0, 1000.0))]

    assert {item.labels["role"] for item in items} == {"base", "base2", "head"}
    assert EXAMPLES.count(example) == 1


def test_the_examples_cover_everything_that_can_be_compared():
    """Versions, builds, configurations, JVMs and their flags, clients, compression."""
    table = " ".join(EXAMPLES)

    broker = ("--base 3.9.1 --head", "build/dist", "config:", "java:", "jvm_flags:")
    for what in (*broker, "engine:", "compression:", "--of-knee"):
        assert what in table


def test_the_example_of_the_page_is_a_comparison():
    """The example in docs/comparison.md can be planned, and every settings field is explained there."""
    page = (ROOT / "docs" / "comparison.md").read_text()
    (example,) = re.findall(r"^```yaml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    table = " ".join(re.findall(r"^\| (`.*?) \|", page, re.MULTILINE))

    assert len(plan(yaml.safe_load(example), **WHEN).items) == 2 * 2 * (5 + 10)
    assert [name for name in Settings.model_fields if f"`{name}`" not in table] == []


# --- clusters of others ----------------------------------------------------------------------------


def test_two_clusters_of_others_are_compared_as_they_are():
    """No setting of a broker is changed, and the CPU that nobody counts decides nothing."""
    found = made(base="a/staging.yaml", head="connection:canary", view=None, changes={"load": {"record_bytes": 200}})
    places = {(item.labels["role"], item.kafka, item.cluster) for item in found.items}

    assert places == {(role, "", str(Path.cwd() / "a/staging.yaml")) for role in ("base", "base2")} | {
        ("head", "", "canary")
    }
    assert {json.dumps(item.changes) for item in found.items} == {'{"load": {"record_bytes": 200}}'}
    assert [found.settings[side]["name"] for side in ("base", "head")] == ["staging", "canary"]
    assert (found.settings["view"], sorted(found.settings["primary"])) == (
        "same_settings",
        ["end_to_end_p99_ms@steady", "latency_p99_ms@steady"],
    )
    away = made(base="a.yaml", head="b.yaml", view=None, scenarios="failover").settings["primary"]
    assert {key.partition("@")[0] for key in away} == {"end_to_end_p99_ms", "latency_p99_ms"}


def test_a_change_of_the_load_is_compared_on_one_cluster():
    """Without a head it is base's cluster; the name says what changed."""
    found = plan({"base": {"cluster": "/c/staging.yaml"}, "change": "load: {compression: zstd}"}, **WHEN)

    assert {item.cluster for item in found.items} == {"/c/staging.yaml"}
    assert found.settings["head"]["name"] == "staging with load.compression zstd"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"base": "mine.yaml"}, "compare two versions or two clusters"),
        ({"base": "a.yaml", "head": "b.yaml", "view": "default_settings"}, "which only a cluster's owner does"),
        ({"base": "a.yaml", "head": "b.yaml", "changes": {"cluster": {}}}, "only a cluster's owner changes brokers"),
        ({"base": {"kafka": "3.9.0", "cluster": "a.yaml"}}, "name either kafka, a version or build, or cluster"),
        ({"base": {"name": "mine"}}, "name either kafka, a version or build, or cluster"),
    ],
)
def test_what_clusters_of_others_cannot_show_is_refused(settings, sentence):
    """Two kinds of sides, and settings that nobody but the owner sets."""
    with pytest.raises(BadInput, match=sentence):
        made(**settings)
