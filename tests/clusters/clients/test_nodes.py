"""The nodes of a consumer group's members."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from clusters.clients.nodes import given_to, is_ready, last_poll, member_names, member_node, start_member
from tests.clusters.fakes import FakeWorld, scenario


@pytest.fixture
def world(tmp_path: Path) -> Any:
    """A load with a group of two members, of which none runs yet."""
    topics = {"orders": {"partitions": 2, "replicas": ["A", "B", "C"]}}
    told = scenario([{"hold": 1}], topics=topics, load={"topic": "orders", "group": {"members": 2, "commit": "ahead"}})
    found: Any = FakeWorld(tmp_path, told)
    found.client_address = lambda index: f"127.0.0.{index}"
    found.bootstrap = ["127.0.0.1:9092"]
    found.access = lambda name: None
    found.starts = {}
    found.incarnation_of = lambda node: found.starts.get(node.name, 0)
    found.start = lambda node: found.starts.update({node.name: found.starts.get(node.name, 0) + 1})
    return found


def test_each_life_of_a_member_has_a_name_of_its_own(world: Any) -> None:
    """Its files are never those of a life before; whether it is ready is told of the one that runs."""
    node = member_node(world, "member-2")
    world.folder.clients.mkdir()
    named = []
    for _ in range(2):
        start_member(world, node)
        told = json.loads((node.folder / "config.json").read_text())
        named.append((told["client_id"], Path(told["summary"]).name, told["commit_ahead"]))
        assert not is_ready(world, "member-2")
        Path(told["summary"]).write_text('{"ready_ns": 1}')
        assert is_ready(world, "member-2")

    assert named == [("member-2.1", "member-2.1.json", True), ("member-2.2", "member-2.2.json", True)]


def test_members_have_addresses_behind_the_other_clients(world: Any) -> None:
    """One each."""
    assert [member_node(world, name).address for name in member_names(world)] == ["127.0.0.5", "127.0.0.6"]


def test_a_member_that_never_polled_was_last_seen_long_ago(world: Any) -> None:
    """Else its file tells."""
    assert last_poll(world, "member-1") == 0
    alive = member_node(world, "member-1").folder / "alive"
    alive.parent.mkdir(parents=True)
    alive.touch()
    os.utime(alive, ns=(5, 5))
    assert last_poll(world, "member-1") == 5


def test_a_member_of_a_share_group_runs_a_client_of_its_own(world: Any) -> None:
    """It is told what is its own to do; all else the brokers know. What it was given it says itself."""
    group = {"protocol": "share", "members": 3, "processing": "300ms", "release_every": 7}
    topics = {"orders": {"replicas": ["A", "B", "C"]}}
    world.scenario = scenario([{"hold": 1}], topics=topics, load={"topic": "orders", "group": group})
    node = member_node(world, "member-3")
    world.folder.clients.mkdir()
    start_member(world, node)
    told = json.loads((node.folder / "config.json").read_text())

    assert node.arguments[1] == "clusters.clients.share_member"
    assert (told["client_id"], told["processing_s"], told["release_every"]) == ("member-3.1", 0.3, 7)
    assert given_to(world, "member-3") == 0
    Path(told["summary"]).write_text('{"so_far": {"given": 12}}')
    assert given_to(world, "member-3") == 12
