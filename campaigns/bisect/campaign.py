"""Evaluate a bisection: answers and the next build."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Unpack

from pydantic import Field, ValidationInfo, field_validator

from campaigns.bisect import KIND
from campaigns.bisect.builds import made
from campaigns.campaign import MAX_TIMES, Campaign, Item, Row, Strict, When
from campaigns.compare.findings import shown, violations
from campaigns.compare.runs import Run, log_of, runs_by_item
from campaigns.kinds import split_words
from campaigns.statistics.effects import Effect, paired_effect, pairs_needed, percent
from campaigns.statistics.sequential import ENOUGH, ERROR, clean_runs, evidence_of_effects, evidence_of_events
from clusters.scenario.scenario import load_scenario
from history.errors import BadInput
from history.metrics import METRICS, metric_of, why_not_in
from history.results.bisect import BisectResult, Judged, JudgedAs

GOOD, BUILD = "good", "build"  # roles in a pair


class Settings(Strict):
    """``builds`` go from good to bad; ``command`` leaves each at ``kafka``; ``least`` is in percent."""

    builds: list[str]
    command: str = ""
    kafka: str = ""
    scenario: str = "survived_faults"
    metric: str = ""
    phase: str = ""
    least: int = Field(default=10, ge=2, le=95)
    tries: int = Field(default=3, ge=2, le=MAX_TIMES)
    limit: int = Field(default=80, ge=2, le=MAX_TIMES)
    runtime: str = "auto"

    @field_validator("builds", mode="before")
    @classmethod
    def _words(cls, value: object) -> object:
        return split_words(value)

    @field_validator("builds")
    @classmethod
    def _in_a_row(cls, value: list[str]) -> list[str]:
        if len(value) < 2 or len(set(value)) < len(value):
            raise ValueError("it takes a good build and a bad one, those between in their order, and each of them once")
        return value

    @field_validator("metric")
    @classmethod
    def _judges(cls, value: str) -> str:
        if value and (value not in METRICS or METRICS[value].better is None):
            known = ", ".join(name for name, metric in METRICS.items() if metric.better)
            raise ValueError(f"it has no better direction; metrics with one: {known}")
        return value

    @field_validator("phase")
    @classmethod
    def _is_of_a_metric(cls, value: str, info: ValidationInfo) -> str:
        if value and not info.data.get("metric"):
            raise ValueError("it belongs to a metric, and none is given")
        return value


def plan(settings: Mapping[str, Any], **when: Unpack[When]) -> Campaign:
    """Plan both ends' runs, alternately; raise BadInput or HarnessError for an end that is no build."""
    question = KIND.check(Settings, settings)
    values = {**question.model_dump(), "cwd": str(Path.cwd()) if question.command else ""}
    scenario = load_scenario(question.scenario)
    phases = [phase.name for phase in scenario.phases]
    if question.metric and (why := why_not_in(question.metric, question.phase, phases)):
        raise BadInput(f"--phase={question.phase} is refused: {why}.")
    ends = [made(values, question.builds[0]), made(values, question.builds[-1])]
    campaign = Campaign(kind=KIND.name, settings={**values, "ends": ends}, items=[], **when)
    return campaign.model_copy(update={"items": list(_ends(campaign, question))})


def _ends(campaign: Campaign, question: Settings) -> Iterator[Item]:
    kafka, last = campaign.settings["ends"][-1], len(question.builds) - 1
    for number in range(1, question.tries + 1):
        tried = [*([] if question.metric else items_of(campaign, 0, number)), *items_of(campaign, last, number, kafka)]
        # drift of the host favours neither; pairs alternate anyway
        yield from tried if number % 2 or question.metric else tried[::-1]


def items_of(campaign: Campaign, index: int, number: int, kafka: str = "") -> list[Item]:
    """Return a build's try: a run or, for a metric, a pair with the good end."""
    good = str(campaign.settings["ends"][0])
    item = _item(campaign, index, number, BUILD, kafka or good)
    if not campaign.settings["metric"]:
        return [item]
    pair = [item, _item(campaign, index, number, GOOD, good)]
    return pair if number % 2 else pair[::-1]


def _item(campaign: Campaign, index: int, number: int, role: str, kafka: str) -> Item:
    build = campaign.settings["builds"][0 if role == GOOD else index]
    labels = {"role": role, "place": str(index), "try": str(number), "build": build}
    return Item(
        name=f"build-{index + 1:04}-{number:02}{'-beside' if role == GOOD else ''}",
        scenario=campaign.settings["scenario"],
        kafka=kafka,
        seed=campaign.seed + number,
        labels=labels,
    )


