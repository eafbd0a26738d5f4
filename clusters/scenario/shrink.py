"""Reduce a scenario that shows an effect, with ddmin (Zeller and Hildebrandt, 2002).

Removing any single step of the result loses the effect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from pydantic import ValidationError

from clusters.scenario.scenario import Phase, Scenario
from clusters.scenario.steps.step import Step

T = TypeVar("T")


def ddmin(items: Sequence[T], shows: Callable[[list[T]], bool]) -> list[T]:
    """Return a minimal ordered part of ``items`` that still ``shows`` the effect.

    Neither ``items`` nor the empty list is tested.
    """
    left, parts = list(items), 2
    while len(left) >= 2:
        size = max(1, len(left) // parts)
        chunks = [(first, min(first + size, len(left))) for first in range(0, len(left), size)]
        smaller = next((rest for first, end in chunks if (rest := left[:first] + left[end:]) and shows(rest)), None)
        if smaller is not None:
            left, parts = smaller, max(parts - 1, 2)
        elif size == 1:
            break
        else:
            parts = min(parts * 2, len(left))
    return left


def shrink(scenario: Scenario, shows: Callable[[Scenario], bool]) -> Scenario:
    """Return the scenario with a minimal set of steps, whole phases first."""
    phases = ddmin(scenario.phases, lambda left: shows(scenario.model_copy(update={"phases": left})))
    steps = [(phase.name, step) for phase in phases for step in phase.steps]

    def still(left: Sequence[tuple[str, Step]]) -> bool:
        smaller = _with_steps(scenario, left)
        return is_sound(smaller) and shows(smaller)

    return _with_steps(scenario, ddmin(steps, still))


def _with_steps(scenario: Scenario, steps: Sequence[tuple[str, Step]]) -> Scenario:
    by_phase: dict[str, list[Step]] = {}
    for phase, step in steps:
        by_phase.setdefault(phase, []).append(step)
    phases = [Phase(name=name, steps=own) for name, own in by_phase.items()]
    return scenario.model_copy(update={"phases": phases})


def is_sound(scenario: Scenario) -> bool:
    """Return whether the scenario is valid and heals only faults of the same phase."""
    try:
        Scenario.model_validate(scenario.model_dump(mode="json"))
    except ValidationError:
        return False
    return all(_ends_what_it_began(phase) for phase in scenario.phases)


def _ends_what_it_began(phase: Phase) -> bool:
    active: set[tuple[str, tuple[str, ...]]] = set()
    for step in phase.steps:
        if step.ends_all:
            active.clear()
        elif step.ends:
            ended = {(key, step.scope) for key in step.ends} & active
            if not ended:
                return False
            active -= ended
        elif step.fault:
            active.add((step.key, step.scope))
    return True
