"""Two versions of Kafka compared: the effects with their verdicts, and what they rest on.

Changes are in percent of base, margins are shares, an arm is ``base`` or ``head``. docs/comparison.md explains them.
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
Role = Literal["primary", "secondary", "why"]  # ``why`` explains, and is never judged
View = Literal["same_settings", "default_settings", "unfinalised"]
EffectVerdict = Literal["regression", "improvement", "equivalent", "inconclusive"]
Overall = Literal[
    "correctness regression",
    "regression",
    "correctness improvement",
    "improvement",
    "equivalent",
    "no violation",  # and no primary metric could be asked
    "calibration",  # base with itself alone: how many pairs a comparison needs
    "inconclusive",
]
# ``base only``: in too few runs to tell whether head keeps what base violated. ``none``: no run of either failed.
GuaranteeVerdict = Literal["regression", "improvement", "base only", "both", "none", "unknown"]
Each = TypeVar("Each")


class Arms(Model, Generic[Each]):
    """The same of both sides."""

    base: Each
    head: Each

    def of(self, arm: Arm) -> Each:
        """That of one side."""
        return self.base if arm == "base" else self.head


class Side(Model):
    """What a side was: the version as it was asked for, and the versions, jars and flags that its runs reported."""

    name: str
    kafka: str
    changes: dict[str, Any]
    versions: list[str]
    jars: list[str]
    mode: str
    jvm: list[str]
    runtime: list[str]


class ComparedRun(Model):
    """A run in its place in the plan."""

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
    """``missing`` are items of the plan without a run."""

    planned: int
    recorded: int
    missing: list[str]
    each: list[ComparedRun]


# --- effects ---------------------------------------------------------------------------------------


class PairOfRuns(Model):
    """A pair that an effect uses: base's and head's run, value and samples. ``ran_first`` is 0 where base ran first.

    ``log`` is the log-ratio and ``change`` the same in percent; None where there is no ratio.
    """

    pair: str
    runs: tuple[str, str]
    ran_first: int
    values: tuple[float, float]
    censored: tuple[bool, bool]
    samples: tuple[int | None, int | None]
    log: float | None
    change: float | None


class LeftOut(Model):
    """A run that an effect cannot use, and why."""

    pair: str
    run: str | None
    why: str


class Times(Model):
    """One side's times: how many ended, Kaplan-Meier's median (None: not reached), mean up to a common limit."""

    runs: int
    ended: int
    median: float | None
    restricted_mean: float


class Survival(Arms[Times]):
    """Both sides' times where some had not ended, up to ``limit``."""

    limit: float


class Effect(Model):
    """A metric where it was measured, and how it changes from base to head.

    ``base`` and ``head`` are medians; ``mean``, ``low``, ``high`` (95 %) and ``sd`` are in percent, ``sd_log`` is a
    log-ratio's. ``method`` is paired (t test of log-ratios), log-rank (times of which some had not ended) or none.
    ``needed`` pairs detect a worsening by twice the margin in four cases of five; of an inconclusive primary effect by
    its own ``sd_log``, None where that is more than anybody runs.
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
        """Scenario, metric, phase."""
        return self.scenario, self.metric, self.phase

    @property
    def setting(self) -> str:
        """As the settings name it: ``<metric>@<phase>``."""
        return "@".join(filter(None, (self.metric, self.phase)))


class NotAsked(Model):
    """A judged metric for which a phase has too little load: ``offered`` records a run at most, of ``least``."""

    role: Role
    scenario: str
    metric: str
    phase: str
    words: str
    offered: int
    least: int


class Noise(Effect):
    """Base compared with itself. ``smallest`` is the worsening that the comparison's pairs detect in four cases of
    five, ``detection`` how often they detect some others; each ``_low`` and ``_high`` is that of the noise's interval.
    These are of ``pairs_planned`` pairs; ``needed`` detect a worsening by ``size`` percent so often.
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
    """The values of each side's usable runs in a phase."""

    scenario: str
    metric: str
    phase: str


# --- counts ----------------------------------------------------------------------------------------


class Having(Model):
    """The runs of a side in which something is, of how many."""

    runs: int
    having: list[str]
    largest: float | None = None  # of a ratio

    @property
    def count(self) -> str:
        return f"{len(self.having)} of {self.runs}"


class Finding(Arms[Having]):
    """In which runs of each side something is; ``p`` is Fisher's of the difference."""

    what: str
    p: float


class MissedLoad(Finding):
    """A phase whose load head misses; ``surely`` where chance does not explain it."""

    scenario: str
    phase: str
    surely: bool


class Verdicts(Model):
    """How many runs of a side have which verdict."""

    runs: int
    passed: int
    failed: int
    unknown: int

    @property
    def decided(self) -> int:
        return self.passed + self.failed


class RunSentence(Model):
    """A run with the sentence of its verdict."""

    run: str
    arm: Arm
    sentence: str


class Correctness(Model):
    """Violated guarantees by side. ``at_most`` is how often a side that never failed may still fail, at 95 %."""

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
        """Whether any run violated a guarantee: then that is told before anything else."""
        return self.verdict not in ("none", "unknown")


# --- the whole -------------------------------------------------------------------------------------


class SeenEffect(Model):
    """An effect of an injected slowdown."""

    scenario: str
    mean: float | None
    low: float | None
    high: float | None
    n: int | None
    verdict: EffectVerdict | None = None


class Injected(Model):
    """A slowdown that was put into head on purpose: whether it was called a regression, and what was measured of it.

    ``took_effect`` are effects of the metric that shows whether it was active.
    """

    metric: str
    size: float | None = None
    changes: dict[str, Any]
    words: str
    shows_in: str | None = None
    found: bool
    seen: list[SeenEffect]
    took_effect: list[SeenEffect]


class Sustained(Model):
    """The rate that a side sustains on this host; ``at_least``: it sustained the highest that was tried."""

    arm: Arm
    run_id: str
    per_s: float | None
    at_least: bool
    why_not: str = ""


class Knee(Model):
    """What each side sustains, and the share of the lower rate that all other runs were offered."""

    share: float
    sides: list[Sustained]
    rate_per_s: int | None

    @property
    def why_not(self) -> str:
        """Why no rate is known, and nothing else was run; empty where one is."""
        return next((f"{side.arm}: {side.why_not}" for side in self.sides if side.why_not), "")


class CompareResult(Summary):
    """``refusals`` say why these runs are no comparison; ``further`` are sentences that follow the first one."""

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
    without_noise: list[Effect] = Field(default_factory=list)  # judged metrics that base with itself did not show
    phases: list[PhaseLatency]
    counts: list[Finding]
    missed_loads: list[MissedLoad]
    behaviour: list[Finding]
    injected_slowdown: Injected | None

    @property
    def several(self) -> bool:
        """Whether a metric must be named with its scenario."""
        return len(self.scenarios) > 1

    def cases(self) -> Sequence[Case]:
        """Correctness, each primary effect, each run that is missing; of base with itself alone nothing is decided."""
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
