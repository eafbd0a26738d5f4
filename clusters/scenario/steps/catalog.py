"""List all steps by key."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, ValidationError

from clusters.paths import ROOT
from clusters.scenario.steps import disks, flow, network, processes, topology
from clusters.scenario.steps.step import Step
from history.refusals import first_wrong
from history.traits import Trait

STEPS: dict[str, type[Step]] = {
    step.key: step for family in (flow, processes, disks, topology, network) for step in family.STEPS
}


def traits_by_step() -> dict[str, frozenset[Trait]]:
    """Return the traits of every step that has any."""
    return {key: step.traits for key, step in STEPS.items() if step.traits}


def _step(value: object) -> object:
    if isinstance(value, Step):
        return value
    if not isinstance(value, dict) or len(value) != 1:
        raise ValueError(f"a step is one key and its settings, such as 'hold: 5s', not {value!r}")
    key, settings = next(iter(value.items()))
    if key not in STEPS:
        raise ValueError(f"unknown step {key!r}; known: {', '.join(sorted(STEPS))}")
    try:
        return STEPS[key].model_validate(settings)
    except ValidationError as error:
        raise ValueError(_refusal(STEPS[key], settings, error)) from error


def _refusal(step: type[Step], settings: object, error: ValidationError) -> str:
    """Return what is wrong with a step's settings, for pydantic's errors with an example."""
    first = error.errors()[0]
    if first["type"] == "value_error":
        return first_wrong(error)
    what = first_wrong(error) if first["loc"] else f"{settings!r:.80} is not enough"
    return f"{what}; {step.takes()}, for example '{example_of(step.key)}'"


def example_of(key: str) -> str:
    """Return a step's first example in the docs."""
    pages = "\n".join((ROOT / "docs" / name).read_text() for name in ("faults.md", "scenarios.md"))
    found = re.search(rf"^ *- ({key}: [^#\n]*\w.*?) *(#.*)?$", pages, re.MULTILINE)
    return found[1] if found else f"{key}: …"


AnyStep = Annotated[Step, BeforeValidator(_step), PlainSerializer(lambda step: step.model_dump())]
