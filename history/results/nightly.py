"""A nightly run (docs/nightly.md). Times are ISO 8601, changes percent."""

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
    """A planned run or rerun; without ``run_id`` it is missing."""

    item: str
    role: str
    scenario: str
    kafka: str
    run_id: str | None
    verdict: CellVerdict
    sentence: str
    shown: dict[str, int]
    known_bugs: list[str]


class Cell(Model):
    """A scenario on a version, with its worst verdict."""

    scenario: str
    kafka: str
    verdict: CellVerdict
    verdicts: dict[CellVerdict, int]
    runs: list[str]
    sentences: list[str]


class Waiver(Model):
    """A known problem without an alert, through the day ``until``.

    It covers a series up to ``up_to`` percent worse, or a failure that shows nothing outside ``found``.
    """

    scenario: str
    kafka: str | None = None
    metric: str | None = None
    phase: str | None = None
    up_to: float | None = Field(default=None, gt=0)
    found: list[str] = Field(default_factory=list)
    who: str = Field(min_length=1)
    why: str = Field(min_length=1)
    until: date


class WaiverUse(Waiver):
    """Whether a waiver has expired, and was used."""

    expired: bool
    used: bool


class Failure(Model):
    """A scenario on a version with violated guarantees."""

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


class Change(Model):
    """A level change, with 95 % interval."""

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
    """The result of reruns against a release; with "", against the series' own nightly runs before."""

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
    """The reruns' decision on a series, never recomputed."""

    nightly_run: str
    scenario: str
    scenario_digest: str
    kafka_version: str
    metric: str
    phase: str
    host: str
    confirmation: Confirmation


class Point(Model):
    """One nightly run in a series: median, lowest and highest of its good runs.

    ``changed``: host software and Plimsoll that differ from the point before.
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
    """A metric of a scenario, phase and version on one machine.

    ``visible_percent``: a change that one nightly run shows half the time; ``margins``: the change in margins.
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
    """A metric against a pinned release. It never alerts: deliberate differences recur."""

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
    """Whether control series show that the host changed."""

    state: ControlState
    sentence: str


class Alert(Model):
    """``why``: the reason for suppressing it."""

    kind: Literal["correctness", "performance"]
    status: FailureStatus
    text: str
    runs: list[str]
    margins: float | None = None
    why: str = ""


class NightlyVerdicts(Model):
    """A nightly run's runs by verdict."""

    nightly_run: str
    at: str
    verdicts: dict[Verdict, int]


class NightlyResult(Summary):
    """``series`` include the control series."""

    kind: Literal["nightly"] = "nightly"
    settings: dict[str, Any]
    versions: list[str]
    scenarios: list[str]
    repetitions: int
    control_of: str  # scenario and release
    max_candidates: int
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
    subject: str = ""  # the build
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
    group, text = f"correctness.{cell.scenario}", " ".join(cell.sentences)
    if known:
        waiver = known.waiver
        why = f"waived by {waiver.who} until {waiver.until}: {waiver.why}" if waiver else known.status
        return Case(group, cell.kafka, "skipped", f"{why}: {text}", cell.runs)
    return Case(group, cell.kafka, "unknown" if cell.verdict == "missing" else cell.verdict, text, cell.runs)


def _performance(series: Series) -> Case:
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
