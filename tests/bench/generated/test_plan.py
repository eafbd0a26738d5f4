"""Positions of generated cases, and the clock of a generated run."""

from __future__ import annotations

import numpy as np
import pytest

from bench.generated.plan import MS, PHANTOM_SEQ, Plan, Planted
from history.errors import BadInput


def test_records_are_shared_among_partitions_and_producers_without_a_gap() -> None:
    """Each producer numbers its own records from 0 over all partitions, without a gap or a duplicate."""
    plan = Plan(1003, partitions=2, producers=2)
    named = [plan.names(part, np.arange(part.records)) for part in map(plan.partition, range(2))]
    sent = [{(int(p), int(s)) for p, s in zip(*pair, strict=True)} for pair in named]

    assert [plan.partition(number).records for number in range(2)] == [502, 501]
    assert len(sent[0] | sent[1]) == 1003
    assert {s % 2 for _, s in sent[0]} == {0}
    counts = [sum(plan.sent_by(plan.partition(n), producer) for n in range(2)) for producer in range(2)]
    assert counts == [sum(p == producer for p, _ in sent[0] | sent[1]) for producer in range(2)]


def test_planted_cases_are_different_records() -> None:
    """Generated cases are different records: lost ones in the first half, the others in the second, never the last."""
    plan = Plan(800, planted=Planted(lost=70, corrupt=3, aborted=4, duplicates=5, reordered=6))
    part = plan.partition(0)
    others = np.concatenate([part.corrupt, part.aborted, part.duplicated, part.reordered])
    lost = np.flatnonzero(plan.lost(part, np.arange(800)))

    assert (len(lost), len(part.lost_batches), part.cut_records) == (70, 1, 6)
    assert len(set(others.tolist())) == 18
    assert lost.max() < others.min() <= others.max() < 799


def test_copies_and_phantom_records_follow_the_load() -> None:
    """A copy has its record's name; a phantom record has a name that no send has."""
    plan = Plan(800, producers=2, planted=Planted(duplicates=2, phantoms=1))
    part = plan.partition(0)
    producer, seq = plan.names(part, np.array([800, 801, 802]))
    first = plan.names(part, part.duplicated)

    assert part.end_offset == 803
    assert (producer[:2].tolist(), seq[:2].tolist()) == (first[0].tolist(), first[1].tolist())
    assert seq[2] == PHANTOM_SEQ


@pytest.mark.parametrize("planted", [Planted(lost=7), Planted(corrupt=3)])
def test_a_run_without_room_is_refused(planted: Planted) -> None:
    """A run that is too small for its cases is rejected; with one case fewer it can be planned."""
    kind = "lost" if planted.lost else "corrupt"
    fitting = Planted(**{kind: getattr(planted, kind) - 1})

    with pytest.raises(BadInput, match="plant fewer or write more"):
        Plan(10, planted=planted).partition(0)
    assert Plan(11, planted=fitting).partition(0).records == 11


@pytest.mark.parametrize(("name", "value"), [("records", 0), ("seconds", 9), ("record_bytes", 63)])
def test_numbers_out_of_bounds_are_refused(name: str, value: int) -> None:
    """A number outside its limits is rejected with the value and the limits."""
    with pytest.raises(BadInput, match=rf"{name} is {value}; choose"):
        Plan(**{"records": 1000, name: value})


def test_a_negative_number_of_cases_is_refused() -> None:
    """A negative number of cases is rejected."""
    with pytest.raises(BadInput, match="lost is -1"):
        Plan(1000, planted=Planted(lost=-1))


def test_the_high_watermark_waits_for_the_stopped_follower_until_it_has_left_the_isr() -> None:
    """The high watermark waits for the stopped follower until it leaves the ISR, and passes each record on time."""
    plan = Plan(1000, seconds=10)
    part = plan.partition(0)
    stopped, shrunk = plan.stopped_ns, plan.shrunk_ns
    held = plan.high_watermark(part, np.array([stopped + 2 * MS, shrunk]))
    after = plan.high_watermark(part, np.array([shrunk + 1 * MS]))
    at = plan.committed(part, np.arange(part.records))

    assert held[0] == held[1] < plan.log_end(part, np.array([shrunk]))[0]
    assert after[0] == plan.log_end(part, np.array([shrunk]))[0]
    assert (plan.high_watermark(part, at) > np.arange(part.records)).all()
    assert (plan.high_watermark(part, at - 1) <= np.arange(part.records)).all()


def test_a_single_replica_waits_for_nobody() -> None:
    """A single replica has no fault, and its high watermark is the log end offset."""
    plan = Plan(1000, replicas=1, seconds=10)
    moments = np.arange(plan.load_ns, plan.load_end_ns, 10 * MS)

    assert (plan.high_watermark(plan.partition(0), moments) == plan.log_end(plan.partition(0), moments)).all()