@dataclass(frozen=True)
class Violation:
    """A bad build violates one of ``names`` in a share of at least ``least`` of runs."""

    names: frozenset[str]
    least: float

    def evidence(self, tries: Sequence[Sequence[Run]]) -> float:
        return evidence_of_events([bool(names_of(run) & self.names) for run in _telling(tries)], self.least)

    def words(self, tries: Sequence[Sequence[Run]]) -> str:
        runs = _telling(tries)
        showing = [run for run in runs if names_of(run) & self.names]
        return f"{len(showing)} of {len(runs)} runs show {', '.join(sorted(self.names))}."

    @property
    def sentence(self) -> str:
        names = ", ".join(sorted(self.names))
        runs = clean_runs(self.least)
        return f"A bad build shows {names} in {100 * self.least:.0f} % of its runs or more; {runs} without it are good."


@dataclass(frozen=True)
class Slower:
    """A bad build's metric is worse than a good one's by ``least``, the bad end's by ``effect`` (log-ratios)."""

    metric: str
    phase: str
    least: float
    effect: float

    def evidence(self, tries: Sequence[Sequence[Run]]) -> float:
        return evidence_of_effects(log_ratios(tries, self.metric, self.phase), self.least)

    def words(self, tries: Sequence[Sequence[Run]]) -> str:
        found = log_ratios(tries, self.metric, self.phase)
        mean = percent(sum(found) / len(found)) if found else 0.0
        return f"{_metric(self.metric, self.phase)}: {mean:+.1f} % against the good build, in {len(found)} pairs."

    @property
    def sentence(self) -> str:
        least, change = percent(self.least), percent(self.effect)
        of = _metric(self.metric, self.phase)
        bad_end = f"{change:+.1f} % in the bad end"
        return f"In a bad build {of} changes by {least:+.0f} % or more against the good one; {bad_end}."


Difference = Violation | Slower


def _metric(metric: str, phase: str) -> str:
    return f"{metric_of(metric).words}{f' of the phase {phase}' if phase else ''}"


def names_of(run: Run) -> set[str]:
    """Return what may be a run's violations, unless it passes."""
    return violations(run) if run.verdict != "pass" else set()


def _single(tries: Iterable[Sequence[Run]]) -> list[Run]:
    return [run for tried in tries for run in tried if run.label("role") == BUILD]


def _telling(tries: Iterable[Sequence[Run]]) -> list[Run]:
    return [run for run in _single(tries) if run.verdict != "unknown" or names_of(run)]


def log_ratios(tries: Iterable[Sequence[Run]], metric: str, phase: str) -> list[float]:
    """Return the log-ratios of pairs with two trusted values."""
    found = []
    for tried in tries:
        by_role = {run.label("role"): run for run in tried if run.why_not(metric, phase) is None}
        if len(by_role) == 2:
            found.append(log_of(by_role[GOOD], by_role[BUILD], metric, phase))
    return [log for log in found if log is not None]


