"""Choose the offered load: a share of what both sides sustain on this host, measured by one run of each beforehand.

A fixed rate is negligible on one host and too high on another; neither separates two versions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from clusters.scenario.scenario import Scenario
from history.results.compare import Arm, Knee, Sustained
from history.steady import MIN_SECONDS

PART = "knee"
METRIC = "sustainable_rate_per_s"
LIMIT = "1s"  # limit of p99; a backlog exceeds it by the end of a step, the noise of a busy host does not
STEPS_MB_PER_S = (0.5, 1, 2, 4, 8, 16, 32)
STEP_S = MIN_SECONDS + 10  # enough to detect a steady state; three replicas of all steps need 11 GB
WARM_UP = {"wait": {"for": {"steady_state": True}, "limit": "4m"}}
Row = Mapping[str, Any]


def steps(scenario: Scenario) -> dict[str, Any]:
    """Return a merge patch that gives a scenario with one load rising rates."""
    (load,) = scenario.named_loads.values()
    rates = [f"{max(round(step * 1e6 / load.sizes.mean), 1)}/s" for step in STEPS_MB_PER_S]
    phases: list[dict[str, Any]] = [{"warm up": [{"set_rate": rates[1]}, WARM_UP]}]
    phases += [
        {f"{step:g} MB/s": [{"set_rate": rate}, {"hold": f"{STEP_S}s"}]}
        for step, rate in zip(STEPS_MB_PER_S, rates, strict=True)
    ]
    return {"load": {"p99_limit": LIMIT}, "phases": phases}


def knee_of(settings: Mapping[str, Any], rows: Iterable[Row]) -> Knee | None:
    """Return the result of the runs with rising rates; None until all are judged. ``rows`` are the campaign's."""
    own = [row for row in rows if row["labels"].get("part") == PART]
    sides = [_sustained(arm, [row for row in own if row["labels"]["role"] == arm]) for arm in arms(settings["pairs"])]
    sustained = [side for side in sides if side]
    if len(sustained) < len(sides):
        return None
    rates = [side.per_s for side in sustained if side.per_s]
    known = min(rates) if len(rates) == len(sides) else None
    return Knee(
        share=settings["of_knee"],
        sides=sustained,
        rate_per_s=round(settings["of_knee"] * known) if known else None,
    )


def arms(pairs: int) -> tuple[Arm, ...]:
    """Return the sides that run: base alone if it is compared with itself."""
    return ("base", "head") if pairs else ("base",)


def _sustained(arm: Arm, rows: Sequence[Row]) -> Sustained | None:
    if not rows:
        return None
    found = next((row for row in rows if row["metric"] == METRIC), None)
    per_s = found["value"] if found else None
    why_not = (found["note"] if found else None) or rows[0]["sentence"]
    return Sustained(
        arm=arm,
        run_id=rows[0]["run_id"],
        per_s=per_s,
        at_least=bool(found and found["censored"]),
        why_not="" if per_s else str(why_not),
    )


def refusal(knee: Knee) -> str:
    """Explain why nothing was compared."""
    why = knee.why_not.removesuffix(".")
    return f"The rate that both sides sustain is not known, so that nothing else was run: {why}."
