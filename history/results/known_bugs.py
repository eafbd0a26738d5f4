"""Known bugs tested on Kafka versions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from history.exit_codes import Verdict
from history.results.base import Model, Summary
from history.results.cases import Case
from history.results.cases import Outcome as CaseOutcome

Outcome = Literal["found", "clean", "window missed", "unknown"]
Expected = Literal["found", "clean"]


class Try(Model):
    """A judged run; ``found_by`` names indicate the bug."""

    run_id: str
    item: str
    outcome: Outcome
    found_by: list[str]
    also: list[str]
    verdict: Verdict
    sentence: str


class Arm(Model):
    """A bug on a version; ``interval``: Clopper-Pearson, 95 %."""

    bug: str
    issue: str
    title: str
    scenario: str
    shown_as: list[str]
    arm: str
    kafka: str
    version: str
    expected: Expected | None
    as_expected: bool | None
    tries: int
    decided: int
    found: int
    clean: int
    window_missed: int
    unknown: int
    interval: tuple[float, float]
    found_by: dict[str, int]
    also: dict[str, int]
    runs: list[Try]


class Moment(Model):
    """An action or observation; ``replicas``: ``high watermark/log end offset eEPOCH`` before it, or ``silent``."""

    s: float
    what: str
    replicas: dict[str, str]


class Timeline(Model):
    """A run that found a bug, replica by replica."""

    issue: str
    version: str
    run_id: str
    partition: str
    moments: list[Moment]


class KnownBugsResult(Summary):
    """``left_out``: bugs that these versions cannot run; ``missing``: without a run."""

    kind: Literal["known_bugs"] = "known_bugs"
    seed: int
    settings: dict[str, Any]
    tries: int
    left_out: list[str]
    hosts: list[str]
    missing: list[str]
    arms: list[Arm]
    timelines: list[Timeline] = Field(default_factory=list)

    def cases(self) -> Sequence[Case]:
        arms = [
            Case(f"known_bugs.{arm.issue}", arm.kafka, _outcome(arm), _why(arm), [each.run_id for each in arm.runs])
            for arm in self.arms
        ]
        missing = [Case("known_bugs", item, "unknown", "It was not recorded.") for item in self.missing]
        left_out = [Case("known_bugs", "left out", "skipped", sentence) for sentence in self.left_out]
        return [*arms, *missing, *left_out]


def _outcome(arm: Arm) -> CaseOutcome:
    if not arm.decided:
        return "unknown"
    if arm.as_expected is None:
        return "skipped"
    return "pass" if arm.as_expected else "fail"


def _why(arm: Arm) -> str:
    expected = f"expected in each: {arm.expected}" if arm.expected else "the expected result is unknown"
    return f"{arm.issue} was found in {arm.found} of {arm.decided} decided tries of {arm.tries}; {expected}."
