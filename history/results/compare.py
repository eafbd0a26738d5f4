"""A comparison of two Kafka versions (docs/comparison.md).

Changes are percent of base, margins shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Generic, Literal, TypeVar

from pydantic import Field

from history.exit_codes import Verdict
from history.results.base import Model, State, Summary
from history.results.cases import Case, Outcome

Arm = Literal["base", "head"]
Role = Literal["primary", "secondary", "why"]  # ``why`` is never judged
View = Literal["same_settings", "default_settings", "unfinalised"]
EffectVerdict = Literal["regression", "improvement", "equivalent", "inconclusive"]
Overall = Literal[
    "correctness regression",
    "regression",
    "correctness improvement",
    "improvement",
    "equivalent",
    "no violation",  # primary metrics could not be measured
    "calibration",  # base against itself
    "inconclusive",
]
# ``base only``: too few runs of head. ``none``: no run failed.
GuaranteeVerdict = Literal["regression", "improvement", "base only", "both", "none", "unknown"]
Each = TypeVar("Each")


class Arms(Model, Generic[Each]):
    """One value per side."""

    base: Each
    head: Each

    def of(self, arm: Arm) -> Each:
        return self.base if arm == "base" else self.head


class Side(Model):
    """A version as requested and as reported, or the id of a cluster of others."""

    name: str
    kafka: str
    cluster: str = ""
    changes: dict[str, Any]
    versions: list[str]
    jars: list[str]
    mode: str
    jvm: list[str]
    runtime: list[str]


class ComparedRun(Model):
    """A run in the plan."""

    item: str
    part: str
    role: str
    pair: str
    order: str
    run_id: str
    started_at: str
    scenario: str
    kafka_version: str
    verdict: Verdict
    sentence: str


class Runs(Model):
    """``missing`` are planned items without a run."""

    planned: int
    recorded: int
    missing: list[str]
    each: list[ComparedRun]


class PairOfRuns(Model):
    """A pair; ``ran_first`` is 0 if base ran first, ``log`` the log-ratio."""

    pair: str
    runs: tuple[str, str]
    ran_first: int
    values: tuple[float, float]
    censored: tuple[bool, bool]
    samples: tuple[int | None, int | None]
    log: float | None
    change: float | None


class LeftOut(Model):
    """A run that an effect cannot use."""

    pair: str
    run: str | None
    why: str


class Times(Model):
    """One side's times; Kaplan-Meier median, mean up to a common limit."""

    runs: int
    ended: int
    median: float | None
    restricted_mean: float


class Survival(Arms[Times]):
    """Both sides' times, if some are censored."""

    limit: float


class Effect(Model):
    """A metric's change from base to head.

    ``base`` and ``head`` are medians; ``mean``, ``low``, ``high`` (95 %) and ``sd`` percent. ``method``: paired (t
    test), log-rank (censored times) or none. ``needed`` pairs detect a worsening by twice the margin with 80 % power.
    """

    role: Role
    scenario: str
    metric: str
    phase: str
    words: str
    unit: str
    better: Literal["lower", "higher"] | None
    margin: float
    base: float | None
    head: float | None
    samples: int | None
    pairs: list[PairOfRuns]
    left_out: list[LeftOut]
    method: Literal["paired", "log-rank", "none"] = "none"
    n: int | None = None
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    sd: float | None = None
    sd_log: float | None = None
    p: float | None = None
    p_holm: float | None = None
    verdict: EffectVerdict | None = None
    why: str | None = None
    needed: int | None = None
    survival: Survival | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        return self.scenario, self.metric, self.phase

    @property
    def setting(self) -> str:
        return "@".join(filter(None, (self.metric, self.phase)))


class NotAsked(Model):
    """A metric with too few records in a phase."""

    role: Role
    scenario: str
    metric: str
    phase: str
    words: str
    offered: int
    least: int


class Noise(Effect):
    """Base against itself.

    ``needed`` pairs detect a worsening by ``size`` percent, ``pairs_planned`` one by ``smallest``, with 80 % power;
    ``detection`` has the power for others.
    """

    pairs_planned: int
    size: float
    sd_low: float
    sd_high: float
    smallest: float
    smallest_low: float
    smallest_high: float
    detection: dict[str, float]


class PhaseLatency(Arms[list[float]]):
    """Each side's usable values in a phase."""

    scenario: str
    metric: str
    phase: str


