"""Every step is classified, what it names exists, and whoever got one wrong is helped."""

import pytest
import yaml
from pydantic import TypeAdapter

from clusters.scenario.steps.catalog import STEPS, AnyStep, example_of, traits_by_step
from history.traits import DOWN, Trait


@pytest.mark.parametrize("key", STEPS)
def test_every_step_is_classified(key: str) -> None:
    """By its own class: what a new step does to the evidence is never left to a default."""
    assert "traits" in vars(STEPS[key])


def test_every_trait_is_some_steps() -> None:
    """One that nobody declares would be read in vain."""
    assert set().union(*traits_by_step().values()) == set(Trait)


def test_what_a_step_ends_is_a_fault() -> None:
    """And each fault that has an end of its own has one such step."""
    ends = [key for step in STEPS.values() for key in step.ends]

    assert sorted(ends) == ["disconnect", "kill", "limit_bandwidth", "pause", "stop"]
    assert all(STEPS[key].fault for key in ends)


@pytest.mark.parametrize("key", ["kill", "stop", "pause", "fill_disk", "read_only_disk"])
def test_a_broker_that_is_down_is_down_for_all_checks(key: str) -> None:
    """A full disk ends its broker as a kill does; a broker with little CPU runs."""
    assert STEPS[key].traits >= DOWN
    assert not STEPS["limit_cpu"].traits >= DOWN


def test_only_steps_with_traits_are_recorded() -> None:
    """A step that does nothing to nodes need not stand in a manifest."""
    assert "hold" not in traits_by_step()
    assert traits_by_step()["flip_bit"] == {Trait.NEW_LOG}


@pytest.mark.parametrize("key", STEPS)
def test_the_example_of_a_step_is_one(key: str) -> None:
    """The docs' own, on one line."""
    step = TypeAdapter(AnyStep).validate_python(yaml.safe_load(example_of(key)))

    assert step.key == key


def test_what_a_step_takes() -> None:
    """As it is written, what it needs first; one without options says nothing of them."""
    assert STEPS["disconnect"].takes() == "disconnect takes node, from, and optionally direction"
    assert STEPS["hold"].takes() == "hold takes seconds"
