"""A night: every scenario on every version, judged, compared with the nights before, and what looks slower is rerun.

Correctness failures alert at once. Performance alerts only once interleaved reruns have confirmed it, because a screen
over many series finds something on many quiet nights (docs/screen.md says how often). docs/nightly.md tells all of it.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from campaigns.campaign import Campaign, Item
from campaigns.nightly.night import Night, Reruns, Row, Watched
from campaigns.nightly.settings import Settings, Waiver, better, check
from clusters.scenario.scenario import load_scenario
from history.metrics import metric_of
from spark.changes import MIN_NIGHTS, Point
from spark.effects import percent
from spark.known_bugs import ISSUES, explained

SHOWN_NIGHTS = 90
MAX_NAMED = 2  # in one sentence
BY_DESIGN = {"behaviour_change"}  # told by the judge, and no anomaly
NO_RUN = "There is no run: the harness broke, or the night was cut short."
Json = dict[str, Any]


# --- the plan --------------------------------------------------------------------------------------


def plan(settings: Mapping[str, Any], *, campaign_id: str, created_at: str, seed: int) -> Campaign:
    """The canary, the matrix as often as asked in an order drawn anew for each repetition, and the canary again.

    Raises:
        BadInput: a setting is wrong, or there is no such scenario.
    """
    asked = check(settings)
    for scenario in [*asked.scenarios, asked.canary.scenario]:
        load_scenario(scenario, asked.changes)
    drawn = random.Random(seed)
    matrix: list[Item] = []
    for repetition in range(1, asked.repetitions + 1):
        cells = [(scenario, kafka) for scenario in asked.scenarios for kafka in asked.versions]
        drawn.shuffle(cells)
        matrix += [_item(asked, *cell, str(repetition), role="night") for cell in cells]
    first, last = (_item(asked, **asked.canary.model_dump(), ending=f"canary-{n}", role="canary") for n in (1, 2))
    return Campaign(
        campaign_id=campaign_id,
        kind="nightly",
        created_at=created_at,
        seed=seed,
        settings=asked.model_dump(mode="json"),
        items=[first, *matrix, last],
    )


def follow_up(campaign: Campaign, rows: Iterable[Row]) -> list[Item]:
    """Reruns of what looks slower, in pairs with a release that cannot have changed; the largest changes first.

    The same runs of the night itself always ask for the same reruns, so that a night can be resumed.
    """
    return _follow_up(Night(campaign, rows))


def _follow_up(night: Night) -> list[Item]:
    asked = night.settings
    drawn = random.Random(night.campaign.seed)
    items = []
    for scenario, kafka in list(night.suspects)[: asked.confirm.suspects]:
        release = next((release for release in asked.baseline.releases if release != kafka), None)
        if release is None:
            continue
        order = drawn.choice([("suspect", "baseline"), ("baseline", "suspect")])
        for pair in range(1, asked.confirm.pairs + 1):
            for place, role in enumerate(order, 1):
                labels = {"pair": str(pair), "order": str(place), "suspect": f"{scenario} on {kafka}"}
                version = kafka if role == "suspect" else release
                items.append(_item(asked, scenario, version, f"{role}-{pair}-of-{kafka}", role=role, **labels))
            order = order[::-1]  # ABBA: a host that drifts favours neither
    return items


def _item(asked: Settings, scenario: str, kafka: str, ending: str, **labels: str) -> Item:
    name = re.sub(r"[^a-z0-9._]+", "-", f"{scenario}-{kafka}-{ending}".lower()).strip("-._")
    return Item(name=name, scenario=scenario, kafka=kafka, changes=asked.changes, labels=labels)


# --- the result ------------------------------------------------------------------------------------


def result(campaign: Campaign, rows: Iterable[Row]) -> Json:
    """Everything that the night's page and a machine need, words included; times in ISO 8601, changes in percent."""
    night = Night(campaign, rows)
    runs = _runs(night)
    failures = _failures(night, runs)
    series = [_series(night, told) for told in night.watched]
    alerts, suppressed = _alerts(night, failures, series)
    found = {
        "kind": "nightly",
        "campaign": night.name,
        "created_at": campaign.created_at,
        "settings": campaign.settings,
        "hosts": sorted({row["host"] for row in night.tonight}),
        "runs": runs,
        "cells": _cells(runs),
        "failures": failures,
        "series": series,
        "canary": _canary(night, series),
        "alerts": alerts,
        "suppressed": suppressed,
        "waivers": _waivers(night, failures),
        "notes": _notes(night),
        "nights": _nights(night),
    }
    return {"sentence": _sentence(found), "state": _state(found), **found}