class Search:
    """A bisection after its judged runs; ``refused`` builds cannot be built or run."""

    def __init__(self, campaign: Campaign, rows: Iterable[Row], refused: Iterable[int] = ()) -> None:
        self.campaign = campaign
        self.builds: list[str] = campaign.settings["builds"]
        self.last = len(self.builds) - 1
        self.refused = set(refused)
        self.tries: dict[int, dict[int, list[Run]]] = {}
        for run in runs_by_item(campaign, rows).values():
            of_build = self.tries.setdefault(int(run.label("place")), {})
            of_build.setdefault(int(run.label("try")), []).append(run)

    def tries_of(self, index: int) -> list[list[Run]]:
        return [tried for _, tried in sorted(self.tries.get(index, {}).items())]

    @cached_property
    def difference(self) -> Difference | str:
        metric = self.campaign.settings["metric"]
        least = self.campaign.settings["least"] / 100
        return self._slower(metric, self.campaign.settings["phase"], least) if metric else self._violation(least)

    def _violation(self, least: float) -> Difference | str:
        good, bad = (_telling(self.tries_of(end)) for end in (0, self.last))
        if not good or not bad:
            return "One of the ends has no run with a verdict, so the builds cannot be bisected."
        names = frozenset().union(*map(names_of, bad)).difference(*map(shown, good))
        if not names:
            also = ", which the good one violates, too" if any(map(names_of, bad)) else ""
            tries = math.ceil(math.log(0.05) / math.log1p(-least))
            more = f"{tries} tries show with 95 % certainty what {100 * least:.0f} % of runs show (--tries={tries})"
            return f"In {len(bad)} runs the bad end violated no guarantee{also}; {more}."
        return Violation(names, least)

    def _slower(self, metric: str, phase: str, least: float) -> Difference | str:
        found = log_ratios(self.tries_of(self.last), metric, phase)
        effect = paired_effect(found)
        if effect is None:
            return f"Fewer than two pairs of the ends have a figure of {_metric(metric, phase)}."
        if effect.low <= 0 <= effect.high or not effect.sd:
            needed = pairs_needed(math.log1p(least), sd=effect.sd, margin=0.0)
            more = (
                f"about {needed} pairs show a change of {100 * least:.0f} % (--tries={needed})"
                if needed
                else "the host is too restless"
            )
            return f"The ends do not differ: {_interval(effect)} by {effect.n} pairs; {more}."
        worse = math.log1p(least) if metric_of(metric).better == "lower" else math.log1p(-least)
        if (effect.mean > 0) != (worse > 0):
            return f"The bad end is the better one: {_interval(effect)} by {effect.n} pairs."
        if abs(effect.mean) < abs(worse):
            end = f"The bad end differs by less than --least={100 * least:.0f}"
            return f"{end}: {_interval(effect)} by {effect.n} pairs; name a smaller --least."
        return Slower(metric, phase, worse, effect.mean)

    def answer(self, index: int) -> JudgedAs:
        if index in (0, self.last):
            return "good" if index == 0 else "bad"
        if index in self.refused:
            return "undecided"
        tries = self.tries_of(index)
        if not tries or isinstance(self.difference, str):
            return "not run"
        evidence = self.difference.evidence(tries)
        if abs(evidence) >= ENOUGH:
            return "bad" if evidence > 0 else "good"
        return "undecided" if len(tries) >= self.campaign.settings["limit"] else "open"

    @property
    def bounds(self) -> tuple[int, int]:
        known = {index: self.answer(index) for index in {0, self.last, *self.tries}}
        bad = min(index for index, answer in known.items() if answer == "bad")
        return max(index for index, answer in known.items() if answer == "good" and index < bad), bad

    @property
    def next(self) -> int | None:
        """Return the undecided build nearest to the middle, or None at the end."""
        if isinstance(self.difference, str):
            return None
        good, bad = self.bounds
        left = [index for index in range(good + 1, bad) if self.answer(index) in ("open", "not run")]
        return min(left, key=lambda index: (abs(2 * index - good - bad), index), default=None)

    @property
    def steps_left(self) -> int:
        good, bad = self.bounds
        return math.ceil(math.log2(bad - good))

    def so_far(self, index: int) -> str:
        evidence = 0.0 if isinstance(self.difference, str) else self.difference.evidence(self.tries_of(index))
        return f"evidence {evidence:+.1f} of {ENOUGH:.1f}"

    def judged(self) -> list[Judged]:
        return [self._judged(index) for index in sorted({0, self.last, *self.tries})]

    def _judged(self, index: int) -> Judged:
        tries = self.tries_of(index)
        runs = [run for tried in tries for run in tried]
        evidence, sentence = None, ""
        if tries and not isinstance(self.difference, str):
            evidence = self.difference.evidence(tries)
            sentence = self.difference.words(tries)
        versions = sorted({str(run.about["kafka_version"]) for run in _single(tries)})
        return Judged(
            number=index,
            name=self.builds[index],
            version=", ".join(versions),
            answer=self.answer(index),
            evidence=evidence,
            sentence=sentence,
            runs=[run.run_id for run in runs],
        )


def _interval(effect: Effect) -> str:
    return f"{percent(effect.low):+.1f} % to {percent(effect.high):+.1f} %"


def result(campaign: Campaign, rows: Sequence[Row]) -> BisectResult:
    """Return the first bad build, or two that enclose it."""
    search = Search(campaign, rows)
    judged = search.judged()
    good, bad = search.bounds
    found = search.difference if not isinstance(search.difference, str) else None
    is_found = found is not None and bad == good + 1
    candidates = search.builds[good + 1 : bad + 1]
    decisions = sum(search.answer(index) in ("good", "bad") for index in search.tries if 0 < index < search.last)
    return BisectResult(
        **campaign.named,
        state="pass" if is_found else "unknown",
        sentence=_sentence(search, [*map(short, candidates)], short(search.builds[good])),
        lines=[f"{each.answer:9} {short(each.name)}: {each.sentence}" for each in judged],
        seed=campaign.seed,
        settings={name: campaign.settings[name] for name in Settings.model_fields},
        difference=found.sentence if found else "",
        builds=len(search.builds),
        judged=judged,
        first_bad=candidates[-1] if is_found else "",
        last_good=search.builds[good],
        candidates=candidates,
        wrong_at_most=min(1.0, ERROR * decisions),
        hosts=sorted({str(row["host"]) for row in campaign.own(rows)}),
    )


def short(build: str) -> str:
    """Shorten a commit hash."""
    return build[:12] if re.fullmatch(r"[0-9a-f]{40}", build) else build


def _sentence(search: Search, candidates: Sequence[str], last_good: str) -> str:
    if isinstance(search.difference, str):
        return search.difference
    if len(candidates) == 1:
        return f"{candidates[0]} is the first bad build; {last_good}, the one before it, is good."
    ahead = "The same command continues the search." if search.next is not None else _why_open(search)
    return f"The first bad build is one of {len(candidates)}: after {last_good} and up to {candidates[-1]}. {ahead}"


def _why_open(search: Search) -> str:
    limit = search.campaign.settings["limit"]
    if isinstance(search.difference, Violation) and limit < (runs := clean_runs(search.difference.least)):
        return f"Builds in between are undecided after --limit={limit} runs; {runs} without the violation are good."
    undecided = f"Builds in between failed to run, or are undecided after --limit={limit}"
    return f"{undecided}; a larger --limit or --least may decide."
