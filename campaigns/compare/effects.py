"""Compute a comparison's effects and verdicts, and the host's noise; docs/comparison.md has the rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any, NamedTuple, get_args

from campaigns.compare.runs import Key, Pair, Run, keys_of, log_of
from campaigns.compare.words import inconclusive, planned_pairs, too_few
from campaigns.statistics import effects
from campaigns.statistics.effects import Verdict, percent
from history.metrics import metric_of
from history.results import compare as results
from judge.measures.metrics import least_load

SIZE_IN_MARGINS = 2  # for proposed pairs; a worsening within the margin is never a regression
USUAL_PAIRS = 10
INJECTED_SIZES = (0.03, 0.05, 0.10, 0.20)
LATENCIES = ("latency_p50_ms", "latency_p99_ms", "latency_p999_ms")
ROLES: tuple[results.Role, ...] = get_args(results.Role)
APART = "another run of the comparison was started between the two of this pair"


class Measured(NamedTuple):
    """An effect, and the function from its adjusted p to its verdict (None: inconclusive)."""

    effect: results.Effect
    judge: Callable[..., Verdict] | None


def compared(settings: Mapping[str, Any], pairs: Sequence[Pair]) -> list[results.Effect]:
    """Return primary effects, secondary ones, and those of role ``why``, which explain and have no verdict."""
    families = _families(settings, pairs)
    used = {
        role: [own for own in family if role == "primary" or len(own.effect.pairs) >= 2]
        for role, family in families.items()
    }
    judged = [_without_survivors(effect) for role in ("primary", "secondary") for effect in _judged(used[role])]
    return [*judged, *(own.effect for own in used["why"])]


def _families(settings: Mapping[str, Any], pairs: Sequence[Pair]) -> dict[results.Role, list[Measured]]:
    families: dict[results.Role, list[Measured]] = {role: [] for role in ROLES}
    for role, key, margin in _roles(settings, keys_of(pairs, settings)):
        if not too_little_load(role, key, pairs):
            families[role].append(measured(role, key, pairs, margin))
    return families


def not_asked(settings: Mapping[str, Any], pairs: Sequence[Pair]) -> list[results.NotAsked]:
    """Return the metrics that are left out because their phase has too little load."""
    roles = _roles(settings, keys_of(pairs, settings))
    found = [too_little_load(role, key, pairs) for role, key, _ in roles]
    return [each for each in found if each]


def too_little_load(role: results.Role, key: Key, pairs: Sequence[Pair]) -> results.NotAsked | None:
    """Return the metric's offered and required records, or None if enough were offered, even if none was answered."""
    decided = [run for pair in pairs if pair.scenario == key.scenario for run in pair.runs if run.verdict != "unknown"]
    rows = [run.measured.get((name, key.phase)) for run in decided for name in ("offered_per_s", key.metric)]
    offered = max((row["samples"] or 0 for row in rows if row), default=0)
    least = least_load(key.metric)
    if not decided or offered >= least:
        return None
    return results.NotAsked(role=role, **key._asdict(), words=metric_of(key.metric).words, offered=offered, least=least)


def _roles(settings: Mapping[str, Any], keys: Sequence[Key]) -> Iterator[tuple[results.Role, Key, float]]:
    """Yield each metric's role and margin; primary metrics are included even if they were never measured."""
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


def measured(role: results.Role, key: Key, pairs: Sequence[Pair], margin: float) -> Measured:
    """Return a metric's effect, without its verdict, which needs the p-values of all metrics of its role."""
    used, left_out = _used(key, pairs)
    metric = metric_of(key.metric)
    effect = results.Effect(
        role=role,
        **key._asdict(),
        words=metric.words,
        unit=metric.unit,
        better=metric.better,
        margin=margin,
        base=median(pair.values[0] for pair in used) if used else None,
        head=median(pair.values[1] for pair in used) if used else None,
        samples=min((least for pair in used for least in pair.samples if least is not None), default=None),
        pairs=used,
        left_out=left_out,
    )
    rule = {"margin": margin, "better": metric.better}
    if any(pair.log is None for pair in used):
        return _censored(effect, rule) if metric.kind == "time" else Measured(_changed(effect, why=_zeros(used)), None)
    return _paired(effect, rule)


def _changed(effect: results.Effect, **values: Any) -> results.Effect:
    return effect.model_copy(update=values)


def _used(key: Key, pairs: Sequence[Pair]) -> tuple[list[results.PairOfRuns], list[results.LeftOut]]:
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
            results.LeftOut(pair=pair.number, run=run.run_id if run else None, why=why)
            for run, why in zip((pair.first, pair.second), whys, strict=True)
            if why
        ]
        if pair.first and pair.second and not any(whys):
            used.append(_two(pair, pair.first, pair.second, key))
    return used, left_out


def _two(pair: Pair, first: Run, second: Run, key: Key) -> results.PairOfRuns:
    rows = [run.measured[key.metric, key.phase] for run in (first, second)]
    base, head = (row["value"] for row in rows)
    log = log_of(first, second, key.metric, key.phase)
    return results.PairOfRuns(
        pair=pair.number,
        runs=(first.run_id, second.run_id),
        ran_first=pair.ran_first,
        values=(base, head),
        censored=(rows[0]["censored"], rows[1]["censored"]),
        samples=(rows[0]["samples"], rows[1]["samples"]),
        log=log,
        change=None if log is None else percent(log),
    )


