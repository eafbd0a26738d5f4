"""A nightly run: failures, changes since earlier nightly runs, and alerts.

Times are ISO 8601, changes are in percent; see docs/nightly.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any, Literal

from pydantic import Field

from history.exit_codes import Verdict
from history.results.base import Model, Summary
from history.results.cases import Case, Outcome

CellVerdict = Literal["pass", "fail", "unknown", "missing"]
SeriesState = Literal[
    "no figure",
    "missing data",
    "no basis",
    "steady",
    "better",
    "moved",
    "host",
    "waived",
    "candidate",
    "confirmed",
    "refuted",
    "inconclusive",
]
ControlState = Literal["steady", "moved", "missing", "no basis"]
FailureStatus = Literal["new", "known", "known bug", "waived"]


class NightlyItem(Model):
    """A planned run or rerun. A missing one has no ``run_id``; the sentence says why.

    ``shown`` counts anomalies and violated invariants.
    """

    item: str
    role: str
    scenario: str
    kafka: str
    run_id: str | None
    verdict: CellVerdict
    sentence: str
    shown: dict[str, int]


class Cell(Model):
    """A scenario on a version: worst verdict, runs by verdict, and sentences of runs that did not pass."""

    scenario: str
    kafka: str
    verdict: CellVerdict
    verdicts: dict[CellVerdict, int]
    runs: list[str]
    sentences: list[str]


class Waiver(Model):
    """A waiver of a series (``metric``) or a failure (``found``) until a date."""

    scenario: str
    kafka: str | None
    metric: str | None
    phase: str | None
    up_to: float | None
    found: list[str]
    who: str
    why: str
    until: date


class WaiverUse(Waiver):
    """A waiver, whether it has expired, and whether this nightly run used it."""

    expired: bool
    used: bool


class Failure(Model):
    """A scenario on a version that violated guarantees (``found``) in ``runs`` of ``of`` runs."""

    scenario: str
    kafka: str
    found: list[str]
    runs: list[str]
    of: int
    sentence: str
    text: str
    status: FailureStatus
    first_nightly_run: str
    waiver: Waiver | None


# --- performance ---------------------------------------------------------------------------------


class Change(Model):
    """A level change: its first nightly run, the levels before and after, and the 95 % interval."""

    since: str
    since_at: str
    nightly_runs_before: int
    nightly_runs_after: int
    before: float
    after: float
    percent: float | None
    low_percent: float | None
    high_percent: float | None
    p: float


class Confirmation(Model):
    """The result of reruns against a release."""

    nightly_run: str
    is_current: bool
    release: str
    verdict: Literal["confirmed", "refuted", "inconclusive"]
    why: str
    pairs: int
    nightly_runs: int
    percent: float | None
    low_percent: float | None
    high_percent: float | None
    runs: list[str]


class Decision(Model):
    """The reruns' decision on a series, stored with the result and never recomputed."""

    nightly_run: str
    scenario: str
    scenario_digest: str
    kafka_version: str
    metric: str
    phase: str
    host: str
    confirmation: Confirmation


class Point(Model):
    """One nightly run in a series: its good runs' median, lowest, highest and number.

    ``censored``: the median run's observation ended first, so the value is a minimum. ``build`` and ``link``: the
    subject's. ``changed``: kernel, Java, client libraries and Plimsoll that differ from the previous point, as markers.
    """

    nightly_run: str
    at: str
    value: float
    low: float
    high: float
    runs: int
    censored: bool = False
    build: str = ""
    link: str = ""
    changed: list[str] = Field(default_factory=list)


class Series(Model):
    """A metric of a scenario, phase and version on one machine (``host``: its digest).

    ``visible_percent`` is a single nightly run's change that the screen detects half the time; ``margins`` the change
    in margins; ``needed`` the nightly runs for a comparison.
    """

    role: str
    scenario: str
    scenario_digest: str
    kafka_version: str
    metric: str
    phase: str
    host: str
    name: str
    words: str
    unit: str
    better: Literal["lower", "higher"]
    margin_percent: float
    state: SeriesState
    why: str
    needed: int
    visible_percent: float | None
    change: Change | None
    confirmation: Confirmation | None
    margins: float
    points: list[Point]
    runs: list[str]


