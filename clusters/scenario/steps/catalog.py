"""Import all modules of this folder, which registers their steps, and parse a scenario's steps."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, ValidationError

from clusters.scenario import steps
from clusters.scenario.steps.step import Step
from history.refusals import first_wrong
from history.traits import Trait

for _module in iter_modules(steps.__path__, f"{steps.__name__}."):
    import_module(_module.name)
STEPS = Step.by_key


def traits_by_step() -> dict[str, frozenset[Trait]]:
    """Return step key → traits, without steps that have none; the manifest records them."""
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
    """Return an error message; it ends with the step's fields and an example, unless a rule of the step failed."""
    first = error.errors()[0]
    if first["type"] == "value_error":
        return first_wrong(error)
    what = first_wrong(error) if first["loc"] else f"{settings!r:.80} is not enough"
    return f"{what}; {step.takes()}, for example '{step.key}: {step.example}'"


AnyStep = Annotated[Step, BeforeValidator(_step), PlainSerializer(lambda step: step.model_dump())]
