"""The result of a comparison with something of everything: a regression, censored times, a lost run, pressure."""

from __future__ import annotations

import math
from typing import Any

from campaigns.campaign import Campaign
from campaigns.compare.campaign import result
from history.results.compare import CompareResult
from tests.campaigns.comparison import NOISE, campaign, rows

# Metric, phase, base's value, head's change, how much of the usual noise.
MEASURED = [
    ("latency_p50_ms", "steady", 2.0, 0.01, 1),
    ("latency_p99_ms", "steady", 9.0, 0.12, 1),
    ("latency_p999_ms", "steady", 22.0, 0.05, 6),
    ("latency_p50_ms", "leader dies", 3.0, 0.0, 2),
    ("latency_p99_ms", "leader dies", 900.0, -0.15, 2),
    ("latency_p999_ms", "leader dies", 2400.0, 0.02, 4),
    ("broker_cpu_s_per_gb", "steady", 41.0, -0.01, 0.5),
    ("broker_memory_peak_mb", "", 910.0, 0.004, 0.1),
    ("sustainable_rate_per_s", "", 5200.0, -0.02, 2),
    ("detect_s", "leader dies", 9.1, 0.01, 0.4),
    ("isr_shrink_s", "leader dies", 9.3, 0.15, 5),
    ("offered_per_s", "steady", 1000.0, 0.0, 0.02),
    ("gc_ms", "steady", 31.0, 0.3, 8),
    ("request_produce_ms", "steady", 4.0, 0.11, 2),
    ("request_produce_local_ms", "steady", 0.6, 0.02, 2),
    ("host_steal_ratio", "steady", 0.004, 0.0, 9),
]
PRIMARY = {"latency_p99_ms@steady": 0.05, "broker_cpu_s_per_gb@steady": 0.05, "elect_s@leader dies": 0.10}


def a_comparison(**settings: Any) -> tuple[Campaign, list[dict[str, Any]]]:
    """The plan, and the archive's rows of all its runs."""
    plan = campaign(pairs=10, aa_pairs=5, primary=PRIMARY, **settings)
    names = {
        role: [item.name for item in plan.items if item.labels["role"] == role and item.labels["part"] == "comparison"]
        for role in ("base", "head")
    }
    about: dict[str, dict[str, Any]] = {
        names["head"][3]: {"verdict": "unknown", "sentence": "Inconclusive: the drain ended early."},
        names["base"][6]: {"trusted": False, "note": "the share of CPU time taken by other machines was 9%, above 5%"},
        **{name: {"anomalies": {"behaviour_change": 2}} for name in names["base"][:5]},
    }
    found = []
    for index, (metric, phase, base, change, scale) in enumerate(MEASURED):
        shifted = [scale * value for value in NOISE[index % 10 :] + NOISE[: index % 10]]
        found += rows(plan, change, place=(metric, phase), base=base, noise=shifted, about=about)
    late = {name: {**about.get(name, {}), "value": 30.0, "censored": True} for name in names["head"][:2]}
    spread = [2 * value for value in NOISE]
    found += rows(plan, 0.05, place=("elect_s", "leader dies"), base=9.4, noise=spread, about={**about, **late})
    for metric in ("loss_ratio", "duplication_ratio"):
        found += rows(
            plan,
            place=(metric, ""),
            base=1.0,
            about={item.name: {"value": 0.0, **about.get(item.name, {})} for item in plan.items},
        )
    return plan, found


def a_result(**settings: Any) -> CompareResult:
    """Its result."""
    plan, found = a_comparison(**settings)
    assert all(math.isfinite(row["value"]) for row in found)
    return result(plan, found)
