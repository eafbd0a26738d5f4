"""All steps, by their keys."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer

from clusters.scenario.steps import disks, flow, network, processes, topology
from clusters.scenario.steps.step import Step
from history.traits import Trait

STEPS: dict[str, type[Step]] = {
    step.key: step for family in (flow, processes, disks, topology, network) for step in family.STEPS
}


def traits_by_step() -> dict[str, frozenset[Trait]]:
    """The traits of every step that has any, as a manifest holds them."""
    return {key: step.traits for key, step in STEPS.items() if step.traits}


def _step(value: object) -> object:
    if isinstance(value, Step):
        return value
    if not isinstance(value, dict) or len(value) != 1:
        raise ValueError(f"a step is one key and its settings, such as 'hold: 5s', not {value!r}")
    key, settings = next(iter(value.items()))
    if key not in STEPS:
        raise ValueError(f"unknown step {key!r}; known: {', '.join(sorted(STEPS))}")
    return STEPS[key].model_validate(settings)


AnyStep = Annotated[Step, BeforeValidator(_step), PlainSerializer(lambda step: step.model_dump())]
