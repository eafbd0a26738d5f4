"""The effects of a comparison, metric by metric, with their verdicts, and the noise of the host that they stand on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any, NamedTuple

from campaigns.compare.runs import Key, Pair, Run, keys_of
from campaigns.compare.words import inconclusive, planned_pairs, too_few
from history.metrics import metric_of
from spark import effects
from spark.effects import Verdict, percent

PLANTS = (0.03, 0.05, 0.10, 0.20)
LATENCIES = ("latency_p50_ms", "latency_p99_ms", "latency_p999_ms")
ROLES = ("primary", "secondary", "why")
APART = "another run of the comparison was started between the two of this pair"
NO_EFFECT = dict.fromkeys(("n", "mean", "low", "high", "sd", "p", "p_holm", "verdict", "why", "survival"))


class Measured(NamedTuple):
    """An effect as JSON, and its verdict by the adjusted p; None where there is nothing to judge."""

    told: dict[str, Any]
    judge: Callable[..., Verdict] | None


def compared(settings: Mapping[str, Any], pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """Every effect: primary metrics, secondary ones, then ``why``: what explains, with an effect but no verdict."""
    found: dict[str, list[Measured]] = {role: [] for role in ROLES}
    for role, key, margin in _roles(settings, keys_of(pairs, settings["phases"])):
        effect = measured(key, pairs, margin)
        if role == "primary" or len(effect.told["pairs"]) >= 2:
            found[role].append(effect)
    for role in ("primary", "secondary"):
        _judge(found[role])
        for effect in found[role]:
            _doubt_survivors(effect.told)
    return [{"role": role, **effect.told} for role, of_role in found.items() for effect in of_role]


def _roles(settings: Mapping[str, Any], keys: Sequence[Key]) -> Iterator[tuple[str, Key, float]]:
    """Each metric with its role and margin; a primary one stays primary where it was never measured."""
    primary: dict[Key, float] = {}
    for name, margin in settings["primary"].items():
        metric, _, phase = name.partition("@")
        known = [key for key in keys if key[1:] == (metric, phase)]
        primary |= dict.fromkeys(known or [Key(settings["scenarios"][0], metric, phase)], margin)
    yield from (("primary", key, margin) for key, margin in primary.items())
    for key in keys:
        metric_kind = metric_of(key.metric)
        if key not in primary and metric_kind.kind != "count":
            yield "secondary" if metric_kind.better else "why", key, settings["secondary_margin"]


def measured(key: Key, pairs: Sequence[Pair], margin: float) -> Measured:
    """A metric's effect; its verdict must wait for the p-values of the others."""
    used, left_out = _used(key, pairs)
    metric = metric_of(key.metric)
    told = {
        **key._asdict(),
        "words": metric.words,
        "unit": metric.unit,
        "better": metric.better,
        "margin": margin,
        "base": median(pair["values"][0] for pair in used) if used else None,
        "head": median(pair["values"][1] for pair in used) if used else None,
        "samples": min((least for pair in used for least in pair["samples"] if least is not None), default=None),
        "pairs": used,
        "left_out": left_out,
        "method": "none",
        **NO_EFFECT,
    }
    rule = {"margin": margin, "better": metric.better}
    if any(pair["log"] is None for pair in used):
        return _censored(told, rule) if metric.kind == "time" else Measured({**told, "why": _zeros(used)}, None)
    return _paired(told, rule)


