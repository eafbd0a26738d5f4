"""Try known bugs on versions; see docs/known-bugs.md."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Unpack

from pydantic import Field, field_validator, model_validator

from campaigns.campaign import MAX_TIMES, Campaign, Item, Row, Strict, When
from campaigns.kinds import split_words
from campaigns.known_bugs import KIND
from campaigns.known_bugs.bugs import BUGS, Bug
from campaigns.known_bugs.timeline import timelines
from campaigns.statistics.intervals import clopper_pearson
from clusters.kafka.servers import choose_mode
from clusters.scenario.scenario import load_scenario, merge_patch
from history.errors import BadInput
from history.kafka_versions import Mode
from history.results import known_bugs as results
from history.results.base import State
from history.results.known_bugs import Expected, KnownBugsResult, Outcome, Try

DECIDED = ("found", "clean")
MAX_NAMED = 4  # per sentence


class Settings(Strict):
    """``kafka`` replaces the bugs' own versions; no ``bugs``: all."""

    bugs: list[str] = Field(default_factory=list)
    kafka: list[str] = Field(default_factory=list)
    mode: Mode | None = None
    tries: int = Field(default=10, ge=1, le=MAX_TIMES)
    runtime: str = "docker"

    @field_validator("bugs", "kafka", mode="before")
    @classmethod
    def _words(cls, value: object) -> object:
        return split_words(value) or []

    @field_validator("bugs")
    @classmethod
    def _known(cls, value: list[str]) -> list[str]:
        by_name = {alias: bug.name for bug in BUGS for alias in (bug.name, bug.name.rpartition("-")[2])}
        for name in value:
            if name.lower() not in by_name:
                raise ValueError(f"{name!r} is no bug of the list; known: {', '.join(bug.name for bug in BUGS)}")
        return list(dict.fromkeys(by_name[name.lower()] for name in value))

    @model_validator(mode="after")
    def _mode_of_versions(self) -> Settings:
        if self.mode and not self.kafka:
            raise ValueError(f"--mode={self.mode} is for given versions; name them with --kafka")
        return self


class Arm(NamedTuple):
    """A bug on a version, and the expected outcome (None: unknown)."""

    bug: Bug
    name: str
    kafka: str
    changes: Mapping[str, Any]
    expected: Expected | None


def plan(settings: Mapping[str, Any], **when: Unpack[When]) -> Campaign:
    """Plan tries in turns, so that an aborted campaign has equally many per bug; raise BadInput if nothing can run."""
    asked = KIND.check(Settings, settings)
    arms, left_out = _runnable(asked)
    items = [_item(arm, number, when["seed"]) for number in range(1, asked.tries + 1) for arm in arms]
    return Campaign(kind=KIND.name, settings={**asked.model_dump(), "left_out": left_out}, items=items, **when)


def _runnable(asked: Settings) -> tuple[list[Arm], list[str]]:
    """Return arms, and why others cannot run; raise BadInput if a named bug or all cannot."""
    arms: list[Arm] = []
    left_out: dict[str, None] = {}  # an ordered set
    for arm in _arms(asked.bugs, asked.kafka, asked.mode):
        try:
            _check(arm)
        except BadInput as error:
            if asked.bugs:
                raise
            left_out[f"{arm.bug.issue} is left out: {error}"] = None
        else:
            arms.append(arm)
    if not arms:
        raise BadInput(" ".join(left_out))
    return arms, list(left_out)


def _arms(bugs: Sequence[str], versions: Sequence[str], mode: Mode | None) -> Iterator[Arm]:
    in_mode = {"cluster": {"mode": mode}} if mode else {}
    for bug in BUGS:
        if bugs and bug.name not in bugs:
            continue
        if not versions:
            yield Arm(bug, "bad", bug.bad, bug.bad_changes, "found")
            if bug.good:
                yield Arm(bug, "good", bug.good, bug.good_changes, "clean")
        for number, kafka in enumerate(versions, 1):
            if bug.by_setting:
                yield Arm(bug, f"bad-{number}", kafka, merge_patch(bug.bad_changes, in_mode), "found")
                yield Arm(bug, f"good-{number}", kafka, merge_patch(bug.good_changes, in_mode), "clean")
            else:
                changes = merge_patch(bug.bad_changes, in_mode)
                yield Arm(bug, f"given-{number}", kafka, changes, _expected(bug, kafka, mode))


def _expected(bug: Bug, kafka: str, mode: Mode | None) -> Expected | None:
    """None for custom jars."""
    if not _is_release(kafka):
        return None
    return "found" if bug.affects(kafka, mode) else "clean"


