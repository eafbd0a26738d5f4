"""Choose the offered load: a share of what both sides sustain here. A fixed rate may separate no versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from clusters.scenario.scenario import Scenario
from history.results.compare import Arm, Knee, Sustained
from history.steady import MIN_SECONDS

PART = "knee"
METRIC = "sustainable_rate_per_s"
LIMIT = "1s"  # p99 limit: a backlog exceeds it within a step, a busy host's noise does not
STEPS_MB_PER_S = (0.5, 1, 2, 4, 8, 16, 32)
STEP_S = MIN_SECONDS + 10  # detects a steady state; three replicas need 11 GB
WARM_UP = {"wait": {"for": {"steady_state": True}, "limit": "4m"}}
Row = Mapping[str, Any]


def steps(scenario: Scenario) -> dict[str, Any]:
    """Return a merge patch that gives a single-load scenario rising rates."""
    (load,) = scenario.named_loads.values()
    rates = [f"{max(round(step * 1e6 / load.sizes.mean), 1)}/s" for step in STEPS_MB_PER_S]
    phases: list[dict[str, Any]] = [{"warm up": [{"set_rate": rates[1]}, WARM_UP]}]
    phases += [
        {f"{step:g} MB/s": [{"set_rate": rate}, {"hold": f"{STEP_S}s"}]}
        for step, rate in zip(STEPS_MB_PER_S, rates, strict=True)
    ]
    return {"load": {"p99_limit": LIMIT}, "phases": phases}


def knee_of(settings: Mapping[str, Any], rows: Iterable[Row]) -> Knee | None:
    """Return the rising rates' result once all are judged."""
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
    """Return the sides that run: base alone for a self-comparison."""
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
