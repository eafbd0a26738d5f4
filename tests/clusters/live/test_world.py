"""The world under test: addresses, incarnations, and which broker's view counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from clusters.kafka.builds import Build
from clusters.kafka.views import ClusterView, PartitionView, QuorumView
from clusters.live import world as module
from clusters.live.world import TORN_DOWN, Plan, World, broker_id
from clusters.runtimes.nodes import Node
from history.errors import HarnessError, NoController, Refused, WaitTimeout
from history.events import read_events
from history.partition import TopicPartition
from tests.clusters.fakes import A_JAVA, T0, FakeRuntime, scenario


@pytest.fixture
def world(tmp_path: Path) -> World:
    """The world of a prepared run with three brokers, with reserved addresses and a fake runtime."""
    plan = Plan(
        scenario=scenario([{"hold": 1}], topics={"orders": {"partitions": 2, "replicas": ["B", "A", "C"]}}),
        kafka_version="3.9.1",
        jars=Path("/jars"),
        java=A_JAVA,
        mode="kraft",
        runtime="process",
        seed=7,
    )
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "plan.json").write_text(plan.model_dump_json())
    (tmp_path / "work" / "prefix").write_text("127.30.7")
    opened = World(tmp_path)
    runtime: Any = FakeRuntime(["controller", "broker-1", "broker-2", "broker-3"])
    runtime.start = lambda node: runtime.resume(node.name)
    opened.__dict__["runtime"] = runtime  # in the place of the cached one
    return opened


def view(
    leader: int,
    epoch: int,
    brokers: tuple[int, ...] = (1, 2, 3),
    *,
    partition: int = 0,
    isr: tuple[int, ...] | None = None,
    controller: int = 100,
) -> ClusterView:
    """Return a broker's view: leader and epoch of orders-0, and the live brokers."""
    seen = PartitionView("orders", partition, leader, epoch, [2, 1, 3], list(isr or (leader,)), [])
    return ClusterView(1, 2, controller, dict.fromkeys(brokers, ("x", 1)), [seen])


def told(world: World, monkeypatch: pytest.MonkeyPatch, views: dict[int, ClusterView | None]) -> None:
    """Let each broker return its view; None does not answer."""
    monkeypatch.setattr(world, "view_of", lambda number: views[number])


def test_every_node_has_an_address_of_its_own(world: World) -> None:
    """Metadata node, brokers and clients have consecutive addresses in the run's range."""
    nodes = world.servers
    addresses = [node.address for node in nodes] + [world.client_address(index) for index in range(4)]

    assert addresses == [f"127.30.7.{host}" for host in range(10, 18)]
    assert world.bootstrap == ["127.30.7.11:9092", "127.30.7.12:9092", "127.30.7.13:9092"]


def test_partitions_and_their_brokers_follow_from_the_scenario(world: World) -> None:
    """Replicas follow the scenario: B is broker 2, and the second partition starts with the next broker."""
    assert world.partitions == [T0, TopicPartition("orders", 1)]
    assert [world.replicas(partition) for partition in world.partitions] == [[2, 1, 3], [1, 3, 2]]


@pytest.mark.parametrize("before", [True, False])
def test_nothing_is_started_in_a_run_that_was_torn_down(world: World, before: bool) -> None:
    """In a run that was torn down no node starts; one that was starting meanwhile is removed."""
    removed: list[str] = []
    runtime: Any = world.runtime
    runtime.remove_all = lambda: removed.append("all")
    runtime.start = lambda _: (world.folder.work / TORN_DOWN).touch()
    if before:
        (world.folder.work / TORN_DOWN).touch()
        runtime.start = None

    with pytest.raises(HarnessError, match="was torn down meanwhile"):
        world.start(world.brokers[1])
    assert removed == ["all"]
    assert not world.folder.events.exists()


