"""Every step declares its traits, and its error messages help."""

from typing import Any

import pytest
import yaml
from pydantic import TypeAdapter

from clusters.paths import ROOT
from clusters.scenario.steps.catalog import STEPS, AnyStep, traits_by_step
from history.traits import DOWN, Trait


@pytest.mark.parametrize("key", STEPS)
def test_every_step_is_classified(key: str) -> None:
    """Every step class declares its traits itself, so that a new step's effect on the evidence is never a default."""
    assert "traits" in vars(STEPS[key])


def test_every_trait_is_some_steps() -> None:
    """Every trait is declared by some step."""
    assert set().union(*traits_by_step().values()) == set(Trait)


def test_what_a_step_ends_is_a_fault() -> None:
    """A step that ends a fault names a fault step, and each fault that a step can end has one."""
    ends = [key for step in STEPS.values() for key in step.ends]

    assert sorted(ends) == ["disconnect", "kill", "limit_bandwidth", "pause", "stop"]
    assert all(STEPS[key].fault for key in ends)


def test_every_step_on_servers_names_what_it_needs() -> None:
    """A step needs a capability, unless a client or Kafka itself performs it."""
    by_clients = {"hold", "set_rate", "wait", "require", "heal", "describe", "write", "read", "kill_copier"}
    by_kafka = {
        "elect",
        "transfer_leadership",
        "reassign",
        "churn_leadership",
        "delete_records",
        "configure",
    }

    assert {key for key, step in STEPS.items() if not step.needs} == by_clients | by_kafka


@pytest.mark.parametrize(
    ("step", "required"),
    [
        ({"kill": "A"}, {"kill", "start"}),
        ({"kill": "member 1"}, set()),
        ({"pause": "members"}, set()),
        ({"pause": "active controller"}, {"pause", "controllers"}),
        ({"restart": "A"}, {"stop", "start"}),
        ({"restart": {"node": "A", "with": {"num.io.threads": 2}}}, {"stop", "start", "settings"}),
        ({"restart": "members"}, set()),
        ({"bounce": {"node": "A", "times": 2}}, {"stop", "start"}),
        ({"bounce": {"node": "A", "times": 2, "by": "kill"}}, {"kill", "start"}),
        ({"disconnect": {"node": "A", "from": "B"}}, {"disconnect"}),
        ({"disconnect": {"node": "A", "from": "controller"}}, {"disconnect", "controllers"}),
        ({"wait": {"for": {"isr_full": "orders"}}}, set()),
    ],
)
def test_what_is_required_depends_on_the_targets(step: dict[str, Any], required: set[str]) -> None:
    """A step on members of the group requires nothing of servers; one on controllers requires nodes of their own."""
    assert TypeAdapter(AnyStep).validate_python(step).required == required


@pytest.mark.parametrize("key", ["kill", "stop", "pause", "fill_disk", "read_only_disk"])
def test_a_broker_that_is_down_is_down_for_all_checks(key: str) -> None:
    """A step that takes a broker down has the traits of DOWN, also if a disk fault causes it; a CPU limit has not."""
    assert STEPS[key].traits >= DOWN
    assert not STEPS["limit_cpu"].traits >= DOWN


def test_only_steps_with_traits_are_recorded() -> None:
    """Steps without traits, such as ``hold``, are not in the manifest."""
    assert "hold" not in traits_by_step()
    assert traits_by_step()["flip_bit"] == {Trait.NEW_LOG}


@pytest.mark.parametrize("key", STEPS)
def test_the_example_of_a_step_is_one(key: str) -> None:
    """The example of each step, which its error messages give, is valid and in the documentation."""
    example = f"{key}: {STEPS[key].example}"
    pages = [(ROOT / "docs" / name).read_text() for name in ("faults.md", "scenarios.md")]

    assert TypeAdapter(AnyStep).validate_python(yaml.safe_load(example)).key == key
    assert any(f"- {example}" in page for page in pages)


def test_what_a_step_takes() -> None:
    """A step's error message lists its required fields first, and the optional ones if there are any."""
    assert STEPS["disconnect"].takes() == "disconnect takes node, from, and optionally direction"
    assert STEPS["hold"].takes() == "hold takes seconds"
