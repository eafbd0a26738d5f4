"""Samples of usage, on a fake world."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from clusters.clients import usage
from clusters.clients.usage import carry_usage, record_usage
from clusters.runtimes import counters
from clusters.scenario.scenario import Cluster
from history.tables import USAGE
from tests.clusters.fakes import FakeWorld, scenario


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Three brokers, one with usage, and a host."""
    monkeypatch.setattr(counters, "of_host", lambda: {"busy_ns": 9.0})
    played: Any = FakeWorld(tmp_path, scenario([{"hold": "1s"}]))
    played.runtime.used = {"broker-1": {"cpu_ns": 5.0, "memory_peak_bytes": 70.0, "network_in_bytes": 3.0}}
    return played


def values(world: Any, label: str) -> dict[tuple[str, str], float]:
    """Return the values recorded under a label, by source and name."""
    rows = pq.read_table(world.folder.table("usage"), schema=USAGE).to_pylist()
    return {(row["source"], row["name"]): row["value"] for row in rows if row["label"] == label}


def test_a_boundary_has_a_row_per_counter(world: Any) -> None:
    """A boundary has a row per counter of each running node and of the host."""
    record_usage(world, "steady: start")

    assert values(world, "steady: start") == {
        ("broker-1", "cpu_ns"): 5,
        ("broker-1", "memory_peak_bytes"): 70,
        ("broker-1", "network_in_bytes"): 3,
        ("host", "busy_ns"): 9,
    }


def test_what_all_clients_use_is_no_other_s(world: Any) -> None:
    """Running clients are sampled like brokers, including copier and group members; others have no row."""
    world.replan(scenario=scenario([{"hold": "1s"}], load={"topic": "orders", "group": {"members": 1}}))
    world.runtime.states |= {"member-1": "running", "copier": "running"}
    world.runtime.used |= {"member-1": {"cpu_ns": 4.0}, "copier": {"cpu_ns": 2.0}, "drain": {"cpu_ns": 1.0}}
    record_usage(world, "after")

    sources = {source for source, _ in values(world, "after")}
    assert sources == {"broker-1", "member-1", "copier", "host"}


def test_counters_go_on_in_a_brokers_next_process(world: Any) -> None:
    """Process counters add up over a broker's restarts; network counters continue, and a peak stays a peak."""
    for _ in range(2):
        carry_usage(world, [world.servers.brokers[1]])
    record_usage(world, "after")

    assert values(world, "after") == {
        ("broker-1", "cpu_ns"): 15,
        ("broker-1", "memory_peak_bytes"): 70,
        ("broker-1", "network_in_bytes"): 3,
        ("host", "busy_ns"): 9,
    }


def test_brokers_that_tell_of_themselves_are_asked(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With metrics, running brokers are scraped, and their counters are carried over restarts too."""
    monkeypatch.setattr(usage, "scrape", lambda address: {"gc_ms": 4.0, "under_replicated_partitions": 1.0})
    world.replan(scenario=world.scenario.model_copy(update={"cluster": Cluster(brokers=3, metrics=True)}))
    world.runtime.used["controller"] = {"cpu_ns": 1.0}
    world.runtime.states["controller"] = "running"
    carry_usage(world, [world.servers.brokers[1]])
    record_usage(world, "after")

    found = values(world, "after")
    assert (found["broker-1", "gc_ms"], found["broker-1", "under_replicated_partitions"]) == (8, 1)
    assert [source for source, name in found if name == "gc_ms"] == ["broker-1"]


def test_a_broker_that_does_not_answer_keeps_what_was_carried(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a broker's agent did not answer before a restart, only the agent's counters lack that part."""
    told = iter([{"gc_ms": 4.0}, {}, {"gc_ms": 1.0}])
    monkeypatch.setattr(usage, "scrape", lambda _: next(told))
    world.replan(scenario=world.scenario.model_copy(update={"cluster": Cluster(brokers=3, metrics=True)}))
    for _ in range(2):
        carry_usage(world, [world.servers.brokers[1]])
    record_usage(world, "after")

    found = values(world, "after")
    assert (found["broker-1", "gc_ms"], found["broker-1", "cpu_ns"]) == (5, 15)


def test_a_broker_that_is_down_has_no_rows(world: Any) -> None:
    """A broker that is down has no rows."""
    carry_usage(world, [world.servers.brokers[1]])
    world.runtime.kill("broker-1", "SIGKILL")
    record_usage(world, "kill")

    assert values(world, "kill") == {("host", "busy_ns"): 9}


def test_two_boundaries_of_one_name_are_kept_apart(world: Any) -> None:
    """Labels that differ only in punctuation, and repeated labels, are kept apart."""
    for label in ("a b", "a-b", "a b"):
        record_usage(world, label)

    assert len(list(world.folder.table("usage").iterdir())) == 3
    assert len(pq.read_table(world.folder.table("usage")).to_pylist()) == 12
