"""The nodes of the clients: producers, and members of a consumer group."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clusters.clients.nodes import (
    client_names,
    client_node,
    deliveries_to,
    died,
    end_clients,
    is_ready,
    last_poll,
    member_names,
    member_node,
    probe_rates,
    producer_names,
    set_rate,
    start_member,
)
from clusters.kafka.access import Access
from clusters.kafka.builds import Build
from clusters.waiting import wait_until
from history.errors import HarnessError
from history.folder import write_atomically
from tests.clusters.fakes import A_JAVA, FakeWorld, scenario

TOPIC = {"partitions": 2, "replicas": ["A", "B", "C"]}
LOADS = {
    "web": {"topic": "orders", "rate": "900/s", "processes": 2, "acks": 1, "idempotence": False},
    "ledger": {"topic": "payments", "engine": "java", "rate": "50/s"},
    "bank": {"topic": "payments", "engine": "confluent-kafka", "transaction": {"records": 5}, "delivery_timeout": "9s"},
}


def of(path: Path, **load: Any) -> Any:
    """Return a world with this load, in which no client runs yet."""
    told = scenario([{"hold": 1}], topics={"orders": TOPIC, "payments": TOPIC}, **load)
    found: Any = FakeWorld(path, told)
    found.replan(clients={"ledger": Build(version="3.9.1", jars=Path("/tools"))})
    found.client_address = lambda index: f"127.0.0.{index}"
    return found


@pytest.fixture
def world(tmp_path: Path) -> Any:
    """A world whose load has a group of two members."""
    return of(tmp_path, load={"topic": "orders", "group": {"members": 2, "commit": "ahead"}})


@pytest.fixture
def several(tmp_path: Path) -> Any:
    """A world with a load of two processes, one of Kafka's VerifiableProducer, and one with transactions."""
    return of(tmp_path, loads=LOADS)


def config_of(world: Any, name: str) -> dict[str, Any]:
    """Return the configuration file of a client node."""
    return dict(json.loads((client_node(world, name).folder / "config.json").read_text()))


def test_each_producer_is_told_its_own_load(several: Any) -> None:
    """Each producer gets its own topic, settings, share of the rate, and files under its own name."""
    told = [config_of(several, name) for name in producer_names(several)]

    named = ("client_id", "topic", "rate_per_s", "acks", "delivery_timeout_ms", "transaction_records")
    assert [tuple(each[name] for name in named) for each in told] == [
        ("web-1", "orders", 450.0, "1", 30_000, None),
        ("web-2", "orders", 450.0, "1", 30_000, None),
        ("verifiable-1", "payments", 50.0, "all", 30_000, None),
        ("bank", "payments", 1000.0, "all", 9_000, 5),
    ]
    places = [(Path(each["summary"]).name, Path(each["control"]).name) for each in told]
    assert places == [
        ("web-1.json", "web-1"),
        ("web-2.json", "web-2"),
        ("ledger.json", "ledger"),
        ("bank.json", "bank"),
    ]


def test_kafkas_own_producer_is_a_program_of_its_own(several: Any) -> None:
    """VerifiableProducer runs its own module and may read the release's jars and Java; other producers may not."""
    java, python = client_node(several, "ledger"), client_node(several, "web-1")

    assert (java.role, java.arguments[1]) == ("producer", "clusters.clients.verifiable_producer")
    assert java.readable == (Path("/tools"), A_JAVA.home)
    assert config_of(several, "ledger")["value_prefix"] == 1
    assert (python.role, python.arguments[1], python.readable) == ("producer", "clusters.clients.producer", ())


