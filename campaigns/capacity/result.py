"""A capacity campaign's result: what was measured, what follows, and both in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from campaigns.campaign import Campaign
from campaigns.capacity import words
from campaigns.capacity.plan import Plan
from campaigns.capacity.study import Row, Study, runs_of

STATES = {"right": "pass", "over": "pass", "under": "fail", "unknown": "unknown"}
NOTHING_FOLLOWS: dict[str, Any] = {"plan": None, "recommendation": {"verdict": "unknown", "doubts": []}, "unsure": []}


def result(campaign: Campaign, rows: Sequence[Row]) -> dict[str, Any]:
    """Everything that the page and a machine need; null where something is unknown, and ``missing`` says why."""
    study = Study(campaign, runs_of(campaign, rows))
    told: dict[str, Any] = {
        "campaign_id": campaign.campaign_id,
        "created_at": campaign.created_at,
        "settings": campaign.settings,
        "runs": study.provenance(),
        "left_out": study.left_out,
        "knees": {role: study.knee_as_json(role) for role in ("knee", "degraded")},
        "catch_up": study.catch_up_as_json(),
        "model_check": study.model_check(),
        "missing": study.missing,
    }
    told |= Plan(study, study.measured).as_json() if study.measured else NOTHING_FOLLOWS
    state = STATES[told["recommendation"]["verdict"]]
    state = "unknown" if state == "pass" and told["unsure"] else state
    return {"sentence": words.sentence(told), "state": state, **told, **words.told(told)}
