"""Compare two versions of Kafka: plan and result. See docs/comparison.md."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from campaigns.campaign import MAX_TIMES, Campaign, Item
from campaigns.compare import KIND, rate
from campaigns.compare.effects import USUAL_PAIRS, compared, noise, not_asked, phases, without_noise
from campaigns.compare.findings import behaviour, correctness, counts, missed_loads
from campaigns.compare.runs import listed, pairs_of, refusals, runs_of, sides
from campaigns.compare.words import MAX_NAMED, MIN_USED, first_sentence, further_sentences
from clusters.kafka.builds import reported_version
from clusters.kafka.jars import version_of
from clusters.kafka.servers import check_storage, choose_mode
from clusters.scenario.scenario import Scenario, load_scenario
from clusters.scenario.steps.flow import Hold
from history.errors import BadInput
from history.kafka_versions import Mode
from history.metrics import METRICS, why_not_in
from history.results.base import State
from history.results.compare import (
    Arms,
    CompareResult,
    Correctness,
    Effect,
    EffectVerdict,
    Injected,
    Knee,
    MissedLoad,
    Overall,
    Runs,
    SeenEffect,
    View,
)
from history.yaml_files import parse

# few, since each metric reduces the power of the others
USUAL_PRIMARY = {"latency_p99_ms": 0.10, "end_to_end_p99_ms": 0.10, "broker_cpu_s_per_gb": 0.05}
USUAL_RECOVERY = {"catch_up_s": 0.20}
_TAKES_A_BROKER = ("kill", "stop", "pause")
BENCHMARK = {"jvm": "production", "metrics": True}
LONGER_WAITS_S = 60.0
# Kafka's defaults of shortened timers (clusters/kafka/servers.py)
_SHIPPED = {
    "auto.leader.rebalance.enable": "true",
    "controlled.shutdown.retry.backoff.ms": "5000",
    "replica.high.watermark.checkpoint.interval.ms": "5000",
}
_SHIPPED_OF_MODE: dict[str, dict[str, Any]] = {
    "kraft": {"session_timeout": "9s", "config": {"broker.heartbeat.interval.ms": "2000"}},
    "zookeeper": {"session_timeout": "18s"},  # since 2.5 (KIP-537)
}
_STATES: dict[Overall, State] = {
    "correctness regression": "fail",
    "regression": "fail",
    "correctness improvement": "pass",
    "inconclusive": "unknown",
    "improvement": "pass",
    "equivalent": "pass",
    "no violation": "pass",
    "calibration": "",  # has no verdict
}


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Side(_Model):
    """A version, and a merge patch (RFC 7396) for this side only."""

    kafka: str
    name: str = ""
    changes: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _from_version(cls, value: object) -> object:
        return {"kafka": value} if isinstance(value, str) else value


class InjectedSlowdown(_Model):
    """``size`` is the intended worsening, such as 0.10; ``shows_in`` a metric that verifies it."""

    metric: str
    size: float | None = Field(default=None, gt=0, lt=1)
    changes: dict[str, Any]
    words: str
    shows_in: str | None = None


class Settings(_Model):
    """The question. ``primary`` maps ``<metric>@<phase>``, or ``<metric>`` of the whole run, to its margin.

    ``changes`` apply to both sides, ``change`` also to head. ``of_knee`` offers a share of the load that both sides
    sustain (None: the scenario's). Views: ``same_settings`` isolates the code's effect; ``default_settings`` drops
    scenarios' short timers, as an upgrade would show; ``unfinalised`` keeps base's protocol and metadata version.
    """

    base: Side
    head: Side
    scenarios: list[str] = Field(default=["benchmark"], min_length=1)
    pairs: int = Field(default=USUAL_PAIRS, ge=0, le=MAX_TIMES)
    of_knee: float | None = Field(default=None, gt=0, le=1)
    aa_pairs: int = Field(default=5, ge=2, le=MAX_TIMES)
    primary: dict[str, float] = Field(default_factory=dict)
    secondary_margin: float = Field(default=0.10, gt=0)
    view: View | None = None  # default: default_settings for two versions, else same_settings
    changes: dict[str, Any] = Field(default_factory=dict)
    change: dict[str, Any] = Field(default_factory=dict)
    resource_limits: dict[str, Any] | None = Field(default_factory=lambda: {"cpus": 1.0})
    injected_slowdown: InjectedSlowdown | None = None
    runtime: str = "docker"

    @model_validator(mode="before")
    @classmethod
    def _a_change_needs_no_head(cls, value: object) -> object:
        if not isinstance(value, Mapping) or not value.get("change") or value.get("head") or not value.get("base"):
            return value
        base = value["base"]
        return {**value, "head": base["kafka"] if isinstance(base, Mapping) else base}

    @field_validator("change", mode="before")
    @classmethod
    def _change_is_a_mapping(cls, value: object) -> object:
        try:
            read = parse(value, "it") if isinstance(value, str) else value
        except BadInput:
            read = None
        if not isinstance(read, dict):
            raise ValueError("it is no part of a scenario")  # noqa: TRY004 - pydantic reports it
        return read

    @field_validator("scenarios", mode="before")
    @classmethod
    def _one_or_many(cls, value: object) -> object:
        return value.split(",") if isinstance(value, str) else value

    @field_validator("pairs")
    @classmethod
    def _none_or_some(cls, value: int) -> int:
        if value == 1:
            raise ValueError("one pair has no interval; take two or more, or 0 to measure the noise of this host alone")
        return value

    @field_validator("primary")
    @classmethod
    def _primary_metrics_are_judged(cls, value: dict[str, float]) -> dict[str, float]:
        judged = [name for name, metric in METRICS.items() if metric.better and metric.kind != "count"]
        for key, margin in value.items():
            if key.partition("@")[0] not in judged:
                raise ValueError(f"primary names {key!r}; known: {', '.join(judged)}, each with @ and a phase's name")
            if not 0 < margin < 1:
                raise ValueError(f"the margin of {key} is {margin:g}; it is a share such as 0.05")
        return value

    @field_validator("runtime")
    @classmethod
    def _only_docker(cls, value: str) -> str:
        if value != "docker":
            raise ValueError(
                f"runtime {value} has no fixed resource limits for each broker; comparisons need the docker runtime"
            )
        return value

    @model_validator(mode="after")
    def _no_fast_start_jvm(self) -> Self:
        injected = self.injected_slowdown.changes if self.injected_slowdown else {}
        for what in (self.changes, self.change, self.base.changes, self.head.changes, injected):
            cluster = what.get("cluster")
            if isinstance(cluster, Mapping) and cluster.get("jvm", "production") != "production":
                raise ValueError(
                    "the fast_start JVM flags are for scenarios about correctness; comparisons need jvm: production"
                )
        return self


def plan(settings: Mapping[str, Any], *, campaign_id: str, created_at: str, seed: int) -> Campaign:
    """Plan base against itself, then base and head in ABBA order; raise BadInput for wrong settings."""
    asked = _checked(settings)
    items = list(_knee_items(asked, seed)) if asked.of_knee else _all_pairs(asked, seed)
    return Campaign(
        campaign_id=campaign_id,
        kind="compare",
        created_at=created_at,
        seed=seed,
        settings={**asked.model_dump(), "phases": _phases(asked), "warm_ups": _warm_ups(asked)},
        items=items,
    )


def follow_up(campaign: Campaign, rows: Sequence[Mapping[str, Any]]) -> list[Item]:
    """Return all pairs, whatever the first show, once the offered rate is measured."""
    knee = _knee(campaign, rows)
    if knee is None or knee.rate_per_s is None:
        return []
    asked = _asked(campaign)
    offered = combined(asked.changes, {"load": {"rate": f"{knee.rate_per_s}/s"}})
    return _all_pairs(asked.model_copy(update={"changes": offered}), campaign.seed)


def _knee(campaign: Campaign, rows: Sequence[Mapping[str, Any]]) -> Knee | None:
    own = [row for row in rows if row["labels"].get("campaign") == campaign.campaign_id]
    return rate.knee_of(campaign.settings, own) if campaign.settings.get("of_knee") else None


def result(campaign: Campaign, rows: Sequence[Mapping[str, Any]]) -> CompareResult:
    """Compute the result from archive rows; docs/comparison.md explains it."""
    knee = _knee(campaign, rows)
    if campaign.settings.get("of_knee"):
        pairs = follow_up(campaign, rows) if knee else _all_pairs(_asked(campaign), campaign.seed)
        campaign = campaign.model_copy(update={"items": pairs})
    settings, runs = campaign.settings, runs_of(campaign, rows)
    refused = [rate.refusal(knee)] if knee and knee.why_not else refusals(runs)
    between = [] if refused else pairs_of(campaign, runs, "comparison", ("base", "head"))
    of_base = [] if refused else pairs_of(campaign, runs, "calibration", ("base", "base2"))
    effects = compared(settings, between)
    of_sides = sides(settings, runs)
    guarantees = correctness(runs, Arms[str](base=of_sides.base.name, head=of_sides.head.name))
    verdict = _overall(guarantees, effects, refused) if settings["pairs"] else "calibration"
    listed_runs = listed(campaign, runs)
    missed = [] if refused else missed_loads(runs)
    comparison = CompareResult(
        campaign_id=campaign.campaign_id,
        created_at=campaign.created_at,
        state=_state(verdict, guarantees, listed_runs, missed),
        sentence="",
        verdict=verdict,
        further=[],
        seed=campaign.seed,
        settings=settings,
        **{name: settings[name] for name in ("scenarios", "pairs", "aa_pairs", "view")},
        sides=of_sides,
        hosts=sorted({str(run.about["host"]) for run in runs}),
        knee=knee,
        runs=listed_runs,
        refusals=refused,
        correctness=guarantees,
        effects=effects,
        not_asked=not_asked(settings, between),
        noise=noise(settings, of_base),
        without_noise=without_noise(settings, of_base),
        phases=phases(settings, between),
        counts=counts(runs),
        missed_loads=missed,
        behaviour=behaviour(runs),
        injected_slowdown=_injected_slowdown(settings["injected_slowdown"], effects),
    )
    return comparison.model_copy(
        update={"sentence": first_sentence(comparison), "further": further_sentences(comparison)}
    )


def _injected_slowdown(setting: Mapping[str, Any] | None, effects: Sequence[Effect]) -> Injected | None:
    if setting is None:
        return None
    own = [effect for effect in effects if effect.role == "primary" and setting["metric"] == effect.setting]
    return Injected(
        **setting,
        found=any(effect.verdict == "regression" for effect in own),
        seen=[_seen(effect) for effect in own],
        took_effect=[_seen(effect) for effect in effects if setting.get("shows_in") == effect.setting],
    )


def _seen(effect: Effect) -> SeenEffect:
    return SeenEffect.model_validate({name: getattr(effect, name) for name in SeenEffect.model_fields})


def _overall(guarantees: Correctness, effects: Sequence[Effect], refused: Sequence[str]) -> Overall:
    """Violating runs are in no effect, so metrics may be inconclusive; counts still decide."""
    if guarantees.verdict == "regression":
        return "correctness regression"
    verdicts = {effect.verdict for effect in effects if effect.role == "primary"}
    if refused or "regression" in verdicts:
        return "regression" if "regression" in verdicts else "inconclusive"
    if guarantees.verdict == "improvement":
        return "correctness improvement"
    if guarantees.verdict == "base only":
        return "inconclusive"
    if not verdicts:
        judged = all(arm.decided >= MIN_USED * arm.runs for _, arm in guarantees.arms)
        return "no violation" if guarantees.verdict == "none" and judged else "inconclusive"
    order: tuple[EffectVerdict, ...] = ("inconclusive", "improvement")
    return next((verdict for verdict in order if verdict in verdicts), "equivalent")


def _state(verdict: Overall, guarantees: Correctness, runs: Runs, missed: Sequence[MissedLoad]) -> State:
    """Missing runs, violations on both sides, or head's missed load exclude pass."""
    open_ = runs.recorded < runs.planned or guarantees.verdict == "both" or any(row.surely for row in missed)
    state = _STATES[verdict]
    return "unknown" if state == "pass" and open_ else state


# --- settings --------------------------------------------------------------------------------------


def _checked(settings: Mapping[str, Any]) -> Settings:
    asked = KIND.check(Settings, settings)
    own = combined(asked.head.changes, asked.change)
    view = asked.view or ("same_settings" if asked.base.kafka == asked.head.kafka else "default_settings")
    asked = asked.model_copy(update={"head": asked.head.model_copy(update={"changes": own}), "view": view})
    told = [_scenario_of(asked, "head", name) for name in asked.scenarios]
    if asked.of_knee:
        _check_knee(asked, told)
    primary = asked.primary or {key: margin for scenario in told for key, margin in _usual_primary(scenario).items()}
    _check_phases(primary, told)
    if asked.injected_slowdown and asked.injected_slowdown.metric not in primary:
        raise BadInput(
            f"The metric of the injected slowdown is {asked.injected_slowdown.metric!r}; "
            f"name a primary one: {', '.join(primary)}."
        )
    base, head = _named(asked)
    return asked.model_copy(update={"primary": primary, "base": base, "head": head})


def _usual_primary(scenario: Scenario) -> dict[str, float]:
    """Choose the longest phase without a fault, and each phase with a broker away."""
    held = {
        phase.name: sum(step.seconds for step in phase.steps if isinstance(step, Hold))
        for phase in scenario.phases
        if not any(step.traits for step in phase.steps) and not phase.is_warm_up
    }
    longest = max(held, key=lambda name: held[name], default=scenario.phases[0].name)
    away = [phase.name for phase in scenario.phases if any(step.key in _TAKES_A_BROKER for step in phase.steps)]
    return {f"{metric}@{longest}": margin for metric, margin in USUAL_PRIMARY.items()} | {
        f"{metric}@{phase}": margin for phase in away for metric, margin in USUAL_RECOVERY.items()
    }


def _check_knee(asked: Settings, told: Sequence[Scenario]) -> None:
    if len(told) > 1 or len(told[0].named_loads) != 1:
        raise BadInput("of_knee finds the rate of one load; name one scenario that has one, or leave of_knee out.")
    for named in (asked.changes, asked.base.changes, asked.head.changes):
        if isinstance(named.get("load"), Mapping) and "rate" in named["load"]:
            raise BadInput("of_knee finds the rate, and load.rate names one; leave one of them out.")


def _asked(campaign: Campaign) -> Settings:
    return Settings.model_validate({name: campaign.settings[name] for name in Settings.model_fields})


def _check_phases(primary: Mapping[str, float], told: Sequence[Scenario]) -> None:
    known = sorted({phase.name for scenario in told for phase in scenario.phases})
    for key in primary:
        metric, _, phase = key.partition("@")
        if why := why_not_in(metric, phase, known):
            raise BadInput(f"primary names {key!r}; {why}.")


def _phases(asked: Settings) -> dict[str, list[str]]:
    return {name: [phase.name for phase in _scenario_of(asked, "head", name).phases] for name in asked.scenarios}


def _warm_ups(asked: Settings) -> dict[str, list[str]]:
    named = {key.partition("@")[2] for key in asked.primary or {}}
    return {
        name: [
            phase.name
            for phase in _scenario_of(asked, "head", name).phases
            if phase.is_warm_up and phase.name not in named
        ]
        for name in asked.scenarios
    }


def _named(asked: Settings) -> tuple[Side, Side]:
    base, head = asked.base, asked.head
    injected = f", injected slowdown: {asked.injected_slowdown.words}" if asked.injected_slowdown else ""
    other = injected or (_changed(head) if base.changes != head.changes else ", again") * (base.kafka == head.kafka)
    return (
        base.model_copy(update={"name": base.name or _version_name(base.kafka)}),
        head.model_copy(update={"name": head.name or f"{_version_name(head.kafka)}{other}"}),
    )


def _changed(side: Side) -> str:
    leaves = list(_leaves(side.changes))
    return f" with {', '.join(leaves)}" if 0 < len(leaves) <= MAX_NAMED else ", changed"


def _leaves(changes: Mapping[str, Any], above: str = "") -> Iterator[str]:
    for name, value in changes.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{above}{name}.")
        else:
            yield f"{above}{name} {' '.join(map(str, value)) if isinstance(value, list) else value}"


def _version_name(kafka: str) -> str:
    version = reported_version(kafka)
    return f"Kafka {version}" if version == kafka else f"Kafka {version} ({Path(kafka).name})"


# --- items -----------------------------------------------------------------------------------------


def _knee_items(asked: Settings, seed: int) -> Iterator[Item]:
    (scenario,) = asked.scenarios
    for arm in rate.arms(asked.pairs):
        told = _scenario_of(asked, arm, scenario)
        yield Item(
            name=f"{told.name}-{rate.PART}-{arm}",
            scenario=scenario,
            kafka=(asked.head if arm == "head" else asked.base).kafka,
            changes=combined(_changes(asked, arm, scenario), rate.steps(told)),
            seed=seed,
            labels={"part": rate.PART, "role": arm},
        )


def _all_pairs(asked: Settings, seed: int) -> list[Item]:
    rng = random.Random(seed)
    return [
        *_pairs("calibration", ("base", "base2"), asked.aa_pairs, asked, rng),
        *_pairs("comparison", ("base", "head"), asked.pairs, asked, rng),
    ]


def _pairs(part: str, roles: tuple[str, str], pairs: int, asked: Settings, rng: random.Random) -> Iterator[Item]:
    """Order the pairs AB BA AB BA …, or BA AB …, so that drift favours neither side."""
    first = rng.randrange(2)
    names = {name: _scenario_of(asked, "base", name).name for name in asked.scenarios}
    for pair in range(1, pairs + 1):
        in_order = roles if (pair + first) % 2 else roles[::-1]
        for scenario, called in names.items():
            seed = rng.randrange(2**31)  # equal, so that faults hit the same targets on both sides
            for order, role in enumerate(in_order, 1):
                side = asked.head if role == "head" else asked.base
                yield Item(
                    name=f"{called}-{part}-{pair:02}-{order}-{role}",
                    scenario=scenario,
                    kafka=side.kafka,
                    changes=_changes(asked, role, scenario),
                    seed=seed,
                    labels={"part": part, "role": role, "pair": str(pair), "order": str(order)},
                )


def _scenario_of(asked: Settings, role: str, scenario: str) -> Scenario:
    """Return this side's scenario; raise BadInput if it cannot run, such as without the version's metadata mode."""
    told = load_scenario(scenario, _changes(asked, role, scenario))
    side = asked.head if role == "head" else asked.base
    check_storage(reported_version(side.kafka), _mode(side, told), told.cluster)
    return told


def _changes(asked: Settings, role: str, scenario: str) -> dict[str, Any]:
    side = asked.head if role == "head" else asked.base
    injected = asked.injected_slowdown.changes if asked.injected_slowdown and role == "head" else {}
    made: dict[str, Any] = {"cluster": {**BENCHMARK, "resource_limits": asked.resource_limits}}
    for patch in (_view(asked, role, scenario), asked.changes, side.changes, injected):
        made = combined(made, patch)
    return made


def combined(first: Mapping[str, Any], then: Mapping[str, Any]) -> dict[str, Any]:
    """Combine two merge patches; nulls stay, since they delete keys."""
    both = dict(first)
    for key, value in then.items():
        below = both.get(key)
        both[key] = combined(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return both


def _view(asked: Settings, role: str, scenario: str) -> dict[str, Any]:
    side = asked.head if role == "head" else asked.base
    if asked.view == "unfinalised" and role == "head":
        base = version_of(reported_version(asked.base.kafka))
        return {"cluster": {"metadata_version": base.minor_release}}
    if asked.view != "default_settings":
        return {}
    told = load_scenario(scenario)
    own = load_scenario(scenario, combined(asked.changes, side.changes))
    timers = {name: None for name in told.cluster.config if name.endswith(".ms")}
    of_mode = _SHIPPED_OF_MODE[_mode(side, own)]
    phases = [_patient(phase) for phase in told.model_dump()["phases"]]
    config = {**timers, **_SHIPPED, **of_mode.get("config", {})}
    return {"cluster": {"session_timeout": of_mode["session_timeout"], "config": config}, "phases": phases}


def _mode(side: Side, told: Scenario) -> Mode:
    return choose_mode(reported_version(side.kafka), told.cluster.mode)


def _patient(phase: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Lengthen waits for default timers."""
    return {
        name: [
            {
                key: {**value, "limit": value["limit"] + LONGER_WAITS_S} if "limit" in value else value
                for key, value in step.items()
            }
            for step in steps
        ]
        for name, steps in phase.items()
    }
