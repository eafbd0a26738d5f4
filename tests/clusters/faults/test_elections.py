"""Elections and transfers of leadership, on a fake world."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clusters.faults import phase, topology
from clusters.faults.phase import PhaseRun
from clusters.kafka import admin
from history.errors import HarnessError, Refused
from history.partition import TopicPartition
from tests.clusters.fakes import T0, FakeReports, FakeWorld, scenario


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits of 0 s."""
    monkeypatch.setattr(topology, "LEAD_LIMIT_S", 0.0)
    monkeypatch.setattr(topology, "SEEN_LIMIT_S", 0.0)
    monkeypatch.setattr(phase, "LEADER_LIMIT_S", 0.0)
    monkeypatch.setattr(FakeWorld, "connection", lambda _self, number: number, raising=False)


def run(path: Path, *told: dict[str, Any], world: FakeWorld | None = None) -> FakeWorld:
    """Run one phase of these steps; return the world."""
    played: Any = world or FakeWorld(path, scenario(list(told), load={"topic": "orders"}))
    PhaseRun(played, played.scenario.phases[0]).run()
    return played  # type: ignore[no-any-return]  # it plays a World


@pytest.mark.parametrize(("error", "refused"), [(None, None), (Refused("not in sync"), "not in sync")])
def test_leadership_is_given_back_where_that_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception | None, refused: str | None
) -> None:
    """A preferred election runs for all partitions; a rejection is recorded and the phase continues."""
    asked: list[object] = []

    def elect(_connection: object, partitions: list[object]) -> None:
        asked.extend(partitions)
        if error:
            raise error

    monkeypatch.setattr(admin, "elect_preferred", elect)
    world = run(tmp_path, {"elect": "preferred"}, {"hold": "1ms"})

    assert asked == [T0]
    led = {"orders-0": [1, 1]}
    assert [event.detail for event in world.seen("elected")] == [
        {"who": "preferred", "refused": refused, "led": {"before": led, "after": led}}
    ]
    assert [event.step for event in world.seen("step")] == ["elect", "hold"]


@pytest.mark.parametrize(
    ("code", "refused", "unclean"),
    [
        (0, None, ["orders-0"]),
        (84, None, []),  # ELECTION_NOT_NEEDED: it has a leader
        (83, "ELIGIBLE_LEADERS_NOT_AVAILABLE", []),
        (7, "REQUEST_TIMED_OUT", ["orders-0"]),  # it may be done all the same
    ],
)
def test_an_unclean_election_names_what_may_have_been_elected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, refused: str | None, unclean: list[str]
) -> None:
    """An unclean election lists the partitions whose answer leaves an election possible."""
    monkeypatch.setattr(admin, "elect_unclean", lambda *_: {T0: SimpleNamespace(error_code=code)})
    (event,) = run(tmp_path, {"elect": "unclean"}).seen("elected")

    assert (event.detail["who"], event.detail["unclean"]) == ("unclean", unclean)
    assert refused in event.detail["refused"] if refused else event.detail["refused"] is None


def test_of_an_election_whose_answer_was_lost_nobody_says_that_it_was_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If an election's answer is lost, it is not recorded as rejected, even if the next broker finds it unnecessary."""
    answers: Any = iter([TimeoutError("no answer"), {T0: SimpleNamespace(error_code=84)}])

    def elect(*_: object) -> object:
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    def ask(_reports: object, what: Any) -> Any:
        with pytest.raises(TimeoutError):
            what("A")
        return what("B")

    monkeypatch.setattr(admin, "elect_unclean", elect)
    monkeypatch.setattr(FakeReports, "ask", ask)
    (event,) = run(tmp_path, {"elect": "unclean"}).seen("elected")

    assert (event.detail["refused"], event.detail["unclean"]) == (None, ["orders-0"])


@pytest.mark.parametrize("who", ["preferred", "unclean"])
def test_an_election_that_nobody_could_be_asked_for_fails_the_phase(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    """If no broker can be reached for an election, the attempt is recorded and the phase fails."""

    def ask(*_: object) -> None:
        raise HarnessError("No broker answers that could be asked for this")

    monkeypatch.setattr(FakeReports, "ask", ask)
    world = FakeWorld(tmp_path, scenario([{"elect": who}], load={"topic": "orders"}))
    with pytest.raises(HarnessError, match="No broker answers"):
        run(tmp_path, {"elect": who}, world=world)

    (event,) = world.seen("elected")
    assert (event.detail["refused"], event.detail.get("unclean", [])) == (
        "No broker answers that could be asked for this",
        [],
    )


def leads(world: FakeWorld, monkeypatch: pytest.MonkeyPatch, elected: bool = True) -> list[Any]:
    """Let the brokers apply reassignments and elections; return the requests."""
    asked: list[Any] = []
    order, leader = [1, 2, 3], 1
    view = world.reports.partition_view(T0)
    assert view is not None

    def reassign(_connection: object, assignment: Mapping[TopicPartition, Sequence[int]]) -> None:
        nonlocal order
        asked.append(dict(assignment))
        order = list(assignment[T0])

    def elect(_connection: object, partitions: Sequence[TopicPartition]) -> None:
        nonlocal leader
        asked.append(list(partitions))
        leader = order[0] if elected else leader

    monkeypatch.setattr(admin, "reassign", reassign)
    monkeypatch.setattr(admin, "elect_preferred", elect)
    monkeypatch.setattr(
        world.reports, "partition_view", lambda _: type(view)(**{**vars(view), "leader": leader, "replicas": order})
    )
    monkeypatch.setattr(topology, "LEAD_LIMIT_S", 5.0 if elected else 0.0)
    return asked


def test_a_replica_is_put_first_and_then_elected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``transfer_leadership`` puts the replica first, keeps the order of the others, and runs a preferred election."""
    world = FakeWorld(tmp_path, scenario([{"transfer_leadership": "C of orders-0"}]))
    asked = leads(world, monkeypatch)
    run(tmp_path, world=world)

    assert asked == [{T0: [3, 1, 2]}, [T0]]
    led = {"before": {"orders-0": [1, 1]}, "after": {"orders-0": [3, 1]}}
    assert [(e.step, e.target, e.detail) for e in world.seen("elected")] == [
        ("transfer_leadership", "C of orders-0", {"refused": None, "led": led})
    ]


def test_one_that_is_not_elected_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the replica is not elected, the event has the reason and the phase continues."""
    world = FakeWorld(tmp_path, scenario([{"transfer_leadership": "C of orders-0"}, {"hold": "1ms"}]))
    leads(world, monkeypatch, elected=False)
    run(tmp_path, world=world)

    (event,) = world.seen("elected")
    assert "Waited 0 s for broker 3 to lead orders-0" in event.detail["refused"]
    assert [e.step for e in world.seen("step")] == ["transfer_leadership", "hold"]


def test_who_has_no_replica_cannot_lead(tmp_path: Path) -> None:
    """``transfer_leadership`` to a broker without a replica is an error: a reassignment would be another experiment."""
    told = scenario([{"transfer_leadership": "D of orders-0"}], cluster={"brokers": 4})

    with pytest.raises(HarnessError, match="Broker 4 has no known replica of orders-0 that could lead"):
        run(tmp_path, world=FakeWorld(tmp_path, told))
