"""A nightly run: what failed, what changed since earlier nightly runs, and what alerts somebody.

Times are ISO 8601, changes are in percent; docs/nightly.md explains them.
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
    """A planned run, reruns included. One that is missing has no ``run_id``, and its sentence says why.

    ``shown`` counts anomalies and violated invariants by name.
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
    """A scenario on a version: the worst verdict, how many runs of each, and what those say that did not pass."""

    scenario: str
    kafka: str
    verdict: CellVerdict
    verdicts: dict[CellVerdict, int]
    runs: list[str]
    sentences: list[str]


class Waiver(Model):
    """An entry of the waivers: a series (``metric``), or what a failing run showed (``found``), until a day."""

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
    """An entry, whether it has expired, and whether this nightly run needed it."""

    expired: bool
    used: bool


class Failure(Model):
    """A scenario on a version that violated a guarantee in ``runs``, of so many; ``found`` names what was violated."""

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
    """A change of level: since which nightly run, the levels before and after, and the interval at 95 %."""

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
    """What reruns beside a release say of a change."""

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
    """What reruns decided of a series on a nightly run: kept beside its result, and never computed again."""

    nightly_run: str
    scenario: str
    scenario_digest: str
    kafka_version: str
    metric: str
    phase: str
    host: str
    confirmation: Confirmation


class Point(Model):
    """One nightly run in a series: the median of its good runs, the lowest and the highest, and how many they are.

    ``censored``: the median is that of a run whose observation ended first, so it is at least that. ``build`` and
    ``link`` are the subject's. ``changed`` names the kernel, Java, client libraries and Plimsoll that differ from those
    of the point before: markers, for the series goes on.
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
    """A watched metric of a scenario, phase and version on one machine (``host``: its digest), and how it stands.

    ``visible_percent`` is the change of a single nightly run that the screen sees half the time; ``margins`` how many
    margins the change is wide; ``needed`` how many nightly runs a comparison takes.
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
    """A metric of the subject against a pinned release, in pairs of this nightly run alone; margin and Holm as in a
    comparison. What differs by design differs in every nightly run, so it alerts nobody.
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
    """``why`` says why one was suppressed."""

    kind: Literal["correctness", "performance"]
    status: FailureStatus
    text: str
    runs: list[str]
    margins: float | None = None
    why: str = ""


class NightlyVerdicts(Model):
    """One nightly run in the list of all: its runs by verdict."""

    nightly_run: str
    at: str
    verdicts: dict[Verdict, int]


class NightlyResult(Summary):
    """``series`` hold the control series too; ``nightly_runs`` are all so far, the newest first."""

    kind: Literal["nightly"] = "nightly"
    settings: dict[str, Any]
    versions: list[str]
    scenarios: list[str]
    repetitions: int
    control_of: str  # its scenario and release
    max_candidates: int  # reruns are made for so many
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
    subject: str = ""  # version, commit, digest and number of its build
    subject_link: str = ""
    beside: list[Beside] = Field(default_factory=list)

    @property
    def measures(self) -> bool:
        """Whether it had benchmarks; else only correctness was judged."""
        return bool(self.settings["scenarios"])

    def cases(self) -> Sequence[Case]:
        """A case for each scenario on a version, and one for each series; what the control says is one, too."""
        quiet = {(each.scenario, each.kafka): each for each in self.failures if each.status in ("waived", "known bug")}
        correctness = [_correctness(cell, quiet.get((cell.scenario, cell.kafka))) for cell in self.cells]
        performance = [_performance(series) for series in self.series if series.role == "matrix"]
        outcomes: dict[ControlState, Outcome] = {"steady": "pass", "no basis": "skipped"}
        control = Case("control", self.control_of, outcomes.get(self.control.state, "unknown"), self.control.sentence)
        return [*correctness, *performance, control]


def _correctness(cell: Cell, known: Failure | None) -> Case:
    """``known`` is the cell's failure if it is waived or a known bug."""
    group, text = f"correctness.{cell.scenario}", " ".join(cell.sentences)
    if known:
        waiver = known.waiver
        why = f"waived by {waiver.who} until {waiver.until}: {waiver.why}" if waiver else known.status
        return Case(group, cell.kafka, "skipped", f"{why}: {text}", cell.runs)
    return Case(group, cell.kafka, "unknown" if cell.verdict == "missing" else cell.verdict, text, cell.runs)


def _performance(series: Series) -> Case:
    """What is open keeps the nightly run's state from being known; a waiver or a missing basis does not."""
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