class Beside(Model):
    """A metric of the subject against a pinned release, in this nightly run's pairs; margin and Holm as in a
    comparison. Never alerts: deliberate differences recur.
    """

    scenario: str
    metric: str
    phase: str
    words: str
    release: str
    pairs: int
    percent: float
    low_percent: float
    high_percent: float
    verdict: Literal["regression", "improvement", "equivalent", "inconclusive"]


class Control(Model):
    """Whether the control series show that the host changed."""

    state: ControlState
    sentence: str


class Alert(Model):
    """``why`` is the reason for suppressing it."""

    kind: Literal["correctness", "performance"]
    status: FailureStatus
    text: str
    runs: list[str]
    margins: float | None = None
    why: str = ""


class NightlyVerdicts(Model):
    """A nightly run's number of runs by verdict."""

    nightly_run: str
    at: str
    verdicts: dict[Verdict, int]


class NightlyResult(Summary):
    """``series`` include the control series; ``nightly_runs``: all so far, newest first."""

    kind: Literal["nightly"] = "nightly"
    settings: dict[str, Any]
    versions: list[str]
    scenarios: list[str]
    repetitions: int
    control_of: str  # scenario and release
    max_candidates: int  # limit of rerun candidates
    max_alerts: int
    hosts: list[str]
    runs: list[NightlyItem]
    cells: list[Cell]
    failures: list[Failure]
    series: list[Series]
    control: Control
    alerts: list[Alert]
    suppressed: list[Alert]
    waivers: list[WaiverUse]
    notes: list[str]
    nightly_runs: list[NightlyVerdicts]
    subject: str = ""  # version, commit, digest and number of the build
    subject_link: str = ""
    beside: list[Beside] = Field(default_factory=list)

    @property
    def measures(self) -> bool:
        return bool(self.settings["scenarios"])

    def cases(self) -> Sequence[Case]:
        quiet = {(each.scenario, each.kafka): each for each in self.failures if each.status in ("waived", "known bug")}
        correctness = [_correctness(cell, quiet.get((cell.scenario, cell.kafka))) for cell in self.cells]
        performance = [_performance(series) for series in self.series if series.role == "matrix"]
        outcomes: dict[ControlState, Outcome] = {"steady": "pass", "no basis": "skipped"}
        control = Case("control", self.control_of, outcomes.get(self.control.state, "unknown"), self.control.sentence)
        return [*correctness, *performance, control]


def _correctness(cell: Cell, known: Failure | None) -> Case:
    """Convert a cell; ``known`` is its waived or known failure."""
    group, text = f"correctness.{cell.scenario}", " ".join(cell.sentences)
    if known:
        waiver = known.waiver
        why = f"waived by {waiver.who} until {waiver.until}: {waiver.why}" if waiver else known.status
        return Case(group, cell.kafka, "skipped", f"{why}: {text}", cell.runs)
    return Case(group, cell.kafka, "unknown" if cell.verdict == "missing" else cell.verdict, text, cell.runs)


def _performance(series: Series) -> Case:
    """Convert a series: open states are unknown, waived ones or those without basis skipped."""
    outcome: Outcome = "skipped"
    if series.state in ("steady", "better", "refuted"):
        outcome = "pass"
    elif series.state == "confirmed":
        outcome = "fail"
    elif series.state in ("candidate", "inconclusive", "missing data", "host"):
        outcome = "unknown"
    name = f"{series.metric} {series.phase}".rstrip()
    runs = series.confirmation.runs if series.confirmation else []
    return Case(
        f"performance.{series.scenario}.{series.kafka_version}", name, outcome, f"{series.state}: {series.why}", runs
    )
