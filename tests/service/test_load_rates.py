"""The rates of the load, as shown during a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from service import load_rates
from service.load_rates import LoadRates, rates

S = 10**9


def producer(t_s: int, due: int, acked: int, waited_s: float) -> dict[str, int]:
    """Return a producer's progress at a time."""
    return {"t_ns": t_s * S, "due": due, "sent": due, "acked": acked, "waited_ns": int(waited_s * S)}


def test_rates_are_those_since_the_last_look() -> None:
    """Rates are differences since the last look, by each client's clock, summed per kind."""
    since = [
        (producer(10, 1000, 900, 9), producer(20, 11_000, 10_800, 18)),
        (producer(11, 0, 0, 9), producer(16, 2500, 2500, 13)),
        ({"t_ns": 0, "received": 100}, {"t_ns": 2 * S, "received": 2300}),
    ]

    assert rates(since) == "offered 1,500/s, sent 1,500/s, acknowledged 1,490/s, received 1,100/s"


def test_kafkas_own_producer_counts_by_its_answers() -> None:
    """VerifiableProducer reports no due records, so its sends count as offered."""
    java = ({"t_ns": 0, "sent": 0, "acked": 0}, {"t_ns": 2 * S, "sent": 200, "acked": 190})

    assert rates([(producer(0, 0, 0, 0), producer(10, 500, 400, 5)), java]) == (
        "offered 50/s, sent 150/s, acknowledged 135/s"
    )


def test_the_lag_of_a_group_is_that_of_its_members_together() -> None:
    """A group's lag is the sum of its members' last reports."""
    since = [({"t_ns": 0, "lag": 900}, {"t_ns": S, "lag": lag}) for lag in (1000, 500)]

    assert rates(since) == "the group is 1,500 records behind"


@pytest.mark.parametrize(("waited_s", "told"), [(1.0, True), (1.1, False)])
def test_a_generator_at_its_limit_is_told(waited_s: float, told: bool) -> None:
    """A generator that is busy for 90% of its time is reported as a possible limit."""
    line = rates([(producer(0, 0, 0, 0), producer(10, 10, 10, waited_s))])

    assert ("the generator is busy 90% of its time and may be the limit" in line) == told


def test_a_line_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line is shown at intervals, when clients have reported twice."""
    load = LoadRates(tmp_path)
    (tmp_path / "prober.json").write_text(json.dumps({"rows": 1}))

    def after(t_s: int) -> str:
        (tmp_path / "producer.json").write_text(json.dumps({"so_far": producer(t_s, 500 * t_s, 0, t_s)}))
        return load.look()

    monkeypatch.setattr(load_rates, "EVERY_NS", 0)
    assert after(1) == ""
    assert after(2) == "offered 500/s, sent 500/s, acknowledged 0/s"
    assert after(2) == ""
    monkeypatch.setattr(load_rates, "EVERY_NS", 10**15)
    assert after(3) == ""
