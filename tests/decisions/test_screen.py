"""Simulated histories are what they say, and the screen is right about them (a small part of docs/trust.md)."""

import math

import numpy as np
import pytest

from campaigns.statistics.changes import MIN_NIGHTLY_RUNS
from tests.decisions.screen import (
    NIGHTLY_RUNS,
    Kind,
    detections,
    draw,
    false_alarms,
    nightly_run,
    nightly_runs,
)

TEN = math.log(1.1)


def test_an_injected_change_is_found_in_its_nightly_run_with_its_size() -> None:
    """60 nightly runs at 2 % noise, 10 % slower from the 40th on: confirmed there and on the last one, in size."""
    history = draw(np.random.default_rng(4), "normal", 0.02, since=40, log=TEN)
    said = nightly_runs(history)

    assert [told.state for told in said[: 40 - MIN_NIGHTLY_RUNS]] == ["quiet"] * (40 - MIN_NIGHTLY_RUNS)
    assert (nightly_run(history, 40).state, nightly_run(history, 40).since) == ("confirmed", 40)
    assert (said[-1].state, said[-1].since) == ("confirmed", 40)
    assert nightly_run(history, 45).log == pytest.approx(TEN, abs=0.03)


def test_two_steps_below_the_margin_add_up_as_in_the_shipped_screen() -> None:
    """Twice 4 % under a margin of 5 %: after the second the newest level is compared with the first one, too."""
    history = draw(np.random.default_rng(4), "normal", 0.01)
    steps = [math.log(1.04) * (night >= 40) + math.log(1.04) * (night >= 50) for night in range(NIGHTLY_RUNS)]
    history.subject[...] += np.array(steps)[:, None]
    history.reruns[...] += np.array(steps)[:, None]

    assert nightly_run(history, 48).state == "quiet"
    assert nightly_run(history, 58).state in ("candidate", "confirmed")


def test_a_history_without_a_change_raises_nothing() -> None:
    """The same noise with nothing injected: 52 quiet nightly runs."""
    assert {told.state for told in nightly_runs(draw(np.random.default_rng(4), "normal", 0.02))} == {"quiet"}


def test_a_host_that_slows_everything_down_is_not_taken_for_kafka() -> None:
    """20 % more for subject, release, control and reruns alike, from nightly run 40 on."""
    history = draw(np.random.default_rng(4), "normal", 0.02)
    for runs in (history.subject, history.release, history.control):
        runs[40:] += math.log(1.2)

    assert {told.state for told in nightly_runs(history)[40 - MIN_NIGHTLY_RUNS :]} == {"host"}


@pytest.mark.parametrize(
    ("kind", "shared"), [("normal", False), ("own_ar1", False), ("host_ar1", True), ("host_drift", True)]
)
def test_what_the_host_does_is_in_every_series(kind: Kind, shared: bool) -> None:
    """Subject and release move together where the host moves, and the reruns of a nightly run do not see it."""
    history = draw(np.random.default_rng(1), kind, 0.03)
    together = np.corrcoef(history.subject.mean(axis=1), history.release.mean(axis=1))[0, 1]

    assert (together > 0.5) == shared
    assert (history.reruns.mean(axis=1).std() > 0.03) == (kind == "own_ar1")


def test_counts_have_their_intervals() -> None:
    """Two histories are too few to say much: none of two still allows 84 %."""
    alarms = false_alarms("normal", 0.02, 2, seed=4)
    found = detections(20, 0.02, 2, seed=4)

    assert (alarms["confirmed"]["histories"], alarms["nightly_runs"]) == (0, 2 * (NIGHTLY_RUNS - MIN_NIGHTLY_RUNS))
    assert alarms["confirmed"]["interval"] == pytest.approx((0, 0.842), abs=1e-3)
    assert (found["confirmed_in_first_run"]["shown"], found["right_run"]["shown"]) == (2, 2)
    assert found["size"][1] == pytest.approx(20, abs=4)
