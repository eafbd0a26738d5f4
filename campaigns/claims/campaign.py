"""Answer the claims on one version; docs/claims.md has the answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Unpack

from pydantic import Field, field_validator

from campaigns.campaign import Campaign, Item, Strict, When
from campaigns.claims import KIND
from claims.answers import answers, read_runs
from claims.table import CLAIMS, EXPERIMENTS, LINES, WALKTHROUGHS, notes_of
from claims.walkthrough import walkthroughs
from history.results.claims import Answered, Claim, ClaimsResult, Walkthrough


class Question(Strict):
    """The settings; claims of left-out ``experiments`` are not observable."""

    kafka: str
    mode: Literal["kraft", "zookeeper"] | None = None  # None: the version's usual mode
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


def plan(settings: Mapping[str, Any], **when: Unpack[When]) -> Campaign:
    """Plan one run per experiment; raise BadInput for wrong settings or an unknown version."""
    question = KIND.check(Question, settings)
    changes = {"cluster": {"mode": question.mode}} if question.mode else {}
    same: dict[str, Any] = {"kafka": question.kafka, "changes": changes, "seed": when["seed"]}
    items = [Item(name=name, scenario=f"claims_{name}", labels={"role": name}, **same) for name in question.experiments]
    return Campaign(kind=KIND.name, settings=question.model_dump(mode="json"), items=items, **when)


def result(campaign: Campaign, runs: Mapping[str, Path]) -> ClaimsResult:
    """Answer claims from complete runs: after an abort, events would count as absent."""
    recordings = read_runs(runs)
    answered = answers(recordings)
    counts = Counter(answer.verdict for answer in answered.values())
    missing = campaign.missing(runs)
    return ClaimsResult(
        **campaign.named,
        state="unknown" if missing else "",
        sentence=_sentence(campaign.settings["kafka"], counts, missing),
        lines=[f"{name:4}{answer.verdict:15}{answer.sentence}" for name, answer in answered.items()],
        kafka=campaign.settings["kafka"],
        modes=sorted({recording.run.manifest.mode or "" for recording in recordings.values()}),
        settings=campaign.settings,
        counts=counts,
        runs={name: recording.run.manifest.run_id for name, recording in recordings.items()},
        claims={
            name: Claim(
                text=claim.text,
                notes=notes_of(name),
                known=claim.known,
                shows=claim.shows,
                refutes=claim.refutes,
                changes=claim.changes,
            )
            for name, claim in CLAIMS.items()
        },
        answers=answered,
        walkthroughs=[Walkthrough.model_validate(table) for table in walkthroughs(recordings)],
    )


def _sentence(kafka: str, counts: Mapping[Answered, int], missing: list[str]) -> str:
    words: tuple[Answered, ...] = ("shown", "refuted", "not observable")
    counted = ", ".join(f"{counts.get(word, 0)} {word}" for word in words)
    lacking = f" Not recorded to the end: {', '.join(missing)}." if missing else ""
    return f"{len(CLAIMS)} claims about replication on Kafka {kafka}: {counted}.{lacking}"
