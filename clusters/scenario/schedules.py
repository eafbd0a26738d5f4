"""Make random fault schedules: a seed, a length and a fault mix determine a scenario.

A fault is a phase that ends when everything is healed and the ISR is full; a quiet phase follows.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, ValidationError

from clusters.scenario.scenario import Scenario
from clusters.scenario.steps.catalog import STEPS
from clusters.scenario.steps.step import Step
from clusters.scenario.values import Model, seconds
from history.errors import BadInput
from history.refusals import first_wrong
from history.traits import Trait
from history.yaml_files import read_mapping

FAULT_MIX = Path(__file__).with_name("fault_mix.yaml")
HEALED_LIMIT_S = 90.0
MAX_DIGITS = 12
_MAX_DURING = 2
_USUAL_S = 8.0  # on top of its holds: effect, election, catching up
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)?\.\.(\d+(?:\.\d+)?)(ms|s|m)?")


class FaultTemplate(Model):
    """A fault with placeholders: ``$who`` for one of ``who``, ``$during`` for steps of the mix."""

    who: list[str] = Field(default_factory=list)
    steps: list[Any] = Field(min_length=1)


class FaultMix(Model):
    """The source of schedules, with cluster, topics and load.

    Without load a schedule begins with ``first``, to have records to lose. If ``at_rest`` is false, every schedule has
    load.
    """

    cluster: dict[str, Any]
    topics: dict[str, Any]
    load: dict[str, Any] | None = None
    at_rest: bool = True
    quiet: str
    first: list[dict[str, Any]] = Field(default_factory=list)
    faults: dict[str, FaultTemplate] = Field(min_length=1)
    during: list[dict[str, Any]] = Field(default_factory=list)


def read_fault_mix(path: Path = FAULT_MIX) -> FaultMix:
    """Read a fault mix from its file, or raise BadInput."""
    try:
        return FaultMix.model_validate(read_mapping(path, "The fault mix"))
    except ValidationError as error:
        raise BadInput(f"{path} is not a fault mix: {first_wrong(error)}.") from error


def possible(mix: FaultMix, can: Collection[str], lacking: Collection[str] = ()) -> FaultMix:
    """Remove faults that the cluster or the kernel does not support; raise BadInput if nothing is left."""

    def can_do(steps: list[Any]) -> bool:
        needs = {capability for step in _known(steps) for capability in step.needs}
        return needs <= set(can) and not _kernel_parts(steps).intersection(lacking)

    faults = {name: fault for name, fault in mix.faults.items() if can_do(fault.steps)}
    during = [step for step in mix.during if can_do([step])]
    if not faults:
        raise BadInput("This runtime and kernel support no fault of the mix; use --runtime=docker, or another mix.")
    return mix.model_copy(update={"faults": faults, "during": during})


def kernel_parts(mix: FaultMix) -> set[str]:
    """Return the kernel parts that the mix's steps need."""
    return _kernel_parts(mix.during).union(*(_kernel_parts(fault.steps) for fault in mix.faults.values()))


def _kernel_parts(steps: list[Any]) -> set[str]:
    return {part for step in _known(steps) for part in step.kernel}


def _need_load(steps: list[Any]) -> bool:
    """Return whether steps need load: without it no follower lags."""
    return any(Trait.NEEDS_LOAD in step.traits for step in _known(steps))


def _known(steps: list[Any]) -> list[type[Step]]:
    keys = {next(iter(step)) for step in steps if isinstance(step, dict) and step}
    return [STEPS[key] for key in keys if key in STEPS]


