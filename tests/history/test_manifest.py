"""The manifest."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from history.errors import EvidenceError
from history.manifest import ATTACHED, Incarnation, Manifest, read_manifest
from history.traits import Trait

SETTING = "min.insync.replicas"


def manifest(brokers: list[dict[str, str]], topic: dict[str, str]) -> Manifest:
    """Return a manifest with these broker and topic configurations, and a controller with another value."""
    nodes: list[dict[str, Any]] = [
        {"name": f"broker-{n}", "role": "broker", "address": f"127.0.0.{n}", "node_id": n, "config": config}
        for n, config in enumerate(brokers, start=1)
    ]
    nodes.append({"name": "controller", "role": "controller", "address": "127.0.0.9", "config": {SETTING: "9"}})
    fields: dict[str, Any] = {
        "run_id": "r",
        "scenario_name": "s",
        "scenario": {},
        "scenario_digest": "d",
        "faults": ["kill"],
        "traits": {"kill": ["stops_process", "unreachable"], "wipe": ["new_log"]},
        "kafka_version": "3.9.1",
        "kafka_jars_digest": "j",
        "mode": "kraft",
        "runtime": "process",
        "seed": 7,
        "started_at": "2026-01-01",
        "started_ns": 1,
        "boot_id": "b",
        "probe_hz": 20.0,
        "host": {"cores": 2},
        "nodes": nodes,
        "topics": {"orders": {"assignment": {0: [1, 2]}, "config": topic}},
        "producers": [],
    }
    return Manifest.model_validate(fields)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """A written manifest is read as equal; partition numbers remain numbers."""
    written = manifest([{}, {}], {})
    written.write(tmp_path / "manifest.json")

    assert written == read_manifest(tmp_path / "manifest.json")
    assert written.topics["orders"].assignment == {0: [1, 2]}


@pytest.mark.parametrize(
    ("scenario", "loads", "group"),
    [
        ({"load": {"topic": "orders"}}, ["producer"], None),
        ({"load": {"topic": "orders", "group": {"members": 2}}}, ["producer"], {"members": 2}),
        ({"load": None, "loads": {"a": {}, "b": {"group": {"members": 3}}}}, ["a", "b"], {"members": 3}),
        ({"load": None}, [], None),
        ({}, [], None),
    ],
)
def test_loads_have_names(scenario: dict[str, Any], loads: list[str], group: dict[str, Any] | None) -> None:
    """A single load is called producer in folders of any date; the group is that of the load that has one."""
    told = manifest([{}], {}).model_copy(update={"scenario": scenario})

    assert (list(told.loads), told.group) == (loads, group)


def test_an_earlier_manifest_is_read(tmp_path: Path) -> None:
    """An older manifest without labels is read as one with none."""
    earlier = json.loads(manifest([{}], {}).model_dump_json())
    del earlier["labels"]
    (tmp_path / "manifest.json").write_text(json.dumps(earlier))

    assert read_manifest(tmp_path / "manifest.json").labels == {}


@pytest.mark.parametrize(
    ("brokers", "topic", "effective"),
    [
        ([{}, {}], {}, "1"),
        ([{SETTING: "2"}, {SETTING: "2"}], {}, "2"),
        ([{SETTING: "2"}, {SETTING: "2"}], {SETTING: "3"}, "3"),
        ([{SETTING: "2"}, {SETTING: "3"}], {}, "1"),
    ],
)
def test_a_topic_setting_is_its_own_else_the_brokers(
    brokers: list[dict[str, str]], topic: dict[str, str], effective: str
) -> None:
    """A topic's setting comes from the topic, the brokers or Kafka's default; brokers that disagree do not count."""
    assert effective == manifest(brokers, topic).topic_setting("orders", SETTING, "1")


CHANGES = [
    {"configure": {"topic": "orders", "set": {SETTING: "1"}}},
    {"configure": {"topic": "sales", "set": {SETTING: "8"}}},
    {"configure": {"broker": "A", "set": {SETTING: "3", "other": "7"}}},
    {"hold": {"seconds": 1.0}},
]


def test_every_value_of_a_setting_that_a_step_changes_counts() -> None:
    """All values that steps assign to a setting of the topic or a broker count, not those of another topic."""
    told = manifest([{}], {SETTING: "2"})
    changed = told.model_copy(update={"scenario": {"phases": [{"one": CHANGES[:2]}, {"two": CHANGES[2:]}]}})

    assert [key for key, _ in changed.steps] == ["configure", "configure", "configure", "hold"]
    assert changed.topic_settings("orders", SETTING, "1") == {"1", "2", "3"}
    assert told.topic_settings("orders", SETTING, "1") == {"2"}


@pytest.mark.parametrize(
    ("broker", "name", "effective"),
    [
        ({"log.retention.ms": "5", "log.retention.hours": "168"}, "retention.ms", "5"),
        ({"log.retention.minutes": "2"}, "retention.ms", "120000"),
        ({"log.retention.hours": "-1"}, "retention.ms", "-1"),
        ({"log.retention.bytes": "7"}, "retention.bytes", "7"),
        ({"log.cleanup.policy": "compact"}, "cleanup.policy", "compact"),
        ({"log.retention.check.interval.ms": "5"}, "retention.ms", "none"),
        ({"retention.ms": "5"}, "retention.ms", "none"),
    ],
)
def test_brokers_name_some_settings_of_topics_otherwise(broker: dict[str, str], name: str, effective: str) -> None:
    """Brokers' names for topic settings count in configurations, in steps and in restarts."""
    told = manifest([{}], {})
    steps = [{"configure": {"broker": "A", "set": broker}}], [{"restart": {"node": "A", "with": broker}}]

    assert manifest([broker], {}).topic_setting("orders", name, "none") == effective
    for changes in steps:
        changed = told.model_copy(update={"scenario": {"phases": [{"one": changes}]}})
        assert changed.topic_settings("orders", name, "none") == {"none", effective}


