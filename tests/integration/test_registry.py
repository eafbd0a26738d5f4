"""The registry of own topics and the deletion by id, on brokers."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from clusters.attached.neighbours import Neighbours
from clusters.attached.registry import Owner, Registry
from clusters.kafka.admin import delete_topic
from clusters.kafka.connection import Connection
from clusters.kafka.views import topic_ids
from clusters.waiting import wait_until
from history.errors import BadInput, HarnessError
from history.kafka_versions import DEFAULT_RELEASE
from tests.own_cluster import OwnCluster, own_cluster

pytestmark = pytest.mark.cluster

NAME = "plimsoll-orders-5a3e"
RUN = Owner(run="20261129-1-steady", host="laptop", boot_id="b00")


def connect_to(cluster: OwnCluster) -> Callable[[int], Connection]:
    """Return what opens a connection to a broker, whose only broker is its controller."""
    return lambda broker: Connection("localhost", cluster.ports[broker], 10.0, forwards_to_controller=True)


def id_of(cluster: OwnCluster, name: str) -> str | None:
    """Return a topic's id, None if there is no such topic."""
    with connect_to(cluster)(1) as connection:
        return topic_ids(connection, [name]).get(name)


def delete(cluster: OwnCluster, topic_id: str) -> bool:
    """Delete the topic with an id."""
    with connect_to(cluster)(1) as connection:
        return delete_topic(connection, NAME, topic_id)


def restart(cluster: OwnCluster, **settings: str) -> None:
    """Stop the broker, and start it with other settings."""
    cluster.send(1, signal.SIGTERM)  # ZooKeeper would still know it after a kill
    cluster.processes[1].wait(60)
    cluster.extra = {name.replace("_", "."): value for name, value in settings.items()}
    cluster.start_broker(1)
    cluster.wait_for_all()


def created(cluster: OwnCluster) -> str:
    """Create the topic, and return its id."""
    cluster.create_topic(NAME)
    return wait_until(lambda: id_of(cluster, NAME), limit_s=30, what=f"the id of {NAME}")


def check_own_topics(cluster: OwnCluster) -> None:
    """Register, make anew, delete, and fail to delete a topic."""
    registry = Registry(connect_to(cluster), cluster.ports, "plimsoll-")
    registry.ensure()
    registry.intend(NAME, RUN)
    first = created(cluster)
    with pytest.raises(HarnessError, match="none is registered"):
        registry.check([NAME])
    registry.register(NAME, first)
    registry.check([NAME])

    assert delete(cluster, first)
    wait_until(lambda: id_of(cluster, NAME) is None, limit_s=30, what=f"the end of {NAME}")
    second = created(cluster)
    with pytest.raises(HarnessError, match=f"has id {second}, but {first} is registered"):
        registry.check([NAME])
    assert delete(cluster, first)  # it is gone; what has its name now stays
    assert id_of(cluster, NAME) == second

    restart(cluster, delete_topic_enable="false")
    registry.ensure()
    assert registry.entries()[NAME].topic_id == first
    registry.forget(NAME)
    assert registry.entries() == {}
    assert not delete(cluster, second)
    assert id_of(cluster, NAME) == second
    neighbours = Neighbours(connect_to(cluster), cluster.ports, pytest.fail)
    assert (neighbours.under_replicated(), neighbours.below_min_isr(frozenset())) == ([], [])


def test_own_topics_in_kraft(tmp_path: Path) -> None:
    """Only the registered id is accepted and deleted; another's topic of the registry's name is left alone."""
    with own_cluster(tmp_path, DEFAULT_RELEASE, brokers=1) as cluster:
        cluster.create_topic("sales-registry")
        with pytest.raises(BadInput, match=r"cleanup.policy is delete, not compact"):
            Registry(connect_to(cluster), cluster.ports, "sales-").ensure()
        check_own_topics(cluster)


def test_own_topics_with_zookeeper(tmp_path: Path) -> None:
    """The same with the oldest release, once its topics have ids."""
    extra = {"inter.broker.protocol.version": "2.7"}
    with own_cluster(tmp_path, "2.8.2", brokers=1, extra=extra) as cluster:
        cluster.create_topic("sales")
        with pytest.raises(BadInput, match=r"raise inter.broker.protocol.version to 2.8 or later\.$"):
            Registry(connect_to(cluster), cluster.ports, "plimsoll-").ensure()
        restart(cluster)
        wait_until(lambda: id_of(cluster, "sales"), limit_s=30, what="an id of sales")
        check_own_topics(cluster)