# --- runs and correctness ---------------------------------------------------------------------------


def _runs(night: Night) -> list[Json]:
    """One entry per planned run, reruns included; a run that is missing has no ``run_id`` and says so."""
    recorded = {row["labels"]["item"]: row for row in night.tonight}
    return [_run(item, recorded.get(item.name)) for item in [*night.campaign.items, *_follow_up(night)]]


def _run(item: Item, row: Row | None) -> Json:
    told: Json = {"item": item.name, "role": item.labels["role"], "scenario": item.scenario, "kafka": item.kafka}
    if row is None:
        return {**told, "run_id": None, "verdict": "missing", "sentence": NO_RUN, "found": {}}
    counts = {name: count for name, count in row["anomalies"].items() if count and name not in BY_DESIGN}
    return {
        **told,
        "scenario": row["scenario"],
        "kafka": row["kafka_version"],
        "run_id": row["run_id"],
        "started_at": row["started_at"],
        "verdict": row["verdict"],
        "sentence": row["sentence"],
        "found": {**counts, **dict.fromkeys(row["broken"], 1)},
    }


def _cells(runs: list[Json]) -> list[Json]:
    """Scenario x version, the canary and reruns with it: how many runs of each verdict, the worst first."""
    cells: dict[tuple[str, str], list[Json]] = defaultdict(list)
    for run in runs:
        cells[run["scenario"], run["kafka"]].append(run)
    order = ("fail", "missing", "unknown", "pass")
    for own in cells.values():
        own.sort(key=lambda run: order.index(run["verdict"]))
    return [
        {
            "scenario": scenario,
            "kafka": kafka,
            "verdict": own[0]["verdict"],
            "verdicts": dict(Counter(run["verdict"] for run in own)),
            "runs": [run["run_id"] for run in own if run["run_id"]],
            "sentences": sorted({run["sentence"] for run in own if run["verdict"] != "pass"}),
        }
        for (scenario, kafka), own in sorted(cells.items())
    ]


def _failures(night: Night, runs: list[Json]) -> list[Json]:
    """Scenario x version that broke a promise tonight: new, known from an earlier night, a known bug, or waived."""
    cells: dict[tuple[str, str], list[Json]] = defaultdict(list)
    for run in runs:
        if run["run_id"]:
            cells[run["scenario"], run["kafka"]].append(run)
    return [_failure(night, *cell, own) for cell, own in sorted(cells.items()) if any(map(_failed, own))]


def _failed(run: Json) -> bool:
    return bool(run["verdict"] == "fail")


def _failure(night: Night, scenario: str, kafka: str, runs: list[Json]) -> Json:
    failed = [run for run in runs if _failed(run)]
    found = sorted({name for run in failed for name in run["found"]})
    waiver = next((entry for entry in night.live if entry.covers_failure(scenario, kafka, found)), None)
    bugs = sorted({name for run in failed for name in explained(run["found"], run["sentence"])})
    first = _first_seen(night, scenario, kafka, set(found))
    told = {
        "scenario": scenario,
        "kafka": kafka,
        "found": found,
        "runs": [run["run_id"] for run in failed],
        "of": len(runs),
        "sentence": failed[0]["sentence"],
        "status": _status(waiver, bugs, first),
        "first_night": first or night.name,
        "waiver": waiver.model_dump(mode="json") if waiver else None,
    }
    return {**told, "text": f"{scenario} on {kafka} failed in {len(failed)} of {len(runs)} runs: {told['sentence']}"}


