"""Compare two versions of Kafka: plan and result. See docs/comparison.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Unpack

from campaigns.campaign import Campaign, Item, Row, When
from campaigns.compare import KIND, rate
from campaigns.compare.effects import compared, latency_by_phase, noise, not_asked, without_noise
from campaigns.compare.findings import behaviour, correctness, counts, missed_loads
from campaigns.compare.items import all_pairs, combined, knee_items, name_of, scenario_of
from campaigns.compare.question import Settings, Side
from campaigns.compare.runs import listed, pairs_of, refusals, runs_of, sides
from campaigns.compare.words import MAX_NAMED, MIN_USED, first_sentence, further_sentences
from clusters.scenario.scenario import Scenario
from clusters.scenario.steps.flow import Hold
from history.errors import BadInput
from history.metrics import why_not_in
from history.results import compare as results
from history.results.base import State

# few, since each metric reduces the power of the others
USUAL_PRIMARY = {"latency_p99_ms": 0.10, "end_to_end_p99_ms": 0.10, "broker_cpu_s_per_gb": 0.05}
USUAL_RECOVERY = {"catch_up_s": 0.20}
_NOT_OF_OTHERS = ("broker_cpu", "catch_up")  # not counted; an upper bound
_TAKES_A_BROKER = ("kill", "stop", "pause")
_STATES: dict[results.Overall, State] = {
    "correctness regression": "fail",
    "regression": "fail",
    "correctness improvement": "pass",
    "inconclusive": "unknown",
    "improvement": "pass",
    "equivalent": "pass",
    "no violation": "pass",
    "calibration": "",  # has no verdict
}


def plan(settings: Mapping[str, Any], **when: Unpack[When]) -> Campaign:
    """Plan base against itself, then base and head in ABBA order; raise BadInput for wrong settings."""
    question = _checked(settings)
    settings = {**question.model_dump(), "phases": _phases(question), "warm_ups": _warm_ups(question)}
    items = list(knee_items(question, when["seed"])) if question.of_knee else all_pairs(question, when["seed"])
    return Campaign(kind=KIND.name, settings=settings, items=items, **when)


def follow_up(campaign: Campaign, rows: Sequence[Row]) -> list[Item]:
    """Return all pairs, whatever the first show, once the offered rate is measured."""
    knee = _knee(campaign, rows)
    if knee is None or knee.rate_per_s is None:
        return []
    question = _question(campaign)
    offered = combined(question.changes, {"load": {"rate": f"{knee.rate_per_s}/s"}})
    return all_pairs(question.model_copy(update={"changes": offered}), campaign.seed)


def _knee(campaign: Campaign, rows: Sequence[Row]) -> results.Knee | None:
    return rate.knee_of(campaign.settings, campaign.own(rows)) if campaign.settings.get("of_knee") else None


def result(campaign: Campaign, rows: Sequence[Row]) -> results.CompareResult:
    """Compute the result from archive rows; docs/comparison.md explains it."""
    knee = _knee(campaign, rows)
    campaign = _with_pairs(campaign, rows, knee)
    settings, runs = campaign.settings, runs_of(campaign, rows)
    refused = [rate.refusal(knee)] if knee and knee.why_not else refusals(runs)
    between = [] if refused else pairs_of(campaign, runs, "comparison", ("base", "head"))
    of_base = [] if refused else pairs_of(campaign, runs, "calibration", ("base", "base2"))
    effects, of_sides = compared(settings, between), sides(settings, runs)
    guarantees = correctness(runs, results.Arms[str](base=of_sides.base.name, head=of_sides.head.name))
    verdict = _overall(guarantees, effects, refused) if settings["pairs"] else "calibration"
    listed_runs, missed = listed(campaign, runs), [] if refused else missed_loads(runs)
    comparison = results.CompareResult(
        **campaign.named,
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
        phases=latency_by_phase(settings, between),
        counts=counts(runs),
        missed_loads=missed,
        behaviour=behaviour(runs),
        injected_slowdown=_injected_slowdown(settings["injected_slowdown"], effects),
    )
    words = {"sentence": first_sentence(comparison), "further": further_sentences(comparison)}
    return comparison.model_copy(update=words)


def _with_pairs(campaign: Campaign, rows: Sequence[Row], knee: results.Knee | None) -> Campaign:
    """Replace the runs that find the rate by the pairs that follow."""
    if not campaign.settings.get("of_knee"):
        return campaign
    pairs = follow_up(campaign, rows) if knee else all_pairs(_question(campaign), campaign.seed)
    return campaign.model_copy(update={"items": pairs})


def _injected_slowdown(setting: Mapping[str, Any] | None, effects: Sequence[results.Effect]) -> results.Injected | None:
    if setting is None:
        return None
    own = [effect for effect in effects if effect.role == "primary" and setting["metric"] == effect.setting]
    return results.Injected(
        **setting,
        found=any(effect.verdict == "regression" for effect in own),
        seen=[_seen(effect) for effect in own],
        took_effect=[_seen(effect) for effect in effects if setting.get("shows_in") == effect.setting],
    )


def _seen(effect: results.Effect) -> results.SeenEffect:
    return results.SeenEffect.model_validate({name: getattr(effect, name) for name in results.SeenEffect.model_fields})


def _overall(
    guarantees: results.Correctness, effects: Sequence[results.Effect], refused: Sequence[str]
) -> results.Overall:
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
    order: tuple[results.EffectVerdict, ...] = ("inconclusive", "improvement")
    return next((verdict for verdict in order if verdict in verdicts), "equivalent")


def _state(
    verdict: results.Overall, guarantees: results.Correctness, runs: results.Runs, missed: Sequence[results.MissedLoad]
) -> State:
    """Missing runs, violations on both sides, or head's missed load exclude pass."""
    open_ = runs.recorded < runs.planned or guarantees.verdict == "both" or any(row.surely for row in missed)
    state = _STATES[verdict]
    return "unknown" if state == "pass" and open_ else state