def _used(key: Key, pairs: Sequence[Pair]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The pairs of which both runs can be used, and why the other runs are left out."""
    used, left_out = [], []
    for pair in pairs:
        if pair.scenario != key.scenario:
            continue
        apart = APART if pair.split else None
        whys = [
            (run.why_not(key.metric, key.phase) or apart) if run else "not recorded"
            for run in (pair.first, pair.second)
        ]
        left_out += [
            {"pair": pair.number, "run": run.run_id if run else None, "why": why}
            for run, why in zip((pair.first, pair.second), whys, strict=True)
            if why
        ]
        if pair.first and pair.second and not any(whys):
            used.append(_two(pair, pair.first, pair.second, key))
    return used, left_out


def _two(pair: Pair, first: Run, second: Run, key: Key) -> dict[str, Any]:
    rows = [run.measured[key.metric, key.phase] for run in (first, second)]
    base, head = (row["value"] for row in rows)
    has_ratio = base > 0 and head > 0 and not any(row["censored"] for row in rows)
    log = effects.log_ratio(base, head) if has_ratio else None
    return {
        "pair": pair.number,
        "runs": [first.run_id, second.run_id],
        "ran_first": pair.ran_first,
        "values": [base, head],
        "censored": [row["censored"] for row in rows],
        "samples": [row["samples"] for row in rows],
        "log": log,
        "change": None if log is None else percent(log),
    }


def _paired(told: dict[str, Any], rule: Mapping[str, Any]) -> Measured:
    effect = effects.paired_effect([pair["log"] for pair in told["pairs"]])
    if effect is None:
        why = f"{len(told['pairs'])} of {planned_pairs(told)} pairs can be used, and 2 are needed"
        return Measured({**told, "why": why}, None)
    logs = effect._asdict()
    in_percent = {name: percent(logs[name]) for name in ("mean", "low", "high", "sd")}
    return Measured(
        {**told, "method": "paired", "n": effect.n, **in_percent, "p": effect.p, "sd_log": effect.sd},
        partial(effects.verdict_of, effect, **rule),
    )


def _censored(told: dict[str, Any], rule: Mapping[str, Any]) -> Measured:
    arms = [[(pair["values"][arm], pair["censored"][arm]) for pair in told["pairs"]] for arm in (0, 1)]
    effect = effects.censored_effect(*arms)
    if effect is None:
        return Measured(told, None)
    survival = {"limit": effect.limit, "base": effect.base._asdict(), "head": effect.head._asdict()}
    mean = None if effect.log is None else percent(effect.log)
    return Measured(
        {**told, "method": "log-rank", "n": len(told["pairs"]), "mean": mean, "p": effect.p, "survival": survival},
        partial(effects.censored_verdict, effect, **rule),
    )


def _zeros(used: Sequence[Mapping[str, Any]]) -> str:
    zeros = sum(pair["log"] is None for pair in used)
    return f"in {zeros} of {len(used)} pairs a value is 0, which has no ratio"


def _judge(family: Sequence[Measured]) -> None:
    """Holm over the family, then each verdict and, where there is none to be had, the reason."""
    tested = [effect.told for effect in family if effect.judge]
    for told, p in zip(tested, effects.holm([told["p"] for told in tested]), strict=True):
        told["p_holm"] = p
    for told, judge in family:
        told["verdict"] = judge(p_adjusted=told["p_holm"]) if judge else "inconclusive"
        if told["verdict"] == "inconclusive":
            told["why"] = told["why"] or inconclusive(told)


def _doubt_survivors(told: dict[str, Any]) -> None:
    """Nothing is as good or better by the pairs alone that happened to be usable; worse it is by those, too."""
    why = too_few(told)
    if why and told["verdict"] in ("equivalent", "improvement"):
        told["verdict"], told["why"] = "inconclusive", why


# --- the noise of the host -------------------------------------------------------------------------


def noise(
    settings: Mapping[str, Any], calibrated: Sequence[Pair], found: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Base against itself: each judged metric's noise, its verdict, and what the pairs of the comparison can show."""
    families: dict[str, list[Measured]] = {}
    for effect in found:
        if effect["role"] != "why":
            key = Key(effect["scenario"], effect["metric"], effect["phase"])
            families.setdefault(effect["role"], []).append(measured(key, calibrated, effect["margin"]))
    told = []
    for role, family in families.items():
        _judge(family)
        paired = [own for own, _ in family if own["method"] == "paired"]
        told += [{"role": role, **own, **_seen(own, settings["pairs"], len(family))} for own in paired]
    return told


def _seen(own: Mapping[str, Any], pairs: int, tests: int) -> dict[str, Any]:
    """The smallest worsening that is found four times of five, and how often some others are."""
    rule = {"pairs": pairs, "margin": own["margin"], "tests": tests}
    low, high = effects.sd_interval(own["sd_log"], own["n"])
    smallest = [percent(effects.smallest_effect(sd=sd, **rule) or 0.0) for sd in (own["sd_log"], low, high)]
    rates = {f"{plant:.0%}": effects.detection_rate(math.log1p(plant), sd=own["sd_log"], **rule) for plant in PLANTS}
    names = ("smallest", "smallest_low", "smallest_high")
    return {
        "sd_low": percent(low),
        "sd_high": percent(high),
        **dict(zip(names, smallest, strict=True)),
        "detection": rates,
    }


def phases(settings: Mapping[str, Any], pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """Latency by phase: the values of each arm's usable runs."""
    found = []
    for key in keys_of(pairs, settings["phases"]):
        if key.metric not in LATENCIES:
            continue
        place = (key.metric, key.phase)
        arms: dict[str, list[float]] = {"base": [], "head": []}
        for pair in (pair for pair in pairs if pair.scenario == key.scenario):
            for own, run in zip(arms.values(), (pair.first, pair.second), strict=True):
                if run and not run.why_not(*place):
                    own.append(run.measured[place]["value"])
        found.append({**key._asdict(), **arms})
    return found
