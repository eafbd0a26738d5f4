"""Qualify an upgrade that a cluster's owner performs: runs before it, one during it, and the same runs after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from pydantic import Field, field_validator

from campaigns.campaign import MAX_TIMES, Campaign, Item, Row, Strict
from campaigns.capacity.words import amount
from campaigns.compare.runs import Run, runs_by
from campaigns.kinds import split_words
from campaigns.qualify import KIND
from campaigns.qualify.lines import of_both_sides, of_runs
from clusters.attached.named import Named
from clusters.scenario.scenario import load_scenario
from clusters.scenario.values import LongSeconds
from history.errors import BadInput
from history.metrics import metric_of
from history.results.qualify import Line
from history.words import counted

BEFORE, UPGRADE, AFTER = "before", "upgrade", "after"  # labels
MEASURED = "benchmark"
_COMPARED = ("latency_p50_ms", "latency_p99_ms", "end_to_end_p99_ms", "others_per_s")
_AROUND = "10s"
_NEVER = "9999"  # after any time in ISO 8601


class OnCluster(Strict):
    """``upgrade_limit``: within which the owner restarts every broker; ``pairs``: performance runs of each side."""

    cluster: Named
    upgrade_limit: LongSeconds = 2400.0
    scenario: str = "rolling_upgrade"
    scenarios: list[str] = Field(default=["steady", "group_members"], min_length=1)
    tries: int = Field(default=2, ge=1, le=MAX_TIMES)
    pairs: int = Field(default=3, ge=0, le=MAX_TIMES)

    @field_validator("scenarios", mode="before")
    @classmethod
    def _several(cls, value: object) -> object:
        return split_words(value)


def plan(settings: Mapping[str, Any], **when: Any) -> Campaign:
    """Plan the runs in the order in which they must be recorded; raise BadInput for wrong settings."""
    if given := [flag for flag, key in (("--from", "base"), ("--to", "head")) if settings.get(key)]:
        raise BadInput(f"--cluster names a cluster whose upgrade you perform; leave {given[0]} out.")
    question = KIND.check(OnCluster, {key: value for key, value in settings.items() if key not in ("base", "head")})
    seed = int(when["seed"])
    items = list(_runs(BEFORE, question, seed))
    return Campaign(kind=KIND.name, settings=question.model_dump(), items=items, **when)


def later(campaign: Campaign) -> list[Item]:
    """Return the upgrade, and the runs after it."""
    question = OnCluster.model_validate(campaign.settings)
    return [_upgrade(question, campaign.seed), *_runs(AFTER, question, campaign.seed)]


def next_part(campaign: Campaign, rows: Sequence[Row]) -> list[Item]:
    """Return the upgrade once all runs before it are recorded, and those after it once it is.

    An upgrade cannot be repeated, and no fault may meet a cluster that is being upgraded.
    """
    recorded = {row["labels"]["item"] for row in campaign.own(rows)}
    if campaign.missing(recorded):
        return []
    upgrade, *after = later(campaign)
    return after if upgrade.name in recorded else [upgrade]


def _runs(part: str, question: OnCluster, seed: int) -> Iterator[Item]:
    side = "base" if part == BEFORE else "head"
    measured = {MEASURED: question.pairs} if question.pairs else {}
    for scenario, tries in {**dict.fromkeys(question.scenarios, question.tries), **measured}.items():
        for number in range(1, tries + 1):
            labels = {"role": f"{part}-{scenario}", "question": part, "side": side, "of": scenario, "try": str(number)}
            yield Item(
                name=f"{part}-{load_scenario(scenario).name.replace('_', '-')}-{number:02}",
                scenario=scenario,
                cluster=question.cluster,
                seed=seed + number,
                labels=labels,
            )


def _upgrade(question: OnCluster, seed: int) -> Item:
    """Let the owner upgrade under load."""
    scenario = load_scenario(question.scenario)
    if not scenario.topics:
        raise BadInput(f"--scenario={question.scenario} has no topic; an upgrade without records shows nothing.")
    phases = [
        {"steady": [{"hold": _AROUND}]},
        {"the owner upgrades": [{"await_upgrade": question.upgrade_limit}]},
        {"upgraded": [{"hold": _AROUND}]},
    ]
    labels = {"role": UPGRADE, "question": UPGRADE, "side": "head", "of": question.scenario, "try": "1"}
    return Item(
        name=UPGRADE,
        scenario=question.scenario,
        cluster=question.cluster,
        changes={"phases": phases},
        seed=seed,
        labels=labels,
    )


def lines(campaign: Campaign, rows: Sequence[Row]) -> Iterator[tuple[Line, Sequence[Item]]]:
    """Yield each answer with the items that it needs; ``rows`` are those ``in_time``."""
    question = OnCluster.model_validate(campaign.settings)
    own = {part: [row for row in rows if row["labels"]["question"] == part] for part in (BEFORE, UPGRADE, AFTER)}
    every = [*campaign.items, *later(campaign)]
    items = [item for item in every if item.name == UPGRADE]
    if len(clusters := {row["cluster"] for row in rows}) > 1:
        words = f"The runs come from {len(clusters)} clusters."
        yield Line(question="upgrade", what="one cluster", answer="not yet", sentence=words, runs=[]), []
    yield of_runs("upgrade", "upgraded by its owner, under load", items, own[UPGRADE]), items
    for scenario in question.scenarios:
        items = [item for item in every if item.labels["of"] == scenario and item.name != UPGRADE]
        after = [item for item in items if item.labels["question"] == AFTER]
        tries = [row for part in (BEFORE, AFTER) for row in own[part] if row["labels"]["of"] == scenario]
        yield of_both_sides("correctness", Path(scenario).stem, after, tries, today="before the upgrade"), items
    if question.pairs:
        items = [item for item in every if item.labels["of"] == MEASURED]
        yield _performance(own), items


def in_time(rows: Sequence[Row]) -> list[Row]:
    """Leave out runs before the upgrade that were recorded again after it, and those after it if none was."""
    upgrades = [str(row["started_at"]) for row in rows if row["labels"]["question"] == UPGRADE]
    least, most = min(upgrades, default=""), max(upgrades, default=_NEVER)
    since, until = {AFTER: most}, {BEFORE: least or _NEVER}

    def fits(row: Row) -> bool:
        part = row["labels"]["question"]
        return since.get(part, "") < str(row["started_at"]) < until.get(part, _NEVER)

    return [row for row in rows if fits(row)]


def _performance(own: Mapping[str, Sequence[Row]]) -> Line:
    """Return both sides' medians as a note, which decides nothing, since such runs cannot be paired."""
    sides = {part: list(_measured(own[part])) for part in (BEFORE, AFTER)}
    runs = [run.run_id for part in sides.values() for run in part]
    places = list(dict.fromkeys(place for part in sides.values() for run in part for place in run.measured))
    compared = [
        f"{metric_of(metric).words} in phase {phase} {amount(before)} and {amount(after)} {metric_of(metric).unit}"
        for metric, phase in places
        if metric in _COMPARED
        and (before := _median(sides[BEFORE], metric, phase)) is not None
        and (after := _median(sides[AFTER], metric, phase)) is not None
    ]
    counts = f"{len(sides[BEFORE])} runs before and {len(sides[AFTER])} after"
    medians = f"Medians of {counts}, not paired: {'; '.join(compared)}."
    sentence = medians if compared else "Nothing was measured on both sides."
    return Line(question="performance", what=MEASURED, answer="note", sentence=sentence, runs=runs)