def _checked(settings: Mapping[str, Any]) -> Settings:
    question = KIND.check(Settings, settings)
    own = combined(question.head.changes, question.change)
    is_same = question.on_clusters or question.base.place == question.head.place
    view = question.view or ("same_settings" if is_same else "default_settings")
    question = question.model_copy(update={"head": question.head.model_copy(update={"changes": own}), "view": view})
    scenarios = [scenario_of(question, "head", name) for name in question.scenarios]
    if question.of_knee:
        _check_knee(question, scenarios)
    primary = question.primary or {
        key: margin
        for scenario in scenarios
        for key, margin in _usual_primary(scenario).items()
        if not (question.on_clusters and key.startswith(_NOT_OF_OTHERS))
    }
    _check_phases(primary, scenarios)
    if question.injected_slowdown and question.injected_slowdown.metric not in primary:
        raise BadInput(
            f"The metric of the injected slowdown is {question.injected_slowdown.metric!r}; "
            f"name a primary one: {', '.join(primary)}."
        )
    base, head = _named(question)
    return question.model_copy(update={"primary": primary, "base": base, "head": head})


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


def _check_knee(question: Settings, scenarios: Sequence[Scenario]) -> None:
    if len(scenarios) > 1 or len(scenarios[0].named_loads) != 1:
        raise BadInput("of_knee finds the rate of one load; name one scenario that has one, or leave of_knee out.")
    for named in (question.changes, question.base.changes, question.head.changes):
        if isinstance(named.get("load"), Mapping) and "rate" in named["load"]:
            raise BadInput("of_knee finds the rate, and load.rate names one; leave one of them out.")


def _question(campaign: Campaign) -> Settings:
    return Settings.model_validate({name: campaign.settings[name] for name in Settings.model_fields})


def _check_phases(primary: Mapping[str, float], scenarios: Sequence[Scenario]) -> None:
    known = sorted({phase.name for scenario in scenarios for phase in scenario.phases})
    for key in primary:
        metric, _, phase = key.partition("@")
        if why := why_not_in(metric, phase, known):
            raise BadInput(f"primary names {key!r}; {why}.")


def _phases(question: Settings) -> dict[str, list[str]]:
    return {name: [phase.name for phase in scenario_of(question, "head", name).phases] for name in question.scenarios}


def _warm_ups(question: Settings) -> dict[str, list[str]]:
    named = {key.partition("@")[2] for key in question.primary or {}}
    scenarios = {name: scenario_of(question, "head", name).phases for name in question.scenarios}
    return {
        name: [phase.name for phase in phases if phase.is_warm_up and phase.name not in named]
        for name, phases in scenarios.items()
    }


def _named(question: Settings) -> tuple[Side, Side]:
    base, head = question.base, question.head
    injected = f", injected slowdown: {question.injected_slowdown.words}" if question.injected_slowdown else ""
    is_same, name = base.place == head.place, base.name or name_of(base)
    other = injected or (_changed(head) if base.changes != head.changes else ", again") * is_same
    return (
        base.model_copy(update={"name": name}),
        head.model_copy(update={"name": head.name or f"{name if is_same else name_of(head)}{other}"}),
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