def test_clients_get_the_variables_that_their_login_names(
    several: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The secret is in the environment alone; a client without a login gets none."""
    assert client_node(several, "prober").environment == {}
    monkeypatch.setenv("PASSWORD", "s3cret")
    (tmp_path / "client.properties").write_text("ssl.key.password=${env:PASSWORD}")
    several.access = lambda _: Access(tmp_path / "client.properties")
    node = client_node(several, "web-1")
    assert node.environment == {"PASSWORD": "s3cret"}
    assert "s3cret" not in (node.folder / "config.json").read_text()


def test_readers_read_what_is_committed_of_all_topics(several: Any) -> None:
    """If any load has transactions, readers of all topics are read_committed."""
    told = config_of(several, "consumer")

    assert (told["topics"], told["isolation"]) == ({"orders": 2, "payments": 2}, "read_committed")


def test_every_client_has_an_address_of_its_own(several: Any) -> None:
    """Every client has its own address; producers come first."""
    names = client_names(several)

    assert names == ["web-1", "web-2", "ledger", "bank", "consumer", "prober", "drain", "copier"]
    assert [client_node(several, name).address for name in names[:7]] == [f"127.0.0.{index}" for index in range(7)]


def test_a_client_that_no_scenario_has_is_an_error(several: Any) -> None:
    """Starting a client that the scenario does not have is an error."""
    with pytest.raises(HarnessError, match="has no client copier to start"):
        client_node(several, "copier")


def test_a_rate_is_shared_by_the_processes_of_a_load(several: Any) -> None:
    """Each process of a load is offered its share of the new rate; the rate holds from the last answer on."""
    folders = {name: client_node(several, name).folder for name in producer_names(several)}

    def answer(name: str, from_ns: int) -> None:
        offer = folders[name] / "offer.json"
        wait_until(offer.exists, limit_s=5, every_s=0.001, what="an offer")
        write_atomically(
            folders[name] / "offered.json", json.dumps({**json.loads(offer.read_text()), "from_ns": from_ns})
        )

    with ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(answer, name, from_ns) for name, from_ns in (("web-1", 9), ("web-2", 7))]
        assert set_rate(several, "web", 300.0) == {"rate_per_s": 300.0, "from_ns": 9}
        assert [each.result() for each in answers] == [None, None]

    assert json.loads((folders["web-2"] / "offer.json").read_text()) == {"rate_per_s": 150.0}
    assert not (folders["bank"] / "offer.json").exists()


def test_clients_end_together_each_in_its_own_time(several: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """All running clients get SIGTERM before the first is waited for; each has its own limit."""
    told: list[Any] = []
    states = {"web-1": "running", "bank": "running", "web-2": "exited"}
    several.runtime = SimpleNamespace(state=lambda name: states[name], kill=lambda *call: told.append(call))
    monkeypatch.setattr(
        "clusters.clients.nodes.wait_until", lambda _condition, limit_s, what: told.append((what, limit_s))
    )

    end_clients(several, {"web-1": 45.0, "web-2": 45.0, "bank": 24.0})

    assert told == [("web-1", "SIGTERM"), ("bank", "SIGTERM"), ("web-1 to end", 45.0), ("bank to end", 24.0)]


def test_each_life_of_a_member_has_a_name_of_its_own(world: Any) -> None:
    """Each start of a member has its own file names, so readiness is that of the running process."""
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
    """Members have the addresses after those of the other clients."""
    assert [member_node(world, name).address for name in member_names(world)] == ["127.0.0.5", "127.0.0.6"]


def test_a_member_that_never_polled_was_last_seen_long_ago(world: Any) -> None:
    """A member without an ``alive`` file has never polled; otherwise the file's time is its last poll."""
    assert last_poll(world, "member-1") == 0
    alive = member_node(world, "member-1").folder / "alive"
    alive.parent.mkdir(parents=True)
    alive.touch()
    os.utime(alive, ns=(5, 5))
    assert last_poll(world, "member-1") == 5


def test_a_member_of_a_share_group_runs_a_client_of_its_own(world: Any) -> None:
    """A member of a share group runs its own client, gets its processing settings, and reports what it received."""
    group = {"protocol": "share", "members": 3, "processing": "300ms", "release_every": 7}
    topics = {"orders": {"replicas": ["A", "B", "C"]}}
    world.replan(scenario=scenario([{"hold": 1}], topics=topics, load={"topic": "orders", "group": group}))
    node = member_node(world, "member-3")
    world.folder.clients.mkdir()
    start_member(world, node)
    told = json.loads((node.folder / "config.json").read_text())

    assert node.arguments[1] == "clusters.clients.share_member"
    assert (told["client_id"], told["processing_s"], told["release_every"]) == ("member-3.1", 0.3, 7)
    assert deliveries_to(world, "member-3") == 0
    Path(told["summary"]).write_text('{"so_far": {"given": 12}}')
    assert deliveries_to(world, "member-3") == 12


@pytest.mark.parametrize(("partitions", "rates"), [(100, (20.0, 10.0)), (1000, (3.33, 3.33)), (5000, (0.67, 0.67))])
def test_of_many_partitions_each_is_looked_at_less_often(partitions: int, rates: tuple[float, float]) -> None:
    """The more partitions, the lower the probe rate: at most 10,000 replicas a second over three brokers."""
    told = scenario([{"hold": 1}], topics={"orders": {"partitions": partitions, "replicas": ["A", "B", "C"]}})

    assert probe_rates(told) == pytest.approx(rates, abs=0.01)


def test_who_ended_unasked_has_died(world: Any) -> None:
    """A client has died if it exited without a clean end; running, never started and cleanly ended clients have not."""
    world.folder.clients.mkdir()
    for name, clean in (("prober", False), ("consumer", True)):
        (world.folder.clients / f"{name}.json").write_text(json.dumps({"clean": clean}))
        client_node(world, name)
    world.runtime.states |= {"prober": "exited", "consumer": "exited", "member-1": "running"}

    assert [node.name for node in died(world)] == ["prober"]
