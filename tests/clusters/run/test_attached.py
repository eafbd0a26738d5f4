"""Runs on clusters that somebody else runs: what is refused, and what a crash leaves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters.attached import connection
from clusters.attached.cluster_file import ClusterFile, Described
from clusters.attached.discover import Broker, Discovered
from clusters.run import attached
from clusters.run.attached import OpenFault, open_faults, planned
from clusters.run.prepare import prepare
from clusters.runtimes.ports import Endpoint
from clusters.scenario.scenario import Scenario
from history.errors import BadInput
from history.events import Event

HOOK = {"run": ["true", "{broker}"]}


def document(*steps: dict[str, Any], replicas: int = 3) -> dict[str, Any]:
    """Return the content of a scenario of one topic with two partitions."""
    return {
        "name": "s",
        "why": "w",
        "cluster": {"brokers": 3},
        "topics": {"orders": {"replicas": ["A", "B", "C"][:replicas], "partitions": 2}},
        "load": {"topic": "orders", "rate": 100, "record_bytes": 1000},
        "phases": [{"one": list(steps) or [{"hold": "1s"}]}],
    }


def scenario(*steps: dict[str, Any], replicas: int = 3) -> Scenario:
    """Return that scenario."""
    return Scenario.model_validate(document(*steps, replicas=replicas))


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the ids of the cluster's brokers, all of which answer."""
    ids = [3, 1, 2]

    def discover(*_: object) -> Discovered:
        found = {number: Broker(number, Endpoint(f"b{number}", 9092)) for number in ids}
        return Discovered("abc", found, {}, mode="kraft")

    monkeypatch.setattr(attached, "discover", discover)
    return ids


def described(folder: Path, **entries: Any) -> Path:
    """Write a cluster file."""
    file = folder / "mine.yaml"
    file.write_text(yaml.safe_dump({"bootstrap": ["b1:9092"], **entries}))
    return file


def refusal(of: Scenario, file: Path | Described) -> str:
    """Return the sentence with which a plan is refused."""
    with pytest.raises(BadInput) as raised:
        planned(of, file)
    return str(raised.value).replace(str(file), "mine.yaml")


def test_a_plan_has_the_clusters_brokers_and_own_names(brokers: list[int], tmp_path: Path) -> None:
    """Names of topics and the prefix of ids share four digits."""
    own, cluster = planned(scenario(), described(tmp_path))
    (topic,) = own.topics
    token = topic.removeprefix("plimsoll-orders-")
    assert (len(token), cluster.id_prefix) == (4, f"plimsoll-{token}-")
    assert own.cluster.broker_ids == {"A": 1, "B": 2, "C": 3}
    assert (cluster.brokers[3].host, cluster.cluster_id, cluster.mode) == ("b3", "abc", "kraft")


def test_runs_of_a_scenario_have_its_digest(brokers: list[int], tmp_path: Path) -> None:
    """Own names of topics do not change it, another scenario does."""
    digests = [planned(each, described(tmp_path))[1].scenario_digest for each in (scenario(), scenario(replicas=2))]
    again, cluster = planned(scenario(), described(tmp_path))
    assert cluster.scenario_digest == digests[0] != digests[1]
    assert again.digest != cluster.scenario_digest


KILL = {"kill": "leader of orders-0"}
HOOKS = {"kill": HOOK, "start": HOOK}


@pytest.mark.parametrize(
    ("steps", "entries", "sentence"),
    [
        ([KILL], {"hooks": HOOKS}, "has the step kill; mine.yaml does not permit the fault kill: name it under allow."),
        ([KILL], {}, "has the step kill, which needs kill, start; add hooks.kill, hooks.start to mine.yaml."),
        (
            [{"lag": {"node": "follower of orders-0", "records": 100}}],
            {"hooks": HOOKS},
            "has the step lag, which needs files, pause; no hook provides that.",
        ),
        (
            [{"restart": {"node": "B", "with": {"num.io.threads": 2}}}],
            {"hooks": {**HOOKS, "stop": HOOK}, "allow": ["stop"]},
            "has the step restart, which needs settings; no hook provides that.",
        ),
        (
            [],
            {"caps": {"partitions": 1}},
            "exceeds what mine.yaml permits: its 2 partitions are above caps.partitions of 1.",
        ),
        ([], {"addresses": {1: "127.0.0.1:19092"}}, "mine.yaml: addresses are for plimsoll watch"),
    ],
)
def test_a_run_that_may_not_be_is_refused(
    steps: list[dict[str, Any]], entries: dict[str, Any], sentence: str, brokers: list[int], tmp_path: Path
) -> None:
    """One sentence says what to change in which file."""
    assert sentence in refusal(scenario(*steps), described(tmp_path, **entries))


def test_what_is_allowed_is_planned(brokers: list[int], tmp_path: Path) -> None:
    """The near misses of the refusals above."""
    file = described(tmp_path, hooks={**HOOKS, "stop": HOOK}, allow=["kill", "stop"], caps={"partitions": 2})
    own, _ = planned(scenario(KILL, {"start": "leader of orders-0"}, {"restart": "B"}), file)
    assert [step.key for step in own.steps] == ["kill", "start", "restart"]


def test_a_connection_s_secret_is_only_in_its_own_file(brokers: list[int], tmp_path: Path) -> None:
    """The run's folder has it in ``work/``, which is not sealed, and the refusals name the connection."""
    extra = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    staging = connection.described("staging", extra, "b1:9092", "ann", "planted")
    assert "exceeds what connection staging/extra permits" in refusal(
        scenario(), replace(staging, cluster=ClusterFile(bootstrap=["b1:9092"], caps={"partitions": 1}))
    )

    run = prepare(document(), kafka="", runs=tmp_path, cluster=staging)
    holding = [file for file in run.rglob("*") if file.is_file() and b"planted" in file.read_bytes()]
    assert holding == [run / "work" / "security" / "client.properties"]


def test_too_few_brokers_are_refused(brokers: list[int], tmp_path: Path) -> None:
    """Two brokers do for two replicas."""
    brokers.remove(3)
    sentence = refusal(scenario(), described(tmp_path))
    assert "does not fit the cluster of 2 brokers: topic plimsoll-orders-" in sentence
    assert planned(scenario(replicas=2), described(tmp_path))


def hook(name: str, broker: int, **values: str) -> Event:
    """Return the event of a hook."""
    return Event(t_ns=1, wall="", kind="hook", target=f"broker-{broker}", detail={"name": name, "values": values})


def test_what_hooks_left_active() -> None:
    """Each begun fault without the hook that ends it on the same broker and peer, the latest first."""
    events = [
        hook("kill", 1, host="b1", seconds="60"),
        hook("kill", 2),
        hook("start", 1),
        hook("disconnect", 3, peer="1"),
        hook("disconnect", 3, peer="2"),
        hook("reconnect", 3, peer="1"),
        hook("logs", 2),
        Event(t_ns=1, wall="", kind="hook_ended", target="broker-2", detail={"name": "kill"}),
    ]
    assert open_faults(events) == [
        OpenFault("reconnect", "broker-3", (("peer", "2"),)),
        OpenFault("start", "broker-2", ()),
    ]
    assert open_faults([*events, hook("start", 2), hook("reconnect", 3, peer="2")]) == []
