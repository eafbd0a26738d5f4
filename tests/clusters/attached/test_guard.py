"""A run that would harm others ends."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

import pytest

from clusters.attached import guard as module
from clusters.attached.cluster_file import Caps
from clusters.attached.guard import Guard
from clusters.attached.queries import NoBroker
from history.errors import HarnessError
from history.partition import TopicPartition

OWN = frozenset({"plimsoll-orders-5a3e"})


class FakeNeighbours:
    """Partitions of others, as tests set them."""

    def __init__(self) -> None:
        self.behind: list[TopicPartition] = []
        self.below: list[str] = []
        self.left: dict[int, list[str]] = {}  # broker → what would be below without it

    def under_replicated(self) -> list[TopicPartition]:
        return self.behind

    def below_min_isr(self, own: frozenset[str], without: Collection[int] = ()) -> list[str]:
        assert own == OWN | {"plimsoll-registry"}
        return [each for broker in without for each in self.left.get(broker, [])] if without else self.below


class FakeRegistry:
    """A registry whose topic may be another one."""

    topic = "plimsoll-registry"

    def __init__(self) -> None:
        self.replaced = False

    def entries(self) -> dict[str, Any]:
        return dict.fromkeys(OWN)

    def check(self, _topics: Collection[str], _entries: object) -> None:
        if self.replaced:
            raise HarnessError("the topic has another id")


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> tuple[Guard, FakeNeighbours, FakeRegistry]:
    """Return a guard that looks at each call, at second 100 of a run that may take 200."""
    monkeypatch.setattr(module, "WHOLE_LIMIT_S", 0)
    monkeypatch.setattr(module, "LOOKED_EVERY_S", 0)
    monkeypatch.setattr(module, "CHECKED_EVERY_S", 0)
    monkeypatch.setattr(module.time, "monotonic_ns", lambda: 100_000_000_000)
    neighbours, registry = FakeNeighbours(), FakeRegistry()
    guard = Guard(cast("Any", neighbours), cast("Any", registry), OWN, Caps(duration=200), began_ns=0)
    return guard, neighbours, registry


def test_a_whole_cluster_may_lose_a_broker(parts: tuple[Guard, FakeNeighbours, FakeRegistry]) -> None:
    """Nothing is raised, before and during."""
    guard, neighbours, _ = parts
    neighbours.left = {2: ["payments-0"]}
    guard.before_fault([1], is_first=True)
    guard.during(faults=True)


def test_no_fault_starts_while_replicas_are_missing(parts: tuple[Guard, FakeNeighbours, FakeRegistry]) -> None:
    """While another fault of the run is active, they may be."""
    guard, neighbours, _ = parts
    neighbours.behind = [TopicPartition("payments", 3)]
    with pytest.raises(HarnessError, match=r"to be in its ISR before a fault.*outside are those of payments-3"):
        guard.before_fault([1], is_first=True)
    guard.before_fault([1], is_first=False)


def test_no_broker_ends_that_others_need(parts: tuple[Guard, FakeNeighbours, FakeRegistry]) -> None:
    """The sentence names the partition."""
    guard, neighbours, _ = parts
    neighbours.left = {2: ["payments-0: leader 2, ISR [2], min.insync.replicas 1"]}
    with pytest.raises(HarnessError, match=r"Without brokers 1, 2, .* payments-0: leader 2.*; the fault is not"):
        guard.before_fault([2, 1], is_first=False)


def test_a_run_ends_once_others_suffer(parts: tuple[Guard, FakeNeighbours, FakeRegistry]) -> None:
    """Without a fault, it is not because of the run."""
    guard, neighbours, _ = parts
    neighbours.below = ["payments-0: leader 3, ISR [3], min.insync.replicas 2"]
    guard.during(faults=False)
    with pytest.raises(HarnessError, match=r"below their min.insync.replicas: payments-0"):
        guard.during(faults=True)


def test_a_topic_that_was_made_anew_ends_the_run(parts: tuple[Guard, FakeNeighbours, FakeRegistry]) -> None:
    """Also without a fault; before one, the phase has just checked its step."""
    guard, _, registry = parts
    registry.replaced = True
    guard.before_fault([1], is_first=True)
    with pytest.raises(HarnessError, match="another id"):
        guard.during(faults=False)


def test_a_run_ends_at_its_duration(
    parts: tuple[Guard, FakeNeighbours, FakeRegistry], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 200 s it goes on, then no more."""
    guard, *_ = parts
    monkeypatch.setattr(module.time, "monotonic_ns", lambda: 200_000_000_000)
    guard.during(faults=False)
    monkeypatch.setattr(module.time, "monotonic_ns", lambda: 200_100_000_000)
    with pytest.raises(HarnessError, match=r"longer than caps.duration of 200 s"):
        guard.during(faults=False)


def test_what_others_wrote_is_unknown_while_no_broker_answers(
    parts: tuple[Guard, FakeNeighbours, FakeRegistry], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run's topics and its registry are none of theirs, and a silent cluster ends no run."""
    guard, neighbours, _ = parts
    monkeypatch.setattr(neighbours, "written", lambda own: {"records": len(own)}, raising=False)
    assert guard.written_by_others() == {"records": 2}

    def silent(_: object) -> dict[str, float]:
        raise NoBroker("no broker answers")

    monkeypatch.setattr(neighbours, "written", silent)
    assert guard.written_by_others() == {}
