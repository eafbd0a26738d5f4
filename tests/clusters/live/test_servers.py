"""Servers that Plimsoll makes: addresses, binaries and settings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clusters.kafka.builds import Build
from clusters.live.servers import MadeServers, broker_id
from clusters.live.world import World
from clusters.runtimes.nodes import Node
from history.errors import HarnessError
from history.events import read_events
from tests.clusters.fakes import scenario


def _made(world: World) -> MadeServers:
    assert isinstance(world.servers, MadeServers)
    return world.servers


def test_every_node_has_an_address_of_its_own(world: World) -> None:
    """Metadata node, brokers and clients have consecutive addresses in the run's range."""
    nodes = world.servers.nodes
    addresses = [node.address for node in nodes] + [world.client_address(index) for index in range(4)]

    assert addresses == [f"127.30.7.{host}" for host in range(10, 18)]
    assert world.bootstrap == ["127.30.7.11:9092", "127.30.7.12:9092", "127.30.7.13:9092"]


def test_only_brokers_have_an_id() -> None:
    """Only brokers have a broker id; for a client it is an error."""
    assert broker_id(Node("broker-2", "broker", "x", Path(), "java", (), node_id=2)) == 2
    with pytest.raises(HarnessError, match="prober is no broker"):
        broker_id(Node("prober", "prober", "x", Path(), "python", ()))


def test_binaries_are_replaced_from_the_next_start_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other binaries are used from the next start on, and events have the version of each incarnation."""
    started: list[Node] = []
    monkeypatch.setattr(world.runtime, "start", started.append)
    other = Build(version="4.4.0-SNAPSHOT", jars=Path("/other"))
    monkeypatch.setitem(world.plan.made.builds, "trunk", other)
    for kafka in (None, "trunk", None):
        _made(world).replace_binaries(world.servers.brokers[1], kafka)
        world.start(world.servers.brokers[1])

    assert [("/other/*" in node.arguments, Path("/other") in node.readable) for node in started] == [
        (False, False),
        (True, True),
        (False, False),
    ]
    events = [event.detail for event in read_events(world.folder.events) if event.kind == "node_started"]
    assert [(event["incarnation"], event["kafka_version"]) for event in events] == [
        (1, "3.9.1"),
        (2, "4.4.0-SNAPSHOT"),
        (3, "3.9.1"),
    ]


@pytest.mark.parametrize(
    ("cluster", "told"), [({}, True), ({"jvm": "production"}, False), ({"jvm_flags": ["-XX:+UseZGC"]}, False)]
)
def test_servers_start_from_archived_classes(
    world: World, monkeypatch: pytest.MonkeyPatch, cluster: dict[str, Any], told: bool
) -> None:
    """Servers write a list of classes for the archive, unless the scenario sets the JVM; clients do not."""
    started: list[Node] = []
    runtime: Any = world.runtime
    monkeypatch.setattr(runtime, "start", started.append)
    changed = scenario([{"hold": 1}], cluster={"brokers": 3, **cluster})
    monkeypatch.setattr(world, "plan", world.plan.model_copy(update={"scenario": changed}))
    for node in (*world.servers.nodes[:2], replace(world.servers.brokers[1], name="prober", role="prober")):
        world.start(node)

    lists = [[word for word in node.arguments if "DumpLoadedClassList" in word] for node in started]
    files = [f"-XX:DumpLoadedClassList={node.folder}/classes.txt" for node in started[:2]]
    assert lists == [[file] if told else [] for file in files] + [[]]


def test_settings_are_changed_from_the_next_start_on(world: World) -> None:
    """Changed settings are written to the broker's file for its next start; other settings stay."""
    node = world.servers.brokers[2]
    node.folder.mkdir()
    (node.folder / "server.properties").write_text("a=1\nb=x=y\nd=/f\\u00fcr\\\\\n")
    _made(world).configure(node, {"a": "2", "c": "3\n4"})

    assert (node.folder / "server.properties").read_text() == "a=2\nb=x=y\nc=3\\n4\nd=/f\\u00fcr\\\\\n"


def test_settings_are_not_changed_through_a_link(world: World, tmp_path: Path) -> None:
    """A settings file that is a symbolic link is an error: a build could point it at a file of the user's."""
    node = world.servers.brokers[2]
    node.folder.mkdir()
    (tmp_path / "credentials").write_text("key=secret\n")
    (node.folder / "server.properties").symlink_to(tmp_path / "credentials")

    with pytest.raises(HarnessError, match=r"at server.properties, and links are not followed"):
        _made(world).configure(node, {"a": "2"})
    assert (tmp_path / "credentials").read_text() == "key=secret\n"
