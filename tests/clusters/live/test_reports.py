"""What brokers report, and which broker's view counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import pytest

from clusters.kafka.views import ClusterView, PartitionView, QuorumView
from clusters.live import reports as module
from clusters.live.world import World
from history.errors import HarnessError, NoController, Refused, WaitTimeout
from history.partition import TopicPartition
from tests.clusters.fakes import T0


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
    monkeypatch.setattr(world.reports, "view_of", lambda number: views[number])


def test_the_newest_view_counts(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The view with the newest leader epoch counts: a broker that was cut off still names the old leader."""
    told(world, monkeypatch, {1: view(1, 4), 2: view(2, 5), 3: view(2, 5)})
    found = world.reports.partition_view(T0)

    assert found
    assert (found.leader, found.leader_epoch) == (2, 5)


def test_the_leaders_own_view_counts_in_its_epoch(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within an epoch the leader's own view counts; a leader's view of an older epoch does not."""
    own, other, stale = view(2, 5), view(2, 5), view(2, 4)
    told(world, monkeypatch, {1: other, 2: own, 3: None})
    assert world.reports.partition_view(T0) is own.partitions[0]

    told(world, monkeypatch, {1: other, 2: stale, 3: None})
    assert world.reports.partition_view(T0) is other.partitions[0]


FULL, SHRUNK = view(2, 5, isr=(2, 1, 3)), view(2, 5, isr=(2, 1))


@pytest.mark.parametrize("stale", [1, 3])
def test_a_followers_old_isr_does_not_count_beside_its_leaders(
    world: World, monkeypatch: pytest.MonkeyPatch, stale: int
) -> None:
    """A cut-off follower's full ISR does not count if the leader of the same epoch answers, in any order of answers."""
    told(world, monkeypatch, {number: FULL if number == stale else SHRUNK for number in (1, 2, 3)})

    assert [found.isr for found in world.reports.current_views_of([T0])[T0]] == [[2, 1]]


@pytest.mark.parametrize("stale", [1, 3])
def test_where_the_leader_does_not_answer_its_followers_must_agree(
    world: World, monkeypatch: pytest.MonkeyPatch, stale: int
) -> None:
    """If the leader does not answer and its followers' ISRs differ, both views are returned."""
    told(world, monkeypatch, {2: None, stale: FULL, 4 - stale: SHRUNK})

    assert sorted(found.isr for found in world.reports.current_views_of([T0])[T0]) == [[2, 1], [2, 1, 3]]


def test_a_view_older_than_one_seen_before_is_none(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A view older than one seen before is ignored, as from a broker that was just resumed."""
    told(world, monkeypatch, {1: view(1, 5), 2: view(1, 5), 3: None})
    assert world.reports.partition_view(T0)
    told(world, monkeypatch, {1: None, 2: None, 3: view(2, 4)})
    assert world.reports.partition_view(T0) is None

    told(world, monkeypatch, {1: None, 2: None, 3: view(1, 5)})
    assert world.reports.partition_view(T0)


def test_a_broker_that_is_not_asked_is_not_heard(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that is left out of the query does not count."""
    told(world, monkeypatch, {1: SHRUNK, 2: SHRUNK, 3: view(3, 6)})

    assert world.reports.partition_view(T0, without=3) is SHRUNK.partitions[0]


def test_many_partitions_cost_one_question_a_broker(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """All partitions of a topic cost one metadata request per broker."""
    asked: list[int] = []
    answer = replace(view(2, 5), partitions=[PartitionView("orders", n, 2, 5, [1, 2], [1, 2], []) for n in range(50)])

    def view_of(number: int) -> ClusterView:
        asked.append(number)
        return answer

    monkeypatch.setattr(world.reports, "view_of", view_of)
    partitions = [TopicPartition("orders", number) for number in range(51)]
    found = world.reports.partition_views(partitions)

    assert sorted(asked) == [1, 2, 3]
    assert [seen.partition for seen in found.values() if seen] == list(range(50))
    assert found[partitions[50]] is None


def test_zookeepers_controller_is_whom_most_brokers_name(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """In ZooKeeper mode the active controller is the one that most brokers name; -1 does not count."""
    world.plan = world.plan.model_copy(update={"cluster": world.plan.made.model_copy(update={"mode": "zookeeper"})})
    told(world, monkeypatch, {1: view(2, 5, controller=1), 2: view(2, 5, controller=3), 3: view(2, 5, controller=3)})
    assert world.reports.active_controller() == 3

    told(world, monkeypatch, {1: view(2, 5, controller=-1), 2: view(2, 5, controller=-1), 3: view(2, 5, controller=3)})
    assert world.reports.active_controller() == 3


def test_nobody_knows_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an answer, or without the partition in it, there is no view."""
    told(world, monkeypatch, {1: None, 2: None, 3: None})
    assert world.reports.partition_view(T0) is None

    told(world, monkeypatch, dict.fromkeys((1, 2, 3), view(1, 1, partition=1)))
    assert world.reports.partition_view(T0) is None


def test_a_broker_is_registered_when_another_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker is registered if another broker lists it; its own view does not count."""
    told(world, monkeypatch, {1: view(2, 5, (1, 2, 3)), 2: view(2, 5, (2, 3)), 3: None})

    assert world.reports.registered(2)
    assert not world.reports.registered(1)


@pytest.mark.parametrize(
    ("error", "name"),
    [(TimeoutError(), "timeout"), (ConnectionRefusedError(), "unreachable"), (ConnectionResetError(), "unreachable")],
)
def test_silence_and_refusal_differ(world: World, monkeypatch: pytest.MonkeyPatch, error: OSError, name: str) -> None:
    """A silent broker is a time-out, and a refused or reset connection is unreachable."""

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(module, "metadata", fail)
    assert world.reports.probe_error(1) == name
    assert world.reports.view_of(1) is None

    monkeypatch.setattr(module, "metadata", lambda *_: view(1, 1))
    assert world.reports.probe_error(1) is None


def test_brokers_that_do_not_come_up_are_told_with_their_logs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """If brokers do not start in time, the error has the last log lines of those that do not answer."""
    monkeypatch.setattr(module, "START_LIMIT_S", 0.0)
    told(world, monkeypatch, {1: view(1, 1), 2: None, 3: None})
    world.servers.brokers[2].folder.mkdir()
    world.servers.brokers[2].log.write_text("starting\nWARN slow disk")

    with pytest.raises(WaitTimeout) as ran_out:
        world.reports.wait_for_brokers()
    said = str(ran_out.value)
    assert "Waited 0 s for 3 brokers to know each other; last seen: broker-2 is running, its log ends: starting" in said
    assert "WARN slow disk; broker-3 is running, its log ends: (no log)" in said
    assert "broker-1" not in said


def test_a_broker_that_has_ended_is_not_waited_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that exited ends the wait at once, with its last log lines; one that is still starting does not."""
    told(world, monkeypatch, {1: view(1, 1), 2: None, 3: None})
    world.servers.brokers[2].folder.mkdir()
    world.servers.brokers[2].log.write_text("starting\nERROR no space left")
    world.runtime.kill("broker-2", "SIGKILL")

    with pytest.raises(HarnessError) as ended:
        world.reports.wait_for_brokers()
    assert str(ended.value) == (
        "Not all brokers start: broker-2 is exited, its log ends: starting / ERROR no space left."
    )
    assert not isinstance(ended.value, WaitTimeout)


def test_all_brokers_must_know_all(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers have started only when each lists all others."""
    monkeypatch.setattr(module, "START_LIMIT_S", 0.0)
    told(world, monkeypatch, {1: view(1, 1), 2: view(1, 1), 3: view(1, 1, (1, 3))})
    with pytest.raises(WaitTimeout, match="last seen: all answer"):
        world.reports.wait_for_brokers()

    told(world, monkeypatch, dict.fromkeys((1, 2, 3), view(1, 1)))
    world.reports.wait_for_brokers()


def test_a_connection_is_to_a_listener_of_a_node(world: World) -> None:
    """``connect`` opens a new connection with this time-out and client id; ``connection`` keeps one per node."""
    node = world.servers.brokers[2]
    one, other = world.reports.connect(node, "PROBE"), world.reports.connect(node, "CLIENT", 2.0, client_id="read-1")

    assert [(c.host, c.port, c.timeout_s) for c in (one, other)] == [
        (node.address, 9093, 10.0),
        (node.address, 9092, 2.0),
    ]
    assert world.reports.connection(2) is world.reports.connection(2)
    assert (world.reports.connection(2).port, world.reports.connection(100).port) == (9093, 9094)


class Broker:
    """A connection that keeps the queried brokers and their time-outs."""

    asked: ClassVar[list[tuple[int, float]]] = []

    def __init__(
        self, address: str, port: int, limit_s: float, _client: str, *, access: None, forwards_to_controller: bool
    ) -> None:
        self.number, self.host, self.port = int(address.rpartition(".")[2]) - 10, address, port
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

    assert world.reports.ask(cut_off) == (3, True)
    assert Broker.asked == [(2, 3.0), (3, 3.0)]


def test_features_are_asked_of_a_broker_that_answers(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Features are read from a broker that answers, by its id: in ZooKeeper mode each broker has different ones."""
    told(world, monkeypatch, {1: None, 2: view(1, 1), 3: view(1, 1)})
    monkeypatch.setattr(module, "Connection", Broker)
    monkeypatch.setattr(Broker, "asked", [])
    monkeypatch.setattr(module.features, "finalised", lambda broker, number, mode: {f"{broker.number}": f"{number}"})

    assert world.reports.features() == {"2": "2"}


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
        world.reports.ask(lambda _: fail(TimeoutError()))
    assert Broker.asked[:3] == [(2, 3.0), (2, 10.0), (2, 10.0)]

    Broker.asked.clear()
    with pytest.raises(Refused, match="no"):
        world.reports.ask(lambda _: fail(Refused("no")))
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

    assert world.reports.ask(asked) == 3
    assert len(Broker.asked) == 4


def test_the_later_epoch_tells_which_controller_acts(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The active controller is the one with the later epoch; a paused one still claims to be.

    Without answers it is None.
    """
    seen = {"x": QuorumView(100, 3, 50, {100: 60}), "y": QuorumView(101, 4, 60, {100: 55, 101: 60}), "z": None}
    monkeypatch.setattr(world.reports, "_quorum_of", lambda node: seen[node])
    world.servers.__dict__["metadata_nodes"] = ["x", "y", "z"]
    assert world.reports.active_controller() == 101

    seen.update(x=None, y=None)
    assert world.reports.active_controller() is None


@pytest.mark.parametrize(("number", "registered"), [(100, False), (101, True), (102, True), (103, False)])
def test_a_controller_is_back_when_it_has_fetched_what_is_committed(
    world: World, monkeypatch: pytest.MonkeyPatch, number: int, registered: bool
) -> None:
    """A controller has recovered once it has fetched the committed metadata; the leader counts as recovered."""
    monkeypatch.setattr(world.reports, "quorum", lambda: QuorumView(101, 4, 60, {100: 55, 101: 0, 102: 60}))
    assert world.reports.registered(number) is registered
