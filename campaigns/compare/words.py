"""A comparison in sentences: what somebody who upgrades should know, and what is not known."""

from __future__ import annotations

import math
from collections.abc import Sequence

from campaigns.statistics.effects import ALPHA
from history.results.compare import (
    Arms,
    CompareResult,
    Correctness,
    Effect,
    EffectVerdict,
    Finding,
    MissedLoad,
    Verdicts,
)
from reports.cells import change, detectable, p_value

MAX_NAMED = 2  # in one sentence
MIN_USED = 0.8  # of the planned pairs: what cannot be used may be missing because it was slow


def metric(effect: Effect, *, several: bool = False) -> str:
    """What was measured, and where."""
    return f"{effect.words}{_place(effect, several=several)}"


def _place(where: Effect | MissedLoad, *, several: bool) -> str:
    phase = f" in phase {where.phase}" if where.phase else ""
    return phase + (f" of {where.scenario}" if several else "")


def estimate(effect: Effect) -> str:
    """The estimate with its interval and the number of pairs."""
    if effect.method == "paired" and None not in (effect.mean, effect.low, effect.high):
        interval = f"{change(effect.low or 0.0)} to {change(effect.high or 0.0)}"
        return f"{change(effect.mean or 0.0)} (95 % interval {interval}, {effect.n} pairs)"
    if effect.method == "log-rank":
        mean = "" if effect.mean is None else f"{change(effect.mean)} "
        return f"{mean}({effect.n} pairs with censored times, {p_value(effect.p or 0.0)})"
    return f"not known ({effect.why})"


def inconclusive(effect: Effect) -> str:
    """Why a metric's effect decides nothing."""
    margin = f"±{100 * effect.margin:g} %"
    if effect.method == "log-rank":
        return "censored times show a difference or nothing; they never show that two versions are equivalent"
    if effect.method != "paired" or effect.mean is None or effect.p is None:
        return "not measured"
    beyond = abs(math.log1p(effect.mean / 100)) > math.log1p(effect.margin)
    if beyond and effect.p < ALPHA:
        holm = p_value(effect.p if effect.p_holm is None else effect.p_holm)
        return f"one of several metrics looks different by chance more easily: {holm} after Holm"
    if effect.p < ALPHA:
        return f"different, but the estimate lies within the margin of {margin} and the interval does not"
    return f"the interval holds 0 and reaches beyond the margin of {margin}"


def planned_pairs(effect: Effect) -> int:
    """Usable or not."""
    return len(effect.pairs) + len({left.pair for left in effect.left_out})


def too_few(effect: Effect) -> str:
    """Why the usable pairs cannot show that head is as good or better; empty where they can."""
    used, planned = len(effect.pairs), planned_pairs(effect)
    if used >= MIN_USED * planned:
        return ""
    return f"{used} of {planned} pairs can be used; to call head as good or better takes {100 * MIN_USED:g} %"


# --- the first sentence, and what comes after it -----------------------------------------------------


def first_sentence(result: CompareResult) -> str:
    """What somebody who upgrades should know, in one breath."""
    base, head = result.sides.base.name, result.sides.head.name
    worse, better, same, open_ = (_listed(result, own) for own in _primary(result).values())
    if result.correctness.verdict == "regression":
        sentence = result.correctness.sentence
    elif result.refusals:
        sentence = f"{head} is not compared with {base}: {_lower(result.refusals[0])}"
    elif worse:
        sentence = f"{head} is worse than {base}: {worse}."
    elif _leads_with_load(result):
        sentence = _missed(result)[0]
    elif open_ and not better:
        sentence = f"Inconclusive whether {head} differs from {base}: {open_}."
    elif better:
        sentence = f"{head} is better than {base}: {better}."
    else:
        sentence = f"{head} is equivalent to {base} within the margins: {same}."
    runs = result.runs
    if runs.recorded == runs.planned:
        return sentence
    return f"Not finished, {runs.recorded} of {runs.planned} runs are recorded: {_lower(sentence)}"


def further_sentences(result: CompareResult) -> list[str]:
    """What belongs to the first sentence and would make it too long."""
    verdict = result.correctness.verdict
    worse, better, same, open_ = (_listed(result, own) for own in _primary(result).values())
    lead = _leads_with_load(result)
    led = worse or lead
    advice = "Do not upgrade before the violated guarantee is understood; performance comes second."
    parts = [
        advice if verdict == "regression" else result.correctness.sentence,
        f"Worse: {worse}." if worse and verdict == "regression" else "",
        *_missed(result)[lead:],
        f"Better: {better}." if better and led else "",
        f"Undecided: {open_}." if open_ and (led or better) else "",
        f"Equivalent within its margin: {same}." if same and (led or better or open_) else "",
        _survivors(result),
        _detected(result),
        _restless(result),
        _injected(result),
    ]
    return [part for part in parts if part]