def _status(waiver: Waiver | None, explained_as: Collection[str], first: str | None) -> str:
    if waiver:
        return "waived"
    if ISSUES.issuperset(explained_as):
        return "known bug"
    return "known" if first else "new"


def _first_seen(night: Night, scenario: str, kafka: str, found: set[str]) -> str | None:
    """The first earlier night on which one run showed all of it."""
    for row in sorted(night.rows, key=lambda row: str(row["started_at"])):
        same = (row["scenario"], row["kafka_version"], row["verdict"]) == (scenario, kafka, "fail")
        shown = {name for name, count in row["anomalies"].items() if count} | set(row["broken"])
        if same and row["labels"]["campaign"] != night.name and found <= shown:
            return str(row["labels"]["campaign"])
    return None


# --- performance --------------------------------------------------------------------------------------


def _series(night: Night, told: Watched) -> Json:
    """A watched series: its points, how it stands, and what reruns said; see ``_settle`` for its states."""
    key, metric = told.key, metric_of(told.key.metric)
    state, why, reruns = _settle(night, told)
    phase = f", phase {key.phase}" if key.phase else ""
    return {
        "role": told.role,
        **key._asdict(),
        "name": f"{metric.words}, {key.scenario} on {key.kafka_version}{phase}",
        "words": metric.words,
        "unit": metric.unit,
        "better": better(key.metric),
        "margin_percent": round(100 * night.margin(key), 3),
        "state": state,
        "why": why,
        "needed": MIN_NIGHTS + 1,
        "visible_percent": _percent(told.visible),
        "change": _change(night, told),
        "confirmation": _confirmation(reruns, night) if reruns else None,
        "margins": round(night.margins(told), 3),
        "points": [_point(night, point) for point in told.points[-SHOWN_NIGHTS:]],
        "runs": sorted({row["run_id"] for row in night.tonight if _is_of(row, told)}),
    }


def _is_of(row: Row, told: Watched) -> bool:
    names = ("scenario", "scenario_digest", "kafka_version")
    return row["labels"]["role"] == told.role and all(row[name] == getattr(told.key, name) for name in names)


def _settle(night: Night, told: Watched) -> tuple[str, str, Reruns | None]:
    """The state of a series once reruns have spoken, why, and the reruns.

    Beside the states of ``Watched``: confirmed, refuted, inconclusive; a suspect is one that was not rerun.
    """
    if told.state != "suspect":
        return told.state, told.why, None
    reruns = night.reruns(told, night.name) or night.settled(told)
    if reruns is None:
        return "suspect", f"{told.why}; it was not rerun, so nothing is known yet", None
    said = reruns.said
    at = "tonight" if reruns.night == night.name else f"on {reruns.night}"
    size = "" if said.log is None else f" {_interval(_confirmation(reruns, night))};"
    return said.verdict, f"{told.why}; reruns {at} against {reruns.release}:{size} {said.why}", reruns


def _interval(told: Json) -> str:
    return f"{told['percent']:+.1f} % ({told['low_percent']:+.1f} to {told['high_percent']:+.1f} %)"


def _change(night: Night, told: Watched) -> Json | None:
    change = told.change
    if change is None:
        return None
    return {
        "since": told.after[0],
        "since_at": night.began[told.after[0]].isoformat(),
        "nights_before": len(told.before),
        "nights_after": len(told.after),
        "before": _rounded(change.before),
        "after": _rounded(change.after),
        "percent": _percent(change.log),
        "low_percent": _percent(change.low),
        "high_percent": _percent(change.high),
        "p": change.p,
    }


def _confirmation(reruns: Reruns, night: Night) -> Json:
    said = reruns.said
    return {
        "night": reruns.night,
        "is_tonight": reruns.night == night.name,
        "release": reruns.release,
        "verdict": said.verdict,
        "why": said.why,
        "pairs": said.pairs,
        "nights": said.nights,
        "percent": _percent(said.log),
        "low_percent": _percent(said.low),
        "high_percent": _percent(said.high),
        "runs": list(reruns.run_ids),
    }