def _measured(rows: Iterable[Row]) -> Iterable[Run]:
    of_benchmark = (row for row in rows if row["labels"]["of"] == MEASURED)
    return runs_by(lambda row: str(row["run_id"]), of_benchmark, Run).values()


def _median(runs: Sequence[Run], metric: str, phase: str) -> float | None:
    values = [run.value(metric, phase) for run in runs if run.why_not(metric, phase) is None]
    known = [value for value in values if value is not None]
    return median(known) if known else None


def names(campaign: Campaign) -> tuple[str, str]:
    """Name both sides."""
    cluster = Path(str(campaign.settings["cluster"])).stem
    return f"{cluster} before the upgrade", f"{cluster} after it"


def doubts(campaign: Campaign) -> Iterator[str]:
    """Yield what stays open."""
    question = OnCluster.model_validate(campaign.settings)
    yield "No broker reports its version: that each was restarted with the new one is the owner's word."
    yield "Checks that need the controller's history or the brokers' files were not made."
    yield "Performance before and after is not paired: the load of others and the time of day are part of it."
    yield f"{counted(question.tries, 'try', 'tries')} of each scenario, and one upgrade: what is rarer stays unseen."
    yield "Rollback, other clients, and known bugs by version are not asked; --from and --to ask them on this host."
