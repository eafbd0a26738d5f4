"""What the catalogue of steps says to somebody who got one wrong."""

from __future__ import annotations

import pytest
import yaml
from pydantic import TypeAdapter

from clusters.scenario.steps.catalog import STEPS, AnyStep, example_of


@pytest.mark.parametrize("key", STEPS)
def test_the_example_of_a_step_is_one(key: str) -> None:
    """The docs' own, on one line."""
    step = TypeAdapter(AnyStep).validate_python(yaml.safe_load(example_of(key)))

    assert step.key == key


def test_what_a_step_takes() -> None:
    """As it is written, what it needs first; one without options says nothing of them."""
    assert STEPS["cut"].takes() == "cut takes node, from, and optionally direction"
    assert STEPS["hold"].takes() == "hold takes seconds"
