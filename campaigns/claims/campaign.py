"""What one version of Kafka answers to the claims: ``make claims``. docs/claims.md has the answers of many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from campaigns.campaign import Campaign, Item
from campaigns.claims import KIND
from claims.answers import answers, read_runs
from claims.table import CLAIMS, EXPERIMENTS, LINES, WALKTHROUGHS
from claims.walkthrough import walkthroughs


class Question(BaseModel):
    """Which Kafka is asked; ``experiments`` may leave some out, and what only they show is then not observable."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kafka: str
    mode: Literal["kraft", "zookeeper"] | None = None  # none: as the version has it
    runtime: str = "auto"
    experiments: list[str] = Field(default_factory=lambda: [*EXPERIMENTS, *WALKTHROUGHS], min_length=1)

    @field_validator("kafka")
    @classmethod
    def _known(cls, value: str) -> str:
        if ".".join(value.split(".")[:2]) not in LINES:
            raise ValueError(
                f"{value} is no version that the claims know; known are {', '.join(LINES)} and their patches"
            )
        return value

    @field_validator("experiments")
    @classmethod
    def _there(cls, value: list[str]) -> list[str]:
        if unknown := [name for name in value if name not in (*EXPERIMENTS, *WALKTHROUGHS)]:
            raise ValueError(f"{unknown[0]!r} is no experiment; known: {', '.join((*EXPERIMENTS, *WALKTHROUGHS))}")
        return value


def plan(settings: Mapping[str, Any], *, campaign_id: str, created_at: str, seed: int) -> Campaign:
    """One run of each experiment.

    Raises:
        BadInput: a setting is wrong, or nobody knows this version.
    """
    asked = KIND.check(Question, settings)
    changes = {"cluster": {"mode": asked.mode}} if asked.mode else {}
    items = [
        Item(name=name, scenario=f"claims_{name}", kafka=asked.kafka, changes=changes, seed=seed, labels={"role": name})
        for name in asked.experiments
    ]
    return Campaign(
        campaign_id=campaign_id,
        kind="claims",
        created_at=created_at,
        seed=seed,
        settings=asked.model_dump(mode="json"),
        items=items,
    )


def follow_up(campaign: Campaign, rows: Iterable[Mapping[str, Any]]) -> list[Item]:  # noqa: ARG001  # as of every kind
    """None: a claim that one run could not decide says so."""
    return []


def result(campaign: Campaign, runs: Mapping[str, Path]) -> dict[str, Any]:
    """The answers of a campaign's run folders, by experiment; they are no archived rows.

    None of them broke off: what it had no time for would read as what does not happen.
    """
    recordings = read_runs(runs)
    found = answers(recordings)
    counts = Counter(told["verdict"] for told in found.values())
    missing = [item.name for item in campaign.items if item.name not in runs]
    modes = sorted({recording.mode for recording in recordings.values()})
    return {
        "state": "unknown" if missing else "",
        "sentence": _sentence(campaign.settings["kafka"], counts, missing),
        "kafka": campaign.settings["kafka"],
        "modes": modes,
        "created_at": campaign.created_at,
        "settings": campaign.settings,
        "counts": counts,
        "lines": [f"{name:4}{told['verdict']:15}{told['sentence']}" for name, told in found.items()],
        "runs": {name: recording.run_id for name, recording in recordings.items()},
        "claims": {
            name: {"text": claim.text, "notes": list(claim.notes), "changes": claim.changes}
            for name, claim in CLAIMS.items()
        },
        "answers": found,
        "walkthroughs": walkthroughs(recordings),
    }


def _sentence(kafka: str, counts: Mapping[str, int], missing: list[str]) -> str:
    told = ", ".join(f"{counts.get(word, 0)} {word}" for word in ("shown", "refuted", "not observable"))
    lacking = f" Not recorded to the end: {', '.join(missing)}." if missing else ""
    return f"Of {len(CLAIMS)} claims, on Kafka {kafka}: {told}.{lacking}"