def _paired(effect: results.Effect, rule: Mapping[str, Any]) -> Measured:
    paired = effects.paired_effect([pair.log for pair in effect.pairs if pair.log is not None])
    if paired is None:
        why = f"{len(effect.pairs)} of {planned_pairs(effect)} pairs can be used, and 2 are needed"
        return Measured(_changed(effect, why=why), None)
    logs = paired._asdict()
    in_percent = {name: percent(logs[name]) for name in ("mean", "low", "high", "sd")}
    return Measured(
        _changed(effect, method="paired", n=paired.n, **in_percent, p=paired.p, sd_log=paired.sd),
        partial(effects.verdict_of, paired, **rule),
    )


def _censored(effect: results.Effect, rule: Mapping[str, Any]) -> Measured:
    arms = [[(pair.values[arm], pair.censored[arm]) for pair in effect.pairs] for arm in (0, 1)]
    of_times = effects.censored_effect(*arms)
    if of_times is None:
        return Measured(effect, None)
    base, head = (results.Times(**arm._asdict()) for arm in (of_times.base, of_times.head))
    mean = None if of_times.log is None else percent(of_times.log)
    survival = results.Survival(limit=of_times.limit, base=base, head=head)
    return Measured(
        _changed(effect, method="log-rank", n=len(effect.pairs), mean=mean, p=of_times.p, survival=survival),
        partial(effects.censored_verdict, of_times, **rule),
    )


def _zeros(used: Sequence[results.PairOfRuns]) -> str:
    zeros = sum(pair.log is None for pair in used)
    return f"in {zeros} of {len(used)} pairs a value is 0, which has no ratio"


def _judged(family: Sequence[Measured]) -> list[results.Effect]:
    adjusted = iter(effects.holm([effect.p or 0.0 for effect, judge in family if judge]))
    judged = [_verdict(effect, judge, next(adjusted) if judge else None) for effect, judge in family]
    return [_changed(own, needed=_needed(own, len(family))) if _is_open(own) else own for own in judged]


def _is_open(effect: results.Effect) -> bool:
    return (effect.role, effect.verdict, effect.method) == ("primary", "inconclusive", "paired")


def _needed(effect: results.Effect, tests: int) -> int | None:
    size = math.log1p(SIZE_IN_MARGINS * effect.margin)
    return effects.pairs_needed(size, sd=effect.sd_log or 0.0, margin=effect.margin, tests=tests)


def _verdict(effect: results.Effect, judge: Callable[..., Verdict] | None, p_holm: float | None) -> results.Effect:
    verdict = judge(p_adjusted=p_holm) if judge else "inconclusive"
    judged = _changed(effect, p_holm=p_holm, verdict=verdict)
    return _changed(judged, why=judged.why or inconclusive(judged)) if verdict == "inconclusive" else judged


def _without_survivors(effect: results.Effect) -> results.Effect:
    """Require enough usable pairs for "as good" and "better", but not for "worse"."""
    why = too_few(effect)
    if why and effect.verdict in ("equivalent", "improvement"):
        return _changed(effect, verdict="inconclusive", why=why)
    return effect


def noise(settings: Mapping[str, Any], calibrated: Sequence[Pair]) -> list[results.Noise]:
    """Return each metric's noise and detectable change, from the pairs of base with itself."""
    return [
        results.Noise(**{**dict(own), **_detected(own, settings["pairs"], len(family))})
        for family in _judged_families(settings, calibrated)
        for own in _judged(family)
        if own.method == "paired"
    ]


def without_noise(settings: Mapping[str, Any], calibrated: Sequence[Pair]) -> list[results.Effect]:
    """Return the primary and secondary metrics with unknown noise."""
    families = _judged_families(settings, calibrated)
    return [own for family in families for own, _ in family if own.method != "paired"]


def _judged_families(settings: Mapping[str, Any], calibrated: Sequence[Pair]) -> list[list[Measured]]:
    families = _families(settings, calibrated)
    return [families["primary"], families["secondary"]]


def _detected(own: results.Effect, pairs: int, tests: int) -> dict[str, Any]:
    pairs = pairs or USUAL_PAIRS
    rule: dict[str, Any] = {"pairs": pairs, "margin": own.margin, "tests": tests}
    sd, size = own.sd_log or 0.0, SIZE_IN_MARGINS * own.margin
    low, high = effects.sd_interval(sd, own.n or 0)
    smallest = [percent(effects.smallest_effect(sd=each, **rule) or 0.0) for each in (sd, low, high)]
    return {
        "pairs_planned": pairs,
        "size": 100 * size,
        "needed": _needed(own, tests),
        "sd_low": percent(low),
        "sd_high": percent(high),
        **dict(zip(("smallest", "smallest_low", "smallest_high"), smallest, strict=True)),
        "detection": {
            f"{size:.0%}": effects.detection_rate(math.log1p(size), sd=sd, **rule) for size in INJECTED_SIZES
        },
    }


def latency_by_phase(settings: Mapping[str, Any], pairs: Sequence[Pair]) -> list[results.PhaseLatency]:
    """Return each phase's latencies of both sides, from their usable runs."""
    rows = []
    for key in keys_of(pairs, settings):
        if key.metric not in LATENCIES:
            continue
        place = (key.metric, key.phase)
        arms: dict[str, list[float]] = {"base": [], "head": []}
        for pair in (pair for pair in pairs if pair.scenario == key.scenario):
            for own, run in zip(arms.values(), (pair.first, pair.second), strict=True):
                if run and not run.why_not(*place):
                    own.append(run.measured[place]["value"])
        rows.append(results.PhaseLatency(**key._asdict(), base=arms["base"], head=arms["head"]))
    return rows