def _point(night: Night, point: Point) -> Json:
    """A point stands where its night began, so that all series of a night stand together."""
    at = night.began[point.night].isoformat()
    return {
        **point._asdict(),
        "at": at,
        "value": _rounded(point.value),
        "low": _rounded(point.low),
        "high": _rounded(point.high),
    }


def _percent(log: float | None) -> float | None:
    return None if log is None or not math.isfinite(log) else round(percent(log), 2)


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")


def _canary(night: Night, series: list[Json]) -> Json:
    """Did the host change? In a word (steady, moved, no basis, missing) and in a sentence."""
    canary = night.settings.canary
    name = f"The canary ({canary.scenario} on {canary.kafka})"
    own = [told for told in series if told["role"] == "canary"]
    states = Counter(told["state"] for told in own)
    moved = [told["name"] for told in own if told["state"] == "moved"]
    if not own:
        return {"state": "missing", "sentence": f"{name} did not run, so a change of the host would not be seen."}
    if moved:
        return {"state": "moved", "sentence": f"{name} moved, so the host changed: {'; '.join(moved)}."}
    if with_it := _hosts(series):
        return {"state": "moved", "sentence": f"{name} moved with {_named(with_it)}, so the host is suspected."}
    if states["steady"]:
        return {"state": "steady", "sentence": f"{name} held still in {states['steady']} of {len(own)} series."}
    if states["silent"]:
        why = next(told["why"] for told in own if told["state"] == "silent")
        return {"state": "missing", "sentence": f"{name} has no figure tonight: {why}."}
    return {"state": "no basis", "sentence": f"{name} has no basis yet: {own[0]['why']}."}


# --- alerts -------------------------------------------------------------------------------------------


def _alerts(night: Night, failures: list[Json], series: list[Json]) -> tuple[list[Json], list[Json]]:
    """What is raised and what is not, with the reason.

    Correctness alerts unless somebody has waived it or it is a known bug of Kafka, and nothing beside it. Performance
    alerts once for each scenario and version, when confirmed, and within the
    night's budget: what is new comes first, then the largest change in margins.
    """
    raised = [
        {"kind": "correctness", "status": told["status"], "text": told["text"], "runs": told["runs"]}
        for told in failures
        if told["status"] in ("new", "known")
    ]
    slow: dict[tuple[str, str], list[Json]] = defaultdict(list)
    for told in series:
        if told["state"] == "confirmed":
            slow[told["scenario"], told["kafka_version"]].append(told)
    found = sorted(map(_slowdown, slow.values()), key=lambda alert: (alert["status"] != "new", -alert["margins"]))
    budget = night.settings.alerts
    why = f"the night's budget of {budget} alerts about performance is used up"
    return raised + found[:budget], [{**alert, "why": why} for alert in found[budget:]]


def _slowdown(series: list[Json]) -> Json:
    """One alert for all confirmed series of a scenario and version."""
    series = sorted(series, key=lambda told: -float(told["margins"]))
    worst = series[0]
    said, more = worst["confirmation"], len(series) - 1
    beside = f", and {more} more of its series" if more else ""
    return {
        "kind": "performance",
        "status": "new" if any(told["confirmation"]["is_tonight"] for told in series) else "known",
        "text": f"{worst['name']}: {_interval(said)} since {worst['change']['since']}{beside}",
        "runs": sorted({run for told in series for run in told["confirmation"]["runs"]}),
        "margins": worst["margins"],
    }


def _waivers(night: Night, failures: list[Json]) -> list[Json]:
    """Every waiver, whether it has expired, and whether tonight needed it."""
    covered = [told.waiver for told in night.watched if told.waiver]
    failed = [told["waiver"] for told in failures]
    told = [(entry, entry.model_dump(mode="json")) for entry in night.settings.waivers]
    return [
        {**shown, "expired": entry not in night.live, "used": entry in covered or shown in failed}
        for entry, shown in told
    ]


# --- words --------------------------------------------------------------------------------------------