def _leads_with_load(result: CompareResult) -> bool:
    """Nothing that was measured is worse, and what was not measured surely is."""
    worse = result.correctness.verdict == "regression" or result.refusals or _primary(result)["regression"]
    return not worse and any(row.surely for row in result.missed_loads)


def _missed(result: CompareResult) -> list[str]:
    """Loads that head missed: such runs have no latency, and are in no effect."""
    base, head = result.sides.base.name, result.sides.head.name
    return [
        f"{head} misses its offered load{_place(row, several=result.several)} in {row.head.count} runs, {base} in "
        f"{row.base.count} (Fisher's exact {p_value(row.p)}); such runs have no latency."
        for row in result.missed_loads[:MAX_NAMED]
    ]


def _survivors(result: CompareResult) -> str:
    """Where too few pairs are left to say that head is as good or better, the effect and the reason."""
    few = [(own, too_few(own)) for own in _primary(result)["inconclusive"] if own.method != "none"]
    named = [f"{metric(own, several=result.several)}: {why}" for own, why in few if why]
    return f"Too few usable pairs of {'; '.join(named[:MAX_NAMED])}." if named else ""


def _lower(sentence: str) -> str:
    """To go on after a colon; a name keeps its capital."""
    return sentence[0].lower() + sentence[1:] if sentence.startswith(("The", "Some", "A ", "Inc")) else sentence


def _primary(result: CompareResult) -> dict[EffectVerdict, list[Effect]]:
    """The primary effects by verdict, the worst first."""
    verdicts: tuple[EffectVerdict, ...] = ("regression", "improvement", "equivalent", "inconclusive")
    primary = [effect for effect in result.effects if effect.role == "primary"]
    return {verdict: [effect for effect in primary if effect.verdict == verdict] for verdict in verdicts}


def _listed(result: CompareResult, effects: Sequence[Effect]) -> str:
    named = [f"{metric(effect, several=result.several)} {estimate(effect)}" for effect in effects[:MAX_NAMED]]
    more = len(effects) - len(named)
    return "; ".join(named) + (f"; and {more} more" if more else "")


def _detected(result: CompareResult) -> str:
    """What these pairs could have shown, where something is open and calibration says it."""
    open_ = {effect.key for effect in _primary(result)["inconclusive"]}
    could = [f"{metric(own)}: {detectable(own.smallest)}" for own in result.noise if own.key in open_]
    if not could:
        return ""
    return (
        f"Smallest worsening that {result.pairs} pairs detect in four cases of five, with the noise of this host: "
        f"{'; '.join(could)}."
    )


def _restless(result: CompareResult) -> str:
    differs = ("regression", "improvement")
    called = [own for own in result.noise if own.role == "primary" and own.verdict in differs]
    if not called:
        return ""
    base = result.sides.base.name
    return f"{base} differs from itself in {metric(called[0])} on this host, so that metric is not reliable here."


def _injected(result: CompareResult) -> str:
    slowdown = result.injected_slowdown
    if slowdown is None:
        return ""
    return f"A slowdown was injected on purpose ({slowdown.words}) and was {'' if slowdown.found else 'not '}detected."


# --- correctness -----------------------------------------------------------------------------------


def correctness_sentence(guarantees: Correctness, names: Arms[str]) -> str:
    """Guarantees kept and violated, by arm."""
    base, head = names.base, names.head
    of_base, of_head = (
        f"{own.failed} of {own.decided} judged runs" for own in (guarantees.arms.base, guarantees.arms.head)
    )
    p = f"Fisher's exact {p_value(guarantees.p)}"
    named = _findings(guarantees.findings)
    if guarantees.verdict == "regression":
        return f"{head} violates a guarantee that {base} keeps{named}: {of_head} fail against {of_base} ({p})."
    if guarantees.verdict == "improvement":
        return f"{head} keeps a guarantee that {base} violates{named}: {of_head} fail against {of_base} ({p})."
    if guarantees.verdict == "both":
        return f"Both violate guarantees{named}: {of_head} of {head} and {of_base} of {base} fail ({p})."
    if guarantees.verdict == "none":
        return f"No guarantee was violated in any run that could be judged ({_judged(guarantees.arms)})."
    return f"Correctness is not known: {_judged(guarantees.arms)} could be judged."


def _judged(arms: Arms[Verdicts]) -> str:
    return " and ".join(f"{own.decided} of {own.runs} runs of {arm}" for arm, own in arms)


def _findings(findings: Sequence[Finding]) -> str:
    """The names of what was found, what only head shows first."""
    in_order = sorted(findings, key=lambda finding: (len(finding.base.having), -len(finding.head.having)))
    named = [finding.what for finding in in_order[:MAX_NAMED]]
    return f" ({', '.join(named)})" if named else ""