def test_brokers_are_the_nodes_of_that_role() -> None:
    """Brokers are the nodes of that role, without the controller."""
    assert [node.name for node in manifest([{}, {}], {}).brokers] == ["broker-1", "broker-2"]


def test_a_folder_without_manifest_is_no_run(tmp_path: Path) -> None:
    """A folder without a manifest is no run, and the sentence names the folder."""
    with pytest.raises(EvidenceError, match=f"{tmp_path} is no run folder: manifest.json is missing"):
        read_manifest(tmp_path / "manifest.json")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"mode": "raft"}, "mode: Input should be 'kraft' or 'zookeeper'"),
        ({"colour": "red"}, "colour: Extra inputs are not permitted"),
        ({"seed": None}, "seed: Input should be a valid integer"),
    ],
)
def test_another_format_is_refused(tmp_path: Path, change: dict[str, object], said: str) -> None:
    """An invalid field is rejected with its name and valid values."""
    file = tmp_path / "manifest.json"
    file.write_text(json.dumps({**json.loads(manifest([{}], {}).model_dump_json()), **change}))

    with pytest.raises(EvidenceError, match=f"is no manifest of this format: {said}"):
        read_manifest(file)


def test_an_earlier_format_is_refused(tmp_path: Path) -> None:
    """An older format is rejected in one sentence with advice, even if later fields are missing."""
    earlier = {**json.loads(manifest([{}], {}).model_dump_json()), "format": 2}
    del earlier["traits"]
    (tmp_path / "manifest.json").write_text(json.dumps(earlier))

    said = f"{tmp_path} was recorded in format 2 and this version reads format 3; record it again."
    with pytest.raises(EvidenceError, match=f"^{re.escape(said)}$"):
        read_manifest(tmp_path / "manifest.json")


def test_a_step_has_the_traits_that_the_run_declared() -> None:
    """A step has a trait if the run declared any of the given ones; a step without declared traits has none."""
    written = manifest([{}], {})

    assert written.has("kill", Trait.NEW_LOG, Trait.UNREACHABLE)
    assert not written.has("kill", Trait.NEW_LOG)
    assert not written.has("hold", Trait.NEW_LOG)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe"])
def test_a_torn_manifest_is_refused(tmp_path: Path, content: bytes) -> None:
    """A torn or binary manifest is rejected."""
    (tmp_path / "manifest.json").write_bytes(content)

    with pytest.raises(EvidenceError, match="is no manifest of this format: the file: Invalid JSON"):
        read_manifest(tmp_path / "manifest.json")


def test_every_version_of_a_run_is_told_once() -> None:
    """Every Kafka version of a run is listed once, the initial one first."""
    told = manifest([{}], {})
    starts = [
        Incarnation(node="broker-1", incarnation=number, kafka_version=version, started_ns=number)
        for number, version in enumerate(("3.9.1", "4.0.1", "3.9.1", "4.0.1"), start=1)
    ]

    assert told.kafka_versions == ["3.9.1"]
    assert told.model_copy(update={"incarnations": starts}).kafka_versions == ["3.9.1", "4.0.1"]


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ({"origin": "attached", "evidence": ["sends"]}, ""),
        ({"origin": "attached"}, "names its evidence"),
        ({"evidence": ["sends"]}, "names its evidence"),
        ({"origin": "attached", "evidence": ["sends"], "mode": None}, "names its mode"),
    ],
)
def test_a_run_on_a_cluster_of_others_names_its_evidence(change: dict[str, Any], refused: str) -> None:
    """It also has a mode and a runtime; other runs' evidence follows from their origin."""
    fields = manifest([{}], {}).model_dump(mode="json") | change
    if refused:
        with pytest.raises(ValueError, match=refused):
            Manifest.model_validate(fields)
    else:
        assert Manifest.model_validate(fields).evidence == {"sends"}


@pytest.mark.parametrize(("version", "ends"), [("unknown", ["2.8.0", "4.4.0"]), ("3.9.1", ["3.9.1"])])
def test_an_unknown_version_may_be_any(version: str, ends: list[str]) -> None:
    """The oldest and the newest release count, since a rule must hold in both."""
    own = {"origin": "attached", "evidence": ATTACHED, "kafka_version": version}
    assert manifest([{}], {}).model_copy(update=own).kafka_versions == ends