class Having(Model):
    """The runs that show something, out of ``runs``."""

    runs: int
    having: list[str]
    largest: float | None = None  # for ratios

    @property
    def count(self) -> str:
        return f"{len(self.having)} of {self.runs}"


class Finding(Arms[Having]):
    """Which runs show something; ``p``: Fisher's exact test."""

    what: str
    p: float


class MissedLoad(Finding):
    """A phase whose load head misses; ``surely``: significantly."""

    scenario: str
    phase: str
    surely: bool


class Verdicts(Model):
    """A side's runs by verdict."""

    runs: int
    passed: int
    failed: int
    unknown: int

    @property
    def decided(self) -> int:
        return self.passed + self.failed


class RunSentence(Model):
    """A run with its verdict's sentence."""

    run: str
    arm: Arm
    sentence: str


class Correctness(Model):
    """Violated guarantees by side; ``at_most``: upper 95 % limit without failures."""

    verdict: GuaranteeVerdict
    sentence: str
    arms: Arms[Verdicts]
    p: float
    at_most: dict[Arm, float]
    findings: list[Finding]
    failed: list[RunSentence]
    unknown: list[RunSentence]

    @property
    def differs(self) -> bool:
        return self.verdict not in ("none", "unknown")


class SeenEffect(Model):
    """An effect of an injected slowdown."""

    scenario: str
    mean: float | None
    low: float | None
    high: float | None
    n: int | None
    verdict: EffectVerdict | None = None


class Injected(Model):
    """A slowdown injected into head; ``took_effect``: effects on its own metric."""

    metric: str
    size: float | None = None
    changes: dict[str, Any]
    words: str
    shows_in: str | None = None
    found: bool
    seen: list[SeenEffect]
    took_effect: list[SeenEffect]


class Sustained(Model):
    """A side's sustained rate; ``at_least``: the highest tried."""

    arm: Arm
    run_id: str
    per_s: float | None
    at_least: bool
    why_not: str = ""


class Knee(Model):
    """Each side's sustained rate, and the share that other runs offer."""

    share: float
    sides: list[Sustained]
    rate_per_s: int | None

    @property
    def why_not(self) -> str:
        return next((f"{side.arm}: {side.why_not}" for side in self.sides if side.why_not), "")


class CompareResult(Summary):
    """``refusals``: why these runs cannot be compared."""

    kind: Literal["compare"] = "compare"
    state: State
    verdict: Overall
    further: list[str]
    seed: int
    settings: dict[str, Any]
    scenarios: list[str]
    pairs: int
    aa_pairs: int
    view: View
    knee: Knee | None = None
    sides: Arms[Side]
    hosts: list[str]
    runs: Runs
    refusals: list[str]
    correctness: Correctness
    effects: list[Effect]
    not_asked: list[NotAsked]
    noise: list[Noise]
    without_noise: list[Effect] = Field(default_factory=list)
    phases: list[PhaseLatency]
    counts: list[Finding]
    missed_loads: list[MissedLoad]
    behaviour: list[Finding]
    injected_slowdown: Injected | None

    @property
    def several(self) -> bool:
        return len(self.scenarios) > 1

    @property
    def on_clusters(self) -> bool:
        """Return whether somebody else runs what was compared."""
        return bool(self.sides.base.cluster)

    def cases(self) -> Sequence[Case]:
        guarantees: dict[GuaranteeVerdict, Outcome] = {
            "regression": "fail",
            "both": "unknown",
            "base only": "unknown",
            "unknown": "unknown",
        }
        outcome = guarantees.get(self.correctness.verdict, "pass")
        failed = [run.run for run in self.correctness.failed]
        missing = [Case("compare", item, "unknown", "It was not recorded.") for item in self.runs.missing]
        primary = [_case(effect) for effect in self.effects if effect.role == "primary"]
        decided = [Case("correctness", "guarantees", outcome, self.correctness.sentence, failed), *primary]
        return [*(decided if self.pairs else [replace(case, outcome="skipped") for case in decided]), *missing]


def _case(effect: Effect) -> Case:
    outcomes: dict[EffectVerdict, Outcome] = {
        "regression": "fail",
        "improvement": "pass",
        "equivalent": "pass",
        "inconclusive": "unknown",
    }
    outcome = outcomes[effect.verdict] if effect.verdict else "skipped"
    return Case(f"performance.{effect.scenario}", effect.setting, outcome, effect.why or effect.words)
