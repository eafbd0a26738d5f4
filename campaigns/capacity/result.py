"""A capacity campaign's result, in figures and words."""

from __future__ import annotations

from collections.abc import Sequence

from campaigns.campaign import Campaign, Row
from campaigns.capacity import lines, words
from campaigns.capacity.plan import Plan
from campaigns.capacity.study import Study, runs_of
from history.results.base import State
from history.results.capacity import CapacityResult, Recommendation, Recommended

STATES: dict[Recommended, State] = {"right": "pass", "over": "pass", "under": "fail", "unknown": "unknown"}
NOTHING_FOLLOWS = {"recommendation": Recommendation(verdict="unknown", doubts=[]), "unsure": []}


def result(campaign: Campaign, rows: Sequence[Row]) -> CapacityResult:
    """Return the result; None is unknown, and ``missing`` explains it."""
    study = Study(campaign, runs_of(campaign, rows))
    follows = Plan(study, study.measured).as_json() if study.measured else NOTHING_FOLLOWS
    measured = CapacityResult.model_validate(
        {
            "campaign_id": campaign.campaign_id,
            "created_at": campaign.created_at,
            "state": "unknown",
            "sentence": "",
            "settings": campaign.settings,
            "question": campaign.settings["question"],
            "resource_limits": campaign.settings["measurement"]["resource_limits"],
            "kafka": campaign.settings["measurement"]["kafka"],
            "runs": study.provenance(),
            "left_out": study.left_out,
            "knees": {role: study.knee_as_json(role) for role in ("knee", "degraded")},
            "catch_up": study.catch_up_as_json(),
            "model_check": study.model_check(),
            "partitions": study.partitions_as_json(),
            "missing": study.missing,
            **follows,
        }
    )
    state = STATES[measured.recommendation.verdict]
    spoken = {
        "state": "unknown" if state == "pass" and measured.unsure else state,
        "sentence": words.sentence(measured),
        "words": words.spoken(measured),
        "plan_table": list(lines.plan_table(measured, measured.plan)) if measured.plan else [],
        "limits": list(words.limits(measured)),
    }
    return measured.model_copy(update=spoken)
