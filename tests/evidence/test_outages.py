"""Outages by others: brokers that did not answer the probe, and new leader epochs."""

from __future__ import annotations

from pathlib import Path

import pytest

from evidence.outages import outages_of_others
from evidence.run import open_folder
from history.manifest import ATTACHED
from tests.evidence.folders import S, clean, isr_view, sample

JOINED = [(18, 24), (28, 33)]
SHARED = {"origin": "attached", "evidence": ATTACHED}


@pytest.mark.parametrize(
    ("error", "spans"),
    [("unreachable", JOINED), ("timeout", JOINED), ("NOT_LEADER_OR_FOLLOWER", []), (None, [])],
)
def test_a_broker_that_does_not_answer_is_out(tmp_path: Path, error: str | None, spans: list[tuple[int, int]]) -> None:
    """Its silences are joined if they are less than the settling time apart; an error that it returns is an answer."""
    history = clean()
    history.manifest = history.manifest.model_copy(update=SHARED)
    history.replicas += [sample(2, second * S, 50, 50, received_ns=second * S, error=error) for second in (20, 21, 30)]
    found = outages_of_others(open_folder(history.write(tmp_path / "run")))
    assert found == [(begun * S, ended * S) for begun, ended in spans]


def test_a_leader_change_that_nobody_here_caused_is_an_outage(tmp_path: Path) -> None:
    """Each epoch but the first counts, when a broker first showed it; Plimsoll's own clusters know theirs."""
    history = clean()
    own = history.manifest
    history.isr += [isr_view(second * S, 2, 1, [2, 3], received_ns=second * S) for second in (25, 40)]
    history.manifest = own.model_copy(update=SHARED)
    assert outages_of_others(open_folder(history.write(tmp_path / "shared"))) == [(23 * S, 28 * S)]
    history.manifest = own
    assert outages_of_others(open_folder(history.write(tmp_path / "own"))) == []