def _sentence(found: Json) -> str:
    """``Tonight: 27 runs, 1 correctness failure (new), 0 confirmed slowdowns; the canary held still.``"""
    runs, failures = found["runs"], found["failures"]
    done = [run for run in runs if run["run_id"]]
    states = Counter(told["state"] for told in found["series"] if told["role"] == "night")
    statuses = Counter(told["status"] for told in failures)
    kinds = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))
    slow = len({(t["scenario"], t["kafka_version"]) for t in found["series"] if t["state"] == "confirmed"})
    parts = [
        _count(len(done), "run"),
        _count(len(failures), "correctness failure") + (f" ({kinds})" if kinds else ""),
        _count(slow, "confirmed slowdown"),
    ]
    unknown = sum(run["verdict"] == "unknown" for run in done)
    unsettled = states["suspect"] + states["inconclusive"]
    parts += [
        count
        for count in (
            _count(len(runs) - len(done), "missing run"),
            _count(unknown, "run without a verdict", "runs without a verdict"),
            _count(unsettled, "suspicion that nothing settled", "suspicions that nothing settled"),
            _count(states["refuted"], "refuted suspicion"),
            _count(states["silent"], "series that lost its figure", "series that lost their figures"),
        )
        if not count.startswith("0 ")
    ]
    return f"Tonight: {', '.join(parts)}; {_end(found, states)}."


def _hosts(series: list[Json]) -> list[str]:
    """The series that the canary excuses."""
    return [told["name"] for told in series if told["state"] == "host"]


def _named(names: list[str]) -> str:
    more = len(names) - MAX_NAMED
    return "; ".join(names[:MAX_NAMED]) + (f"; and {more} more" if more > 0 else "")


def _end(found: Json, states: Counter[str]) -> str:
    if states["no basis"] and not states.keys() - {"no basis", "no figure"}:
        return f"nothing is compared before a series has {MIN_NIGHTS + 1} nights on one host"
    if with_it := _hosts(found["series"]):
        return f"the canary moved with {_named(with_it)}, so the host is suspected"
    words = {
        "steady": "the canary held still",
        "moved": "the canary moved, so the host is suspected",
        "missing": "the canary is missing",
    }
    return words.get(found["canary"]["state"], "the canary has no basis yet")


def _count(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"


def _state(found: Json) -> str:
    """``fail``: somebody should look now; ``unknown``: part of the night says nothing; ``pass``: nothing to do."""
    if found["alerts"] or found["suppressed"]:
        return "fail"
    unclear = {"missing", "unknown"}.intersection(run["verdict"] for run in found["runs"])
    open_ones = {"suspect", "inconclusive", "silent", "host"}.intersection(told["state"] for told in found["series"])
    return "unknown" if unclear or open_ones or found["canary"]["state"] in ("moved", "missing") else "pass"


def _notes(night: Night) -> list[str]:
    """What a reader of the series must know: which of them began anew tonight, and why."""
    if len(night.began) == 1:
        return []
    last = list(night.began)[-2]
    before = [row for row in night.rows if row["labels"]["campaign"] == last]
    notes = []
    if {row["host"] for row in before}.isdisjoint(row["host"] for row in night.tonight) and night.tonight:
        notes.append(f"The host is not the one of {last} (its fingerprint changed), so every series begins anew.")
    was = {(row["scenario"], row["scenario_digest"]) for row in before}
    names = {scenario for scenario, _ in was}
    changed = names & {row["scenario"] for row in night.tonight if (row["scenario"], row["scenario_digest"]) not in was}
    if changed:
        notes.append(f"Changed since {last}, so that its series begin anew: {', '.join(sorted(changed))}.")
    return notes


def _nights(night: Night) -> list[Json]:
    """Every night so far, the newest first: runs by verdict."""
    verdicts: dict[str, dict[str, str]] = defaultdict(dict)
    for row in night.rows:
        verdicts[row["labels"]["campaign"]][row["run_id"]] = row["verdict"]
    return [
        {"night": name, "at": night.began[name].isoformat(), **Counter(verdicts[name].values())}
        for name in reversed(night.began)
    ][:SHOWN_NIGHTS]