def _is_release(kafka: str) -> bool:
    return bool(re.fullmatch(r"\d+\.\d+\.\d+", kafka))


def _check(arm: Arm) -> None:
    told, recipe = load_scenario(arm.bug.scenario, arm.changes), load_scenario(arm.bug.scenario)
    if recipe.cluster.mode not in (None, told.cluster.mode):
        raise BadInput(f"--mode={told.cluster.mode}: the recipe of {arm.bug.issue} is for {recipe.cluster.mode} alone.")
    if not _is_release(arm.kafka):
        return
    choose_mode(arm.kafka, told.cluster.mode)
    if arm.bug.by_setting and not arm.bug.affects(arm.kafka, told.cluster.mode):
        raise BadInput(f"Kafka {arm.kafka} is none of the versions in which a setting decides it.")


def _item(arm: Arm, number: int, seed: int) -> Item:
    labels = {"bug": arm.bug.name, "role": f"{arm.bug.name}-{arm.name}", "arm": arm.name, "try": str(number)}
    return Item(
        name=f"{arm.bug.name}-{arm.name}-{number:02}",
        scenario=arm.bug.scenario,
        kafka=arm.kafka,
        changes=dict(arm.changes),
        seed=seed + number,
        labels=labels,
    )


def outcome(row: Row, bug: Bug) -> Outcome:
    """Return a run's outcome; ``clean`` also after another violation, ``window missed`` if the race was impossible."""
    if shown(row, bug):
        return "found"
    if row["verdict"] == "unknown":
        return "unknown"
    if row.get("precondition_met") is False:
        return "window missed"
    return "clean"


def shown(row: Row, bug: Bug) -> list[str]:
    """Return the bug's names that the judge found."""
    found = {*row["broken"], *(name for name, cases in row["anomalies"].items() if cases)}
    return [name for name in bug.shown_as if name in found]


def _runs(campaign: Campaign, rows: Sequence[Row]) -> dict[str, Row]:
    return {row["labels"]["item"]: row for row in campaign.own(rows)}


def follow_up(campaign: Campaign, rows: Sequence[Row]) -> list[Item]:
    """Plan one more try, once, after a missed window or no verdict."""
    runs, arms = _runs(campaign, rows), _arms_of(campaign)
    again: list[Item] = []
    used = Counter((item.labels["bug"], item.labels["arm"]) for item in campaign.items)
    for item in campaign.items:
        arm = arms[item.labels["bug"], item.labels["arm"]]
        if item.name in runs and outcome(runs[item.name], arm.bug) not in DECIDED:
            key = (arm.bug.name, arm.name)
            used[key] += 1
            again.append(_item(arm, used[key], campaign.seed))
    return again


def _arms_of(campaign: Campaign) -> dict[tuple[str, str], Arm]:
    asked = campaign.settings
    planned = {(item.labels["bug"], item.labels["arm"]) for item in campaign.items}
    arms = {(arm.bug.name, arm.name): arm for arm in _arms(asked["bugs"], asked["kafka"], asked.get("mode"))}
    return {key: arm for key, arm in arms.items() if key in planned}


def result(campaign: Campaign, rows: Sequence[Row]) -> KnownBugsResult:
    """Count tries; ``as_expected`` is None without expectation or decided tries."""
    runs = _runs(campaign, rows)
    arms = [_counted(arm, [row for row in runs.values() if _is_of(row, arm)]) for arm in _arms_of(campaign).values()]
    missing = campaign.missing(runs)
    return KnownBugsResult(
        **campaign.named,
        state=_state(arms, missing),
        sentence=_sentence(arms),
        lines=table_of(arms),
        seed=campaign.seed,
        settings=campaign.settings,
        tries=campaign.settings["tries"],
        left_out=campaign.settings["left_out"],
        hosts=sorted({str(row["host"]) for row in runs.values()}),
        missing=missing,
        arms=arms,
    )


def with_recordings(result: KnownBugsResult, folders: Mapping[str, Path]) -> KnownBugsResult:
    """Add the timelines."""
    return result.model_copy(update={"timelines": timelines(result.arms, folders.values())})


def _state(arms: Sequence[results.Arm], missing: Sequence[str]) -> State:
    if any(arm.as_expected is False for arm in arms):
        return "fail"
    return "unknown" if missing or not all(arm.decided for arm in arms) else "pass"


def _is_of(row: Row, arm: Arm) -> bool:
    return (row["labels"]["bug"], row["labels"]["arm"]) == (arm.bug.name, arm.name)


