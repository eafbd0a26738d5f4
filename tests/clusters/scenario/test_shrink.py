"""Shrinking: the result still shows the effect, and no part of it can be left out."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusters.scenario.scenario import Scenario
from clusters.scenario.schedules import randomised_schedule, read_fault_mix
from clusters.scenario.shrink import ddmin, is_sound, shrink
from tests.clusters.fakes import scenario

FAULT_MIX = read_fault_mix()


@settings(max_examples=200)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=30, unique=True), st.data())
def test_ddmin_finds_the_very_part_that_matters(items: list[int], data: Any) -> None:
    """If a set of items shows the effect, exactly these are left, in order."""
    needed = data.draw(st.sets(st.sampled_from(items), min_size=1))
    assert ddmin(items, lambda left: needed <= set(left)) == [item for item in items if item in needed]


@settings(max_examples=200)
@given(st.lists(st.booleans(), min_size=1, max_size=40), st.integers(1, 5))
def test_ddmin_is_minimal_where_no_single_set_is_needed(items: list[bool], many: int) -> None:
    """If any n of some items show the effect, the result does, and does not without any one of its items."""
    numbered = list(enumerate(items))
    shows = lambda left: sum(item for _, item in left) >= many  # noqa: E731 - as a test of the property reads best
    if not shows(numbered):
        return
    left = ddmin(numbered, shows)

    assert shows(left)
    assert not any(shows(left[:index] + left[index + 1 :]) for index in range(len(left)) if len(left) > 1)
    assert all(first < second for first, second in pairwise(left))


def keys(told: Scenario) -> list[list[str]]:
    """Return the steps of each phase."""
    return [[step.key for step in phase.steps] for phase in told.phases]


def test_a_scenario_shrinks_to_the_steps_that_matter() -> None:
    """A scenario shrinks to the steps that show the effect; empty phases go, cluster and topics stay."""
    told = scenario(
        [{"hold": "1s"}],
        [{"pause": "C"}, {"hold": "2s"}, {"resume": "C"}, {"heal": "all"}],
        [{"kill": "leader of orders-0"}, {"start": "leader of orders-0"}],
    )
    small = shrink(told, lambda one: any(phase[:2] == ["pause", "hold"] for phase in keys(one)))

    assert keys(small) == [["pause", "hold"]]
    assert small.phases[0].name == "phase 2"
    assert (small.cluster, small.topics) == (told.cluster, told.topics)


def test_what_cannot_be_run_is_not_asked_about() -> None:
    """A scenario that cannot run, such as a resume without its pause, is never tried."""
    asked: list[Scenario] = []
    told = scenario([{"pause": "C"}, {"resume": "C"}, {"hold": "1s"}])

    def shows(one: Scenario) -> bool:
        asked.append(one)
        return any("resume" in phase for phase in keys(one))

    assert keys(shrink(told, shows)) == [["pause", "resume"]]
    assert asked
    assert all(map(is_sound, asked))


@pytest.mark.parametrize(
    ("steps", "sound"),
    [
        ([{"pause": "C"}, {"resume": "C"}], True),
        ([{"resume": "C"}], False),
        ([{"pause": "B"}, {"resume": "C"}], False),
        ([{"pause": "C"}, {"resume": "C"}, {"resume": "C"}], False),
        ([{"pause": "C"}, {"heal": "all"}, {"resume": "C"}], False),
        ([{"kill": "C"}, {"start": "C"}], True),
        ([{"stop": "C"}, {"start": "C"}], True),
        ([{"pause": "C"}, {"start": "C"}], False),
        ([{"kill": "C"}], True),
        ([{"disconnect": {"node": "C", "from": ["A", "B"]}}, {"reconnect": {"node": "C", "from": ["A", "B"]}}], True),
        ([{"disconnect": {"node": "C", "from": ["A", "B"]}}, {"reconnect": {"node": "C", "from": "A"}}], False),
        ([{"limit_bandwidth": {"into": "C", "from": "A", "rate": "1MB/s"}}, {"restore_bandwidth": "C"}], True),
        ([{"limit_bandwidth": {"into": "C", "rate": "1MB/s"}}, {"restore_bandwidth": "B"}], False),
    ],
)
def test_a_phase_ends_only_what_it_began(steps: list[dict[str, Any]], sound: bool) -> None:
    """A phase may only end faults that it began."""
    assert is_sound(scenario(steps)) == sound


def test_a_step_without_what_it_needs_is_not_sound() -> None:
    """A step without its precondition is invalid, such as a wipe of a running broker."""
    told = scenario([{"kill": "C"}, {"wipe": "C"}, {"start": "C"}])
    (phase,) = told.phases
    without = told.model_copy(update={"phases": [phase.model_copy(update={"steps": phase.steps[1:2]})]})

    assert is_sound(told)
    assert not is_sound(without)


def test_each_phase_ends_its_own() -> None:
    """A phase cannot resume what an earlier phase paused."""
    assert not is_sound(scenario([{"pause": "C"}], [{"resume": "C"}]))


@settings(max_examples=20)
@given(st.integers(0, 10_000))
def test_a_randomised_schedule_shrinks_to_one_fault_that_shows_it(seed: int) -> None:
    """A random schedule shrinks to the single fault that shows the effect."""
    drawn = randomised_schedule(FAULT_MIX, seed=seed, length_s=200)
    shows = lambda one: "pause" in {key for phase in keys(one) for key in phase}  # noqa: E731 - as above
    if shows(drawn):
        assert keys(shrink(drawn, shows)) == [["pause"]]
