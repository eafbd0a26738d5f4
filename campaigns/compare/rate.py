"""How much load a comparison offers: a share of what base sustains on this host, found in one run before all others.

A rate that is fixed beforehand is next to nothing on one host and too much on another, and neither tells two versions
apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from clusters.scenario.scenario import Scenario
from history.results.compare import Knee

PART = "knee"
METRIC = "sustainable_rate_per_s"
LIMIT = "250ms"  # of the 99th percentile: beyond it a rate is not sustained
STEPS_MB_PER_S = (0.5, 1, 2, 4, 8, 12, 16, 24, 32)
STEP_S, WARM_UP_S = 6, 30  # a run keeps all that was written: 2 GB of three replicas
Row = Mapping[str, Any]


def steps(scenario: Scenario) -> dict[str, Any]:
    """A merge patch that makes a scenario with one load one of rising rates."""
    (load,) = scenario.named_loads.values()
    rates = [f"{max(round(step * 1e6 / load.sizes.mean), 1)}/s" for step in STEPS_MB_PER_S]
    phases = [{"warm up": [{"set_rate": rates[1]}, {"hold": f"{WARM_UP_S}s"}]}]
    phases += [
        {f"{step:g} MB/s": [{"set_rate": rate}, {"hold": f"{STEP_S}s"}]}
        for step, rate in zip(STEPS_MB_PER_S, rates, strict=True)
    ]
    return {"load": {"p99_limit": LIMIT}, "phases": phases}


def knee_of(share: float, rows: Iterable[Row]) -> Knee | None:
    """What the run of rising rates found; None before it was judged. ``rows`` are the campaign's."""
    own = [row for row in rows if row["labels"].get("part") == PART]
    if not own:
        return None
    found = next((row for row in own if row["metric"] == METRIC), None)
    sustained_per_s = found["value"] if found else None
    why_not = (found["note"] if found else None) or own[0]["sentence"]
    return Knee(
        run_id=own[0]["run_id"],
        share=share,
        sustained_per_s=sustained_per_s,
        at_least=bool(found and found["censored"]),
        rate_per_s=round(share * sustained_per_s) if sustained_per_s else None,
        why_not="" if sustained_per_s else str(why_not),
    )


def refusal(knee: Knee) -> str:
    """Why nothing was compared."""
    return f"The rate that base sustains is not known, so that nothing else was run: {knee.why_not.removesuffix('.')}."
