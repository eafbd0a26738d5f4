"""Hooks cut brokers that the product did not start from each other, in their network namespaces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from history.events import Event, read_events
from history.folder import RunFolder
from history.kafka_versions import DEFAULT_RELEASE
from tests.own_containers import ContainerCluster, container_cluster
from tests.own_runs import hooks_of, recorded, scenario, verdict_of

pytestmark = [pytest.mark.cluster, pytest.mark.docker]

LIE = {"run": ["true"]}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainerCluster]:
    """Three brokers on a bridge, each in a network namespace of its own."""
    with container_cluster(tmp_path_factory.mktemp("own"), DEFAULT_RELEASE) as started:
        yield started


def file(cluster: ContainerCluster, folder: Path, **hooks: Any) -> Path:
    """Write a cluster file whose hooks set routes, with others in place of some."""
    path = folder / "mine.yaml"
    described = {"bootstrap": cluster.bootstrap, "hooks": cluster.hooks() | hooks, "allow": ["disconnect"]}
    path.write_text(yaml.safe_dump(described))
    return path


def cut(folder: Path, peers: Sequence[str], shown_by: dict[str, str], limit: str = "60s") -> Path:
    """Write a scenario that cuts broker A, the leader, from its peers until a condition shows it.

    ``limit`` is that of the wait for a full ISR afterwards.
    """
    between = {"node": "A", "from": list(peers)}
    return scenario(
        folder,
        {"disconnect": between},
        {"wait": {"for": shown_by, "limit": "20s"}},
        {"reconnect": between},
        {"wait": {"for": {"isr_full": "orders"}, "limit": limit}},
    )


def observed(run: RunFolder, kind: str) -> list[Event]:
    """Return the events of what observers saw of the disconnect."""
    return [event for event in read_events(run.events) if (event.kind, event.step) == (kind, "disconnect")]


@pytest.mark.parametrize(
    ("peers", "shown_by"), [(["B"], {"out_of_isr": "B"}), (["B", "C"], {"leader_changed": "orders"})]
)
def test_a_leader_is_cut_from_its_followers_and_the_run_passes(
    cluster: ContainerCluster, tmp_path: Path, peers: list[str], shown_by: dict[str, str]
) -> None:
    """From one, which leaves the ISR; from all and the controller, which has another one lead."""
    run, why = recorded(file(cluster, tmp_path), cut(tmp_path, peers, shown_by))
    verdict = verdict_of(run)
    assert (why, verdict["verdict"]) == ("", "pass"), verdict
    (injected,), (healed,) = observed(run, "injected"), observed(run, "healed")
    assert injected.detail["effect_verified"], injected.detail
    assert healed.detail["recovery_verified"], healed.detail
    assert [hook for hook, _ in hooks_of(run)] == ["disconnect"] * len(peers) + ["reconnect"] * len(peers)
    assert not any(event.kind == "wait_timed_out" for event in read_events(run.events))


def test_a_hook_that_cuts_nothing_ends_the_run(cluster: ContainerCluster, tmp_path: Path) -> None:
    """It exits with 0, and the ISR stays full."""
    _, why = recorded(file(cluster, tmp_path, disconnect=LIE), cut(tmp_path, ["B"], {"out_of_isr": "B"}))
    assert why == "HarnessError: The hook disconnect had no visible effect on broker-1; every broker answered."


def test_a_hook_that_heals_nothing_is_no_recovery(cluster: ContainerCluster, tmp_path: Path) -> None:
    """It exits with 0, and the follower stays outside of the ISR."""
    run, _ = recorded(file(cluster, tmp_path, reconnect=LIE), cut(tmp_path, ["B"], {"out_of_isr": "B"}, limit="1s"))
    cluster.reconnect(1, 2)
    (healed,) = observed(run, "healed")
    assert not healed.detail["recovery_verified"], healed.detail
