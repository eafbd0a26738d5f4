"""Direct writes and their ledger."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusters.clients import direct_writes
from clusters.clients.direct_writes import write_directly
from clusters.kafka.producing import Produced
from clusters.scenario.scenario import Scenario
from clusters.scenario.steps.flow import Write
from history.events import read_events
from history.streams import read_stream
from tests.clusters.fakes import FakeWorld

WRITE = {"to": "A", "topic": "orders", "records": 3}


def scenario(*writes: dict[str, Any]) -> Scenario:
    """Return a scenario with these writes, one phase each."""
    return Scenario.model_validate(
        {
            "name": "s",
            "why": "w",
            "cluster": {"brokers": 2},
            "topics": {"orders": {"replicas": ["A", "B"]}},
            "phases": [{f"phase {n}": [{"hold": 1}, {"write": write}]} for n, write in enumerate(writes)],
        }
    )


@pytest.fixture
def world(tmp_path: Path) -> Any:
    """Return a world with two brokers."""
    world = FakeWorld(tmp_path, scenario(WRITE))
    (world.folder.work / "streams").mkdir()
    world.folder.clients.mkdir()
    return world


@pytest.mark.parametrize(
    ("acks", "rows", "acked"),
    [
        ("1", [("ok", None, 7), ("info", "REQUEST_TIMED_OUT", None), ("fail", "never_sent", None)], 1),
        (
            "0",
            [("info", "no_acknowledgement", 7), ("info", "REQUEST_TIMED_OUT", None), ("fail", "never_sent", None)],
            0,
        ),
    ],
)
def test_every_direct_write_stands_in_the_ledger(
    world: Any, monkeypatch: pytest.MonkeyPatch, acks: str, rows: list[Any], acked: int
) -> None:
    """Each direct write has a ledger row with its outcome; with acks=0 the outcome is unknown."""
    answers = [
        Produced(1, 2, 7, None),
        Produced(3, 4, None, "REQUEST_TIMED_OUT"),
        Produced(None, None, None, "never_sent"),
    ]
    monkeypatch.setattr(direct_writes, "produce", lambda *_, **__: answers)
    world.replan(scenario=scenario({**WRITE, "acks": acks}))
    step: Any = world.scenario.phases[0].steps[1]
    write_directly(world, world.servers.brokers[1], step, "phase 0", lambda: True)

    ledger = [
        row for batch in read_stream(world.folder.work / "streams" / "sends-write-1.arrow") for row in batch.to_pylist()
    ]
    assert [(row["outcome"], row["error"], row["offset"]) for row in ledger] == rows
    assert [row["seq"] for row in ledger] == [0, 1, 2]
    assert {(row["producer_id"], row["acks"], row["record_bytes"]) for row in ledger} == {("write-1", acks, 100)}
    (event,) = read_events(world.folder.events)
    assert event.detail == {"acked": acked, "sent": 3}
    assert '"last_seq": 2' in (world.folder.clients / "write-1.json").read_text()


def test_records_of_a_batch_share_its_answer(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of a batch get consecutive offsets from the base offset of its answer; the last batch may be smaller."""
    sent: list[int] = []

    def answer(
        _connection: object, _topic: str, _partition: int, batches: Any, _acks: str, **_: object
    ) -> list[Produced]:
        sent.extend(len(batch) for batch in batches)
        return [Produced(1, 2, 7, None), Produced(3, 4, None, "REQUEST_TIMED_OUT")]

    monkeypatch.setattr(direct_writes, "produce", answer)
    world.replan(scenario=scenario({**WRITE, "batch": 2}))
    step: Any = world.scenario.phases[0].steps[1]
    write_directly(world, world.servers.brokers[1], step, "phase 0", lambda: True)

    ledger = [
        row for batch in read_stream(world.folder.work / "streams" / "sends-write-1.arrow") for row in batch.to_pylist()
    ]
    assert sent == [2, 1]
    assert [(row["seq"], row["outcome"], row["offset"]) for row in ledger] == [
        (0, "ok", 7),
        (1, "ok", 8),
        (2, "info", None),
    ]


def test_direct_writes_are_counted_through_the_scenario() -> None:
    """Equal write steps have different producer ids, numbered through the scenario."""
    told = scenario(WRITE, WRITE, {**WRITE, "records": 5})
    writes = [step for step in told.steps if isinstance(step, Write)]

    assert [told.id_of(step) for step in writes] == ["write-1", "write-2", "write-3"]


def test_what_was_answered_stands_in_the_ledger_before_the_end(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that is interrupted keeps the acknowledgements received so far in the ledger."""

    def broken_off(*_: object, **__: object) -> Iterator[Produced]:
        yield Produced(1, 2, 7, None)
        raise KeyboardInterrupt

    monkeypatch.setattr(direct_writes, "produce", broken_off)
    step: Any = world.scenario.phases[0].steps[1]
    with pytest.raises(KeyboardInterrupt):
        write_directly(world, world.servers.brokers[1], step, "phase 0", lambda: True)

    (batch,) = read_stream(world.folder.work / "streams" / "sends-write-1.arrow")
    assert [(row["seq"], row["outcome"], row["offset"]) for row in batch.to_pylist()] == [(0, "ok", 7)]