def test_every_start_is_another_incarnation(world: World, tmp_path: Path) -> None:
    """Each start of a broker is a new incarnation, counted per broker across the tasks of a run."""
    world.start(world.brokers[1])
    again = World(tmp_path)
    again.__dict__["runtime"] = world.runtime
    again.start(again.brokers[1])
    again.start(again.brokers[2])

    assert [world.incarnation(number) for number in (1, 2, 3)] == [2, 1, 0]
    assert [world.incarnation_of(node) for node in world.brokers.values()] == [2, 1, 0]
    starts = [(event.target, event.detail["incarnation"]) for event in read_events(world.folder.events)]
    assert starts == [("broker-1", 1), ("broker-1", 2), ("broker-2", 1)]


def test_the_newest_view_counts(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The view with the newest leader epoch counts: a broker that was cut off still names the old leader."""
    told(world, monkeypatch, {1: view(1, 4), 2: view(2, 5), 3: view(2, 5)})
    found = world.partition_view(T0)

    assert found
    assert (found.leader, found.leader_epoch) == (2, 5)


def test_the_leaders_own_view_counts_in_its_epoch(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within an epoch the leader's own view counts; a leader's view of an older epoch does not."""
    own, other, stale = view(2, 5), view(2, 5), view(2, 4)
    told(world, monkeypatch, {1: other, 2: own, 3: None})
    assert world.partition_view(T0) is own.partitions[0]

    told(world, monkeypatch, {1: other, 2: stale, 3: None})
    assert world.partition_view(T0) is other.partitions[0]


FULL, SHRUNK = view(2, 5, isr=(2, 1, 3)), view(2, 5, isr=(2, 1))


@pytest.mark.parametrize("stale", [1, 3])
def test_a_followers_old_isr_does_not_count_beside_its_leaders(
    world: World, monkeypatch: pytest.MonkeyPatch, stale: int
) -> None:
    """A cut-off follower's full ISR does not count if the leader of the same epoch answers, in any order of answers."""
    told(world, monkeypatch, {number: FULL if number == stale else SHRUNK for number in (1, 2, 3)})

    assert [found.isr for found in world.current_views(T0)] == [[2, 1]]


@pytest.mark.parametrize("stale", [1, 3])
def test_where_the_leader_does_not_answer_its_followers_must_agree(
    world: World, monkeypatch: pytest.MonkeyPatch, stale: int
) -> None:
    """If the leader does not answer and its followers' ISRs differ, both views are returned."""
    told(world, monkeypatch, {2: None, stale: FULL, 4 - stale: SHRUNK})

    assert sorted(found.isr for found in world.current_views(T0)) == [[2, 1], [2, 1, 3]]


def test_a_view_older_than_one_seen_before_is_none(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A view older than one seen before is ignored, as from a broker that was just resumed."""
    told(world, monkeypatch, {1: view(1, 5), 2: view(1, 5), 3: None})
    assert world.partition_view(T0)
    told(world, monkeypatch, {1: None, 2: None, 3: view(2, 4)})
    assert world.partition_view(T0) is None

    told(world, monkeypatch, {1: None, 2: None, 3: view(1, 5)})
    assert world.partition_view(T0)


def test_a_broker_that_is_not_asked_is_not_heard(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that is left out of the query does not count."""
    told(world, monkeypatch, {1: SHRUNK, 2: SHRUNK, 3: view(3, 6)})

    assert world.partition_view(T0, without=3) is SHRUNK.partitions[0]


def test_many_partitions_cost_one_question_a_broker(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """All partitions of a topic cost one metadata request per broker."""
    asked: list[int] = []
    answer = replace(view(2, 5), partitions=[PartitionView("orders", n, 2, 5, [1, 2], [1, 2], []) for n in range(50)])

    def view_of(number: int) -> ClusterView:
        asked.append(number)
        return answer

    monkeypatch.setattr(world, "view_of", view_of)
    partitions = [TopicPartition("orders", number) for number in range(51)]
    found = world.partition_views(partitions)

    assert sorted(asked) == [1, 2, 3]
    assert [seen.partition for seen in found.values() if seen] == list(range(50))
    assert found[partitions[50]] is None


def test_zookeepers_controller_is_whom_most_brokers_name(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """In ZooKeeper mode the active controller is the one that most brokers name; -1 does not count."""
    world.__dict__["plan"] = world.plan.model_copy(update={"mode": "zookeeper"})
    told(world, monkeypatch, {1: view(2, 5, controller=1), 2: view(2, 5, controller=3), 3: view(2, 5, controller=3)})
    assert world.active_controller() == 3

    told(world, monkeypatch, {1: view(2, 5, controller=-1), 2: view(2, 5, controller=-1), 3: view(2, 5, controller=3)})
    assert world.active_controller() == 3


def test_nobody_knows_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an answer, or without the partition in it, there is no view."""
    told(world, monkeypatch, {1: None, 2: None, 3: None})
    assert world.partition_view(T0) is None

    told(world, monkeypatch, dict.fromkeys((1, 2, 3), view(1, 1, partition=1)))
    assert world.partition_view(T0) is None


def test_a_broker_is_registered_when_another_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker is registered if another broker lists it; its own view does not count."""
    told(world, monkeypatch, {1: view(2, 5, (1, 2, 3)), 2: view(2, 5, (2, 3)), 3: None})

    assert world.registered(2)
    assert not world.registered(1)


@pytest.mark.parametrize(
    ("error", "name"),
    [(TimeoutError(), "timeout"), (ConnectionRefusedError(), "unreachable"), (ConnectionResetError(), "unreachable")],
)
def test_silence_and_refusal_differ(world: World, monkeypatch: pytest.MonkeyPatch, error: OSError, name: str) -> None:
    """A silent broker is a time-out, and a refused or reset connection is unreachable."""

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(module, "metadata", fail)
    assert world.probe_error(1) == name
    assert world.view_of(1) is None

    monkeypatch.setattr(module, "metadata", lambda *_: view(1, 1))
    assert world.probe_error(1) is None


def test_brokers_that_do_not_come_up_are_told_with_their_logs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """If brokers do not start in time, the error has the last log lines of those that do not answer."""
    monkeypatch.setattr(module, "START_LIMIT_S", 0.0)
    told(world, monkeypatch, {1: view(1, 1), 2: None, 3: None})
    world.brokers[2].folder.mkdir()
    world.brokers[2].log.write_text("starting\nWARN slow disk")

    with pytest.raises(WaitTimeout) as ran_out:
        world.wait_for_brokers()
    said = str(ran_out.value)
    assert "Waited 0 s for 3 brokers to know each other; last seen: broker-2 is running, its log ends: starting" in said
    assert "WARN slow disk; broker-3 is running, its log ends: (no log)" in said
    assert "broker-1" not in said


def test_a_broker_that_has_ended_is_not_waited_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that exited ends the wait at once, with its last log lines; one that is still starting does not."""
    told(world, monkeypatch, {1: view(1, 1), 2: None, 3: None})
    world.brokers[2].folder.mkdir()
    world.brokers[2].log.write_text("starting\nERROR no space left")
    world.runtime.kill("broker-2", "SIGKILL")

    with pytest.raises(HarnessError) as ended:
        world.wait_for_brokers()
    assert str(ended.value) == (
        "Not all brokers start: broker-2 is exited, its log ends: starting / ERROR no space left."
    )
    assert not isinstance(ended.value, WaitTimeout)


def test_all_brokers_must_know_all(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers have started only when each lists all others."""
    monkeypatch.setattr(module, "START_LIMIT_S", 0.0)
    told(world, monkeypatch, {1: view(1, 1), 2: view(1, 1), 3: view(1, 1, (1, 3))})
    with pytest.raises(WaitTimeout, match="last seen: all answer"):
        world.wait_for_brokers()

    told(world, monkeypatch, dict.fromkeys((1, 2, 3), view(1, 1)))
    world.wait_for_brokers()


def test_only_brokers_have_an_id() -> None:
    """Only brokers have a broker id; for a client it is an error."""
    assert broker_id(Node("broker-2", "broker", "x", Path(), "java", (), node_id=2)) == 2
    with pytest.raises(HarnessError, match="prober is no broker"):
        broker_id(Node("prober", "prober", "x", Path(), "python", ()))


def test_a_connection_is_to_a_listener_of_a_node(world: World) -> None:
    """``connect`` opens a new connection with this time-out and client id; ``connection`` keeps one per node."""
    node = world.brokers[2]
    one, other = world.connect(node, "PROBE"), world.connect(node, "CLIENT", 2.0, client_id="read-1")

    assert [(c.host, c.port, c.timeout_s) for c in (one, other)] == [
        (node.address, 9093, 10.0),
        (node.address, 9092, 2.0),
    ]
    assert world.connection(2) is world.connection(2)
    assert (world.connection(2).port, world.connection(100).port) == (9093, 9094)


class Broker:
    """A connection that keeps the queried brokers and their time-outs."""

    asked: ClassVar[list[tuple[int, float]]] = []

    def __init__(
        self, address: str, _port: int, limit_s: float, _client: str, *, access: None, forwards_to_controller: bool
    ) -> None:
        self.number, self.host = int(address.rpartition(".")[2]) - 10, address
        self.forwards_to_controller = forwards_to_controller
        self.asked.append((self.number, limit_s))

    def __enter__(self) -> Broker:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def test_brokers_are_asked_until_one_can_be(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request goes to one broker after the other until one serves it; silent brokers are skipped."""
    told(world, monkeypatch, {1: None, 2: view(1, 1), 3: view(1, 1)})
    monkeypatch.setattr(module, "Connection", Broker)
    monkeypatch.setattr(Broker, "asked", [])

    def cut_off(broker: Any) -> tuple[int, bool]:
        if broker.number == 2:
            raise TimeoutError
        return broker.number, broker.forwards_to_controller

    assert world.ask(cut_off) == (3, True)
    assert Broker.asked == [(2, 3.0), (3, 3.0)]


def test_features_are_asked_of_a_broker_that_answers(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Features are read from a broker that answers, by its id: in ZooKeeper mode each broker has different ones."""
    told(world, monkeypatch, {1: None, 2: view(1, 1), 3: view(1, 1)})
    monkeypatch.setattr(module, "Connection", Broker)
    monkeypatch.setattr(Broker, "asked", [])
    monkeypatch.setattr(module.features, "finalised", lambda broker, number, mode: {f"{broker.number}": f"{number}"})

    assert world.features() == {"2": "2"}


def test_where_no_broker_can_be_asked_each_is_tried_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """If no broker can serve a request, each is tried again with a longer time-out; a rejection is an answer."""
    told(world, monkeypatch, {1: None, 2: view(1, 1), 3: None})
    monkeypatch.setattr(module, "Connection", Broker)
    monkeypatch.setattr(Broker, "asked", [])
    monkeypatch.setattr(module, "SESSIONS", 0.1)
    monkeypatch.setattr(module, "ASKED_AGAIN_S", 0.001)

    def fail(error: Exception) -> Any:
        raise error

    with pytest.raises(HarnessError, match="No broker answers that could be asked for this; start or join one first"):
        world.ask(lambda _: fail(TimeoutError()))
    assert Broker.asked[:3] == [(2, 3.0), (2, 10.0), (2, 10.0)]

    Broker.asked.clear()
    with pytest.raises(Refused, match="no"):
        world.ask(lambda _: fail(Refused("no")))
    assert Broker.asked == [(2, 3.0)]


@pytest.mark.parametrize("gone", [ConnectionRefusedError(), NoController("nobody")])
def test_a_controller_that_died_is_waited_for(world: World, monkeypatch: pytest.MonkeyPatch, gone: Exception) -> None:
    """A request to a dead controller is retried: in ZooKeeper mode brokers name it until its session ends."""
    told(world, monkeypatch, {1: None, 2: None, 3: view(1, 1)})
    monkeypatch.setattr(module, "Connection", Broker)
    monkeypatch.setattr(Broker, "asked", [])
    monkeypatch.setattr(module, "ASKED_AGAIN_S", 0.001)
    trouble = [gone, gone, gone]

    def asked(broker: Any) -> int:
        if trouble:
            raise trouble.pop()
        return int(broker.number)

    assert world.ask(asked) == 3
    assert len(Broker.asked) == 4


def test_a_partition_that_was_moved_is_where_it_was_moved_to(world: World) -> None:
    """After a reassignment the partition has its new replicas; the scenario gives the others."""
    world.moved[T0] = [3, 1]

    assert (world.replicas(T0), world.replicas(TopicPartition("orders", 1))) == ([3, 1], [1, 3, 2])


def test_binaries_are_replaced_from_the_next_start_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other binaries are used from the next start on, and events have the version of each incarnation."""
    started: list[Node] = []
    monkeypatch.setattr(world.runtime, "start", started.append)
    other = Build(version="4.4.0-SNAPSHOT", jars=Path("/other"))
    monkeypatch.setitem(world.plan.builds, "trunk", other)
    for kafka in (None, "trunk", None):
        world.replace_binaries(world.brokers[1], kafka)
        world.start(world.brokers[1])

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
    for node in (*world.servers[:2], replace(world.brokers[1], name="prober", role="prober")):
        world.start(node)

    lists = [[word for word in node.arguments if "DumpLoadedClassList" in word] for node in started]
    files = [f"-XX:DumpLoadedClassList={node.folder}/classes.txt" for node in started[:2]]
    assert lists == [[file] if told else [] for file in files] + [[]]


def test_settings_are_changed_from_the_next_start_on(world: World) -> None:
    """Changed settings are written to the broker's file for its next start; other settings stay."""
    node = world.brokers[2]
    node.folder.mkdir()
    (node.folder / "server.properties").write_text("a=1\nb=x=y\nd=/f\\u00fcr\\\\\n")
    world.configure(node, {"a": "2", "c": "3\n4"})

    assert (node.folder / "server.properties").read_text() == "a=2\nb=x=y\nc=3\\n4\nd=/f\\u00fcr\\\\\n"


def test_settings_are_not_changed_through_a_link(world: World, tmp_path: Path) -> None:
    """A settings file that is a symbolic link is an error: a build could point it at a file of the user's."""
    node = world.brokers[2]
    node.folder.mkdir()
    (tmp_path / "credentials").write_text("key=secret\n")
    (node.folder / "server.properties").symlink_to(tmp_path / "credentials")

    with pytest.raises(HarnessError, match=r"at server.properties, and links are not followed"):
        world.configure(node, {"a": "2"})
    assert (tmp_path / "credentials").read_text() == "key=secret\n"


def test_the_later_epoch_tells_which_controller_acts(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The active controller is the one with the later epoch; a paused one still claims to be.

    Without answers it is None.
    """
    seen = {"x": QuorumView(100, 3, 50, {100: 60}), "y": QuorumView(101, 4, 60, {100: 55, 101: 60}), "z": None}
    monkeypatch.setattr(world, "_quorum_of", lambda node: seen[node])
    world.__dict__["metadata_nodes"] = ["x", "y", "z"]
    assert world.active_controller() == 101

    seen.update(x=None, y=None)
    assert world.active_controller() is None


@pytest.mark.parametrize(("number", "registered"), [(100, False), (101, True), (102, True), (103, False)])
def test_a_controller_is_back_when_it_has_fetched_what_is_committed(
    world: World, monkeypatch: pytest.MonkeyPatch, number: int, registered: bool
) -> None:
    """A controller has recovered once it has fetched the committed metadata; the leader counts as recovered."""
    monkeypatch.setattr(world, "quorum", lambda: QuorumView(101, 4, 60, {100: 55, 101: 0, 102: 60}))
    assert world.registered(number) is registered
