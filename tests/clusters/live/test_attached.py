"""The brokers of a cluster that somebody else runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters.attached.cluster_file import ClusterFile
from clusters.kafka.connection import Connection
from clusters.live import attached as module
from clusters.live import reports
from clusters.live.attached import EFFECT_S, RETURN_S, AttachedServers
from clusters.live.plan import AttachedBroker, AttachedCluster
from clusters.runtimes.nodes import Node
from history.events import EventLog, read_events
from history.folder import RunFolder
from tests.clusters.fakes import plan_of, scenario

HOOK = {"run": ["true", "{broker}"], "limit": "3s"}


@pytest.fixture
def silent() -> set[str]:
    """The brokers that do not answer."""
    return set()


@pytest.fixture
def servers(tmp_path: Path, silent: set[str], monkeypatch: pytest.MonkeyPatch) -> AttachedServers:
    """Three brokers with hooks that do nothing."""
    file = ClusterFile.model_validate({"bootstrap": ["b1:9092"], "hooks": {"kill": HOOK, "start": HOOK}})
    brokers = {number: AttachedBroker(host=f"b{number}", port=9092, rack=None, settings={}) for number in (1, 2, 3)}
    cluster = AttachedCluster(
        cluster_id="abc",
        scenario_digest="d",
        mode="kraft",
        id_prefix="plimsoll-5a3e-",
        brokers=brokers,
        description=file,
    )

    def answers(_: AttachedServers, node: Node) -> bool:
        return node.name not in silent

    monkeypatch.setattr(AttachedServers, "_answers", answers)
    return AttachedServers(cluster, RunFolder(tmp_path), EventLog(tmp_path / "events.jsonl"), None, 60.0)


def hooks(folder: Path) -> list[tuple[str, str]]:
    """Return the hooks that were run."""
    events = folder / "events.jsonl"
    found = read_events(events) if events.exists() else ()
    return [(event.detail["name"], event.target) for event in found if event.kind == "hook"]


def test_connections_have_the_prefix_of_the_cluster_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Those that look for a broker, and those of what is reported; on own clusters the name is the product's."""
    ids: list[str] = []

    def connection(_host: str, _port: int, _limit_s: float, client_id: str, **_: object) -> Connection:
        ids.append(client_id)
        return Connection("b", 1, 1.0)

    monkeypatch.setattr(Connection, "send", lambda *_: None)
    monkeypatch.setattr(module, "Connection", connection)
    monkeypatch.setattr(reports, "Connection", connection)
    description = ClusterFile.model_validate({"bootstrap": ["b1:9092"], "topics": {"prefix": "chaos."}})
    made = plan_of(scenario([{"hold": 1}]))
    cluster = AttachedCluster(
        cluster_id="abc",
        scenario_digest="d",
        mode="kraft",
        id_prefix="chaos.5a3e-",
        brokers={1: AttachedBroker(host="b1", port=9092)},
        description=description,
    )
    servers = AttachedServers(cluster, RunFolder(tmp_path), EventLog(tmp_path / "events.jsonl"), None, 60.0)
    servers.silent()
    for plan in (made.model_copy(update={"cluster": cluster}), made):
        reports.Reports(servers, plan, None).connect_client(1)
    assert ids == ["chaos.world", "chaos.world", "plimsoll-world"]


def test_an_effect_has_the_hooks_limit_and_a_return_more(servers: AttachedServers) -> None:
    """A resume without a hook has the time of a return."""
    assert servers.limit_s("kill") == 3 + EFFECT_S
    assert servers.limit_s("start") == 3 + RETURN_S
    assert servers.limit_s("resume") == RETURN_S


def test_brokers_that_a_hook_has_hit_by_mistake_are_healed(
    servers: AttachedServers, silent: set[str], tmp_path: Path
) -> None:
    """Not the one that it was run for, which the fault heals, nor one that answers."""
    silent.update({"broker-1", "broker-3"})
    assert [node.name for node in servers.heal_others("kill", [servers.brokers[1]])] == ["broker-1", "broker-3"]
    assert hooks(tmp_path) == [("start", "broker-3")]
    assert [node.name for node in servers.heal_others("pause", [])] == ["broker-1", "broker-3"]  # no hook resumes them
    assert hooks(tmp_path) == [("start", "broker-3")]


def test_silent_brokers_are_started_once(
    servers: AttachedServers, silent: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was started a moment ago is not started again."""
    monkeypatch.setattr("clusters.live.attached.EFFECT_S", 0.0)
    silent.update({"broker-1", "broker-2"})
    assert [node.name for node in servers.start_silent({"broker-1"})] == ["broker-2"]
    assert hooks(tmp_path) == [("start", "broker-2")]
    assert [node.name for node in servers.stay_silent(0)] == ["broker-1", "broker-2"]
    silent.clear()
    assert servers.stay_silent(0) == []
    assert list(servers.start_silent(())) == []