def _counted(arm: Arm, rows: Sequence[Row]) -> results.Arm:
    tries = [_try(row, arm.bug) for row in rows]
    counts = Counter(each.outcome for each in tries)
    decided = counts["found"] + counts["clean"]
    low, high = clopper_pearson(counts["found"], decided)
    return results.Arm(
        bug=arm.bug.name,
        issue=arm.bug.issue,
        title=arm.bug.title,
        scenario=arm.bug.scenario,
        shown_as=list(arm.bug.shown_as),
        arm=arm.name,
        kafka=arm.kafka,
        version=_version(arm),
        expected=arm.expected,
        as_expected=counts[arm.expected] == decided if arm.expected and decided else None,
        tries=len(tries),
        decided=decided,
        found=counts["found"],
        clean=counts["clean"],
        window_missed=counts["window missed"],
        unknown=counts["unknown"],
        interval=(round(low, 4), round(high, 4)),
        found_by=dict(Counter(name for each in tries for name in each.found_by)),
        also=dict(Counter(name for each in tries for name in each.also)),
        runs=tries,
    )


def _try(row: Row, bug: Bug) -> Try:
    return Try(
        run_id=row["run_id"],
        item=row["labels"]["item"],
        outcome=outcome(row, bug),
        found_by=shown(row, bug),
        also=[name for name in row["broken"] if name not in bug.shown_as],
        verdict=row["verdict"],
        sentence=row["sentence"],
    )


def _sentence(arms: Sequence[results.Arm]) -> str:
    known = [arm for arm in arms if arm.expected is not None and arm.decided]
    if not known:
        parts = [f"{_subject(arms)}: versions with a known expected result have no decided try"]
    elif len({arm.issue for arm in arms}) == 1 and len(known) <= MAX_NAMED:
        parts = [f"{arms[0].issue} was found in {', and in '.join(map(_found, known))}"]
    else:
        parts = [f"{_subject(arms)}: {_agreeing(known)}"]
    if open_ones := sum(arm.as_expected is None and arm.expected is not None for arm in arms):
        parts.append(f"not decided on {open_ones} {'version' if open_ones == 1 else 'versions'}")
    if missed := sum(arm.window_missed for arm in arms):
        parts.append(f"the precondition was not met in {missed} {'try' if missed == 1 else 'tries'}")
    if unknown := sum(arm.unknown for arm in arms):
        parts.append(f"{unknown} {'has' if unknown == 1 else 'have'} no verdict")
    return f"{'; '.join(parts)}."


def _found(arm: results.Arm) -> str:
    tries = f"{arm.found} of {arm.decided} {'try' if arm.decided == 1 else 'tries'}"
    return f"{tries} on {arm.kafka}, which {'has the bug' if arm.expected == 'found' else 'does not have it'}"


def _agreeing(known: Sequence[results.Arm]) -> str:
    words = {
        "found": "found in every try on {} of {} versions that have the bug",
        "clean": "in no try on {} of {} versions that do not have it",
    }
    own = {expected: [arm for arm in known if arm.expected == expected] for expected in words}
    return ", ".join(
        words[expected].format(sum(bool(arm.as_expected) for arm in arms), len(arms))
        for expected, arms in own.items()
        if arms
    )


def _subject(arms: Sequence[results.Arm]) -> str:
    issues = list(dict.fromkeys(arm.issue for arm in arms))
    tries = sum(arm.tries for arm in arms)
    named = ", ".join(issues) if len(issues) <= 2 else f"{len(issues)} known bugs"
    return f"{named}, {tries} {'try' if tries == 1 else 'tries'}"


def table_of(arms: Sequence[results.Arm]) -> list[str]:
    """Return a line for each bug and version."""
    head = (
        "bug",
        "Kafka",
        "found",
        "clean",
        "precondition not met",
        "unknown",
        "found by",
        "also violated",
        "as expected",
    )
    rows = [head, *map(_line, arms)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _line(arm: results.Arm) -> tuple[str, ...]:
    return (
        arm.issue,
        arm.version,
        f"{arm.found} of {arm.decided}",
        f"{arm.clean} of {arm.decided}",
        str(arm.window_missed),
        str(arm.unknown),
        _counts(arm.found_by),
        _counts(arm.also),
        {True: "yes", False: "NO", None: "not known"}[arm.as_expected],
    )


def _counts(names: Mapping[str, int]) -> str:
    return ", ".join(f"{name} in {count}" for name, count in names.items()) or "-"


def _version(arm: Arm) -> str:
    changed = arm.changes.get("cluster", {})
    return " ".join([arm.kafka, *(f"{name}: {str(value).lower()}" for name, value in changed.items())])