def randomised_schedule(mix: FaultMix, *, seed: int, length_s: float, load: bool = True) -> Scenario:
    """Return the schedule of a seed, about ``length_s`` long; raise BadInput if the mix makes no valid scenario."""
    rng = random.Random(seed)
    loaded = load and mix.load is not None
    mix = mix if loaded else _at_rest(mix)
    first = [] if loaded else [_drawn(step, {}, rng) for step in mix.first]
    phases: list[dict[str, Any]] = [{"quiet at first": [*first, _quiet(mix, rng)]}]
    lasted_s = _held_s(phases[0]["quiet at first"])
    while lasted_s < length_s:
        number = len(phases) // 2 + 1
        name, steps = _fault(mix, rng, least=0 if loaded else 1)
        healed = [{"heal": "all"}, *({"wait": _whole(topic)} for topic in mix.topics)]
        quiet = [_quiet(mix, rng)]
        phases += [{f"{number}: {name}": [*steps, *healed]}, {f"quiet after {number}": quiet}]
        lasted_s += _held_s([*steps, *quiet]) + _USUAL_S
    drawn = {
        "name": f"randomised_{seed}" if loaded else f"randomised_{seed}_at_rest",
        "why": f"Faults in an order that seed {seed} drew, each healed and followed by a quiet period.",
        "cluster": mix.cluster,
        "topics": mix.topics,
        **({"load": mix.load} if loaded else {}),
        "phases": phases,
    }
    try:
        return Scenario.model_validate(drawn)
    except ValidationError as error:
        raise BadInput(f"The fault mix makes no scenario: {first_wrong(error)}.") from error


def _at_rest(mix: FaultMix) -> FaultMix:
    faults = {name: fault for name, fault in mix.faults.items() if not _need_load(fault.steps)}
    if not faults:
        raise BadInput(f"Without a load no fault of the mix would show ({', '.join(mix.faults)}); give it a load.")
    return mix.model_copy(update={"faults": faults})


def _whole(topic: str) -> dict[str, Any]:
    return {"for": {"isr_full": topic}, "limit": HEALED_LIMIT_S}


def _quiet(mix: FaultMix, rng: random.Random) -> dict[str, Any]:
    return {"hold": _drawn(mix.quiet, {}, rng)}


def _fault(mix: FaultMix, rng: random.Random, least: int) -> tuple[str, list[dict[str, Any]]]:
    name = rng.choice(sorted(mix.faults))
    fault = mix.faults[name]
    gaps = {"$who": rng.choice(fault.who)} if fault.who else {}
    chosen = rng.choices(mix.during, k=rng.randint(least, _MAX_DURING)) if mix.during else []
    steps = (each for step in fault.steps for each in (chosen if step == "$during" else [step]))
    return name, [_drawn(each, gaps, rng) for each in steps]


def _drawn(value: Any, gaps: dict[str, str], rng: random.Random) -> Any:
    if isinstance(value, dict):
        return {key: _drawn(inner, gaps, rng) for key, inner in value.items()}
    if not isinstance(value, str):
        return value
    if value in gaps:
        return gaps[value]
    span = _SPAN.fullmatch(value)
    if span is None:
        return value
    least: float
    most: float
    if span[2] is None:
        least, most = _number(span[1], value), _number(span[3], value)
    elif span[4] is None:
        raise BadInput(
            f"The fault mix makes no scenario: {value!r} is not a span; both ends need a unit, such as 6s..12s."
        )
    else:
        least, most = _seconds(span[1] + span[2]), _seconds(span[3] + span[4])
    if least > most:
        raise BadInput(f"The fault mix makes no scenario: {value!r} is not a span; the smaller end comes first.")
    return rng.randint(int(least), int(most)) if span[2] is None else f"{round(rng.uniform(least, most), 2):g}s"


def _held_s(steps: list[dict[str, Any]]) -> float:
    return sum(_seconds(step["hold"]) for step in steps if isinstance(step, dict) and "hold" in step)


def _seconds(value: Any) -> float:
    try:
        found = seconds(value)
    except ValueError as error:
        raise BadInput(f"The fault mix makes no scenario: {error}.") from error
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 < found < math.inf:
        raise BadInput(f"The fault mix makes no scenario: {value!r} is not a duration such as 500ms, 5s or 2m.")
    return float(found)


def _number(digits: str, span: str) -> int:
    if not digits.isdecimal() or len(digits) > MAX_DIGITS:
        raise BadInput(f"The fault mix makes no scenario: {span!r} is not a span of whole numbers such as 20..80.")
    return int(digits)


def as_yaml(scenario: Scenario) -> str:
    """Return a scenario as YAML."""
    document = scenario.model_dump(mode="json", exclude_defaults=True)
    document["phases"] = scenario.model_dump(mode="json")["phases"]
    return yaml.safe_dump(document, sort_keys=False, width=120, allow_unicode=True)
