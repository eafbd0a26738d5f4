"""Sentences of a comparison: upgrade advice and open questions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from campaigns.statistics.effects import ALPHA, MAX_PAIRS
from history.results import compare as results
from judge.checks.invariants import INVARIANTS
from reports.cells import change, detectable, p_value

MAX_NAMED = 2
MIN_USED = 0.8  # of the planned pairs; slow ones may be missing


def metric(effect: results.Effect | results.NotAsked, *, several: bool = False) -> str:
    """Return the metric's name and place."""
    return f"{effect.words}{_place(effect, several=several)}"


def _place(where: results.Effect | results.NotAsked | results.MissedLoad, *, several: bool) -> str:
    phase = f" in phase {where.phase}" if where.phase else ""
    return phase + (f" of {where.scenario}" if several else "")


def estimate(effect: results.Effect) -> str:
    """Format estimate, interval and number of pairs."""
    if effect.method == "paired" and None not in (effect.mean, effect.low, effect.high):
        interval = f"{change(effect.low or 0.0)} to {change(effect.high or 0.0)}"
        return f"{change(effect.mean or 0.0)} (95 % interval {interval}, {effect.n} pairs)"
    if effect.method == "log-rank":
        mean = "" if effect.mean is None else f"{change(effect.mean)} "
        return f"{mean}({effect.n} pairs with censored times, {p_value(effect.p or 0.0)})"
    return f"not known ({effect.why})"


def inconclusive(effect: results.Effect) -> str:
    """Explain why an effect is inconclusive."""
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


def planned_pairs(effect: results.Effect) -> int:
    """Count planned pairs, usable or not."""
    return len(effect.pairs) + len({left.pair for left in effect.left_out})


def too_few(effect: results.Effect) -> str:
    """Explain too few usable pairs for "as good" or "better"."""
    used, planned = len(effect.pairs), planned_pairs(effect)
    if used >= MIN_USED * planned:
        return ""
    return f"{used} of {planned} pairs can be used; to call head as good or better takes {100 * MIN_USED:g} %"


def first_sentence(result: results.CompareResult) -> str:
    """Return the main result: violated guarantees, else performance."""
    if result.verdict == "calibration" and not result.refusals:
        return proposal(result)
    sentence = result.correctness.sentence if _leads_with_correctness(result) else _performance(result)
    runs = result.runs
    if runs.recorded == runs.planned:
        return sentence
    return f"Not finished, {runs.recorded} of {runs.planned} runs are recorded: {_lower(sentence)}"


def _leads_with_correctness(result: results.CompareResult) -> bool:
    nothing_else = not result.refusals and not any(effect.role == "primary" for effect in result.effects)
    return result.correctness.differs or nothing_else


def _performance(result: results.CompareResult) -> str:
    base, head = result.sides.base.name, result.sides.head.name
    worse, better, same, open_ = (_listed(result, own) for own in _primary(result).values())
    if result.refusals:
        return f"{head} is not compared with {base}: {_lower(result.refusals[0])}"
    if _leads_with_load(result):
        return _missed(result)[0]
    if worse:
        return f"{head} is worse than {base}: {worse}."
    if better:
        return f"{head} is better than {base}: {better}."
    if open_:
        return _undecided(result)
    return (
        f"{head} is equivalent to {base} within the margins: {same}."
        if same
        else "There is no primary metric to compare."
    )


def _undecided(result: results.CompareResult) -> str:
    used = max(len(own.pairs) for own in _primary(result)["inconclusive"])
    pairs = "1 pair" if used == 1 else f"{used or 'No'} pairs"
    cannot = "cannot decide" if used else "decide yet"
    sentence = f"{pairs} {cannot} whether {result.sides.head.name} differs from {result.sides.base.name}."
    guarantees = "All guarantees were kept." if result.correctness.verdict == "none" else ""
    return " ".join(filter(None, (sentence, guarantees, pairs_that_decide(result))))


def further_sentences(result: results.CompareResult) -> list[str]:
    """Return details too long for the first sentence."""
    if result.verdict == "calibration":
        return [part for part in (_not_asked(result), _restless(result)) if part]
    correctness = result.correctness
    worse, better, same, open_ = (_listed(result, own) for own in _primary(result).values())
    lead = _leads_with_load(result)
    led = worse or lead
    advice = "Do not upgrade before the violated guarantee is understood; performance comes second."
    parts = [
        advice if correctness.verdict == "regression" else "",
        _performance(result) if _leads_with_correctness(result) else correctness.sentence,
        *_missed(result)[lead:],
        f"Better: {better}." if better and led else "",
        f"Undecided: {open_}." if open_ else "",
        f"Equivalent within its margin: {same}." if same and (led or better or open_) else "",
        _not_asked(result),
        _others(result),
        _survivors(result),
        _detected(result),
        pairs_that_decide(result) if led or better or _leads_with_correctness(result) else "",
        proposal(result) if open_ and result.noise else "",
        _restless(result),
        _injected(result),
    ]
    return [part for part in parts if part]


def _leads_with_load(result: results.CompareResult) -> bool:
    worse = result.refusals or _primary(result)["regression"]
    return not worse and any(row.surely for row in result.missed_loads)


def _missed(result: results.CompareResult) -> list[str]:
    base, head = result.sides.base.name, result.sides.head.name
    return [
        f"{head} misses its offered load{_place(row, several=result.several)} in {row.head.count} runs, {base} in "
        f"{row.base.count} (Fisher's exact {p_value(row.p)}); such runs have no latency."
        for row in result.missed_loads[:MAX_NAMED]
    ]


def _not_asked(result: results.CompareResult) -> str:
    named = [
        f"{metric(own, several=result.several)} ({own.offered:,} of the {own.least:,} records that a run needs)"
        for own in result.not_asked
        if own.role == "primary"
    ]
    return f"Not asked, for there is too little load: {'; '.join(named)}." if named else ""


def _others(result: results.CompareResult) -> str:
    """Say what others wrote to the clusters in the phases of the primary metrics."""
    if not result.on_clusters:
        return ""
    phases = {effect.phase for effect in result.effects if effect.role == "primary"}
    own = [each for each in result.effects if each.metric == "others_per_s" and ("" in phases or each.phase in phases)]
    named = [
        f"{each.base:,.0f}/s and {each.head:,.0f}/s{_place(each, several=result.several)}"
        for each in own
        if each.base is not None and each.head is not None
    ]
    if not named:
        return "It is not known how much others wrote to the clusters meanwhile; their load is part of each figure."
    return f"Others wrote records meanwhile, on base and head: {'; '.join(named)}. Their load is part of each figure."


def _survivors(result: results.CompareResult) -> str:
    few = [(own, too_few(own)) for own in _primary(result)["inconclusive"] if own.method != "none"]
    named = [f"{metric(own, several=result.several)}: {why}" for own, why in few if why]
    return f"Too few usable pairs of {'; '.join(named[:MAX_NAMED])}." if named else ""


def _lower(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:] if sentence.startswith(("The", "Some", "A ", "Inc")) else sentence


def _primary(result: results.CompareResult) -> dict[results.EffectVerdict, list[results.Effect]]:
    verdicts: tuple[results.EffectVerdict, ...] = ("regression", "improvement", "equivalent", "inconclusive")
    primary = [effect for effect in result.effects if effect.role == "primary"]
    return {verdict: [effect for effect in primary if effect.verdict == verdict] for verdict in verdicts}


def _listed(result: results.CompareResult, effects: Sequence[results.Effect]) -> str:
    named = [f"{metric(effect, several=result.several)} {estimate(effect)}" for effect in effects[:MAX_NAMED]]
    more = len(effects) - len(named)
    return "; ".join(named) + (f"; and {more} more" if more else "")


def _detected(result: results.CompareResult) -> str:
    open_ = {effect.key for effect in _primary(result)["inconclusive"]}
    could = [f"{metric(own)}: {detectable(own.smallest)}" for own in result.noise if own.key in open_]
    if not could:
        return ""
    return (
        f"Smallest worsening that {result.pairs} pairs detect in four cases of five, with the noise of this host: "
        f"{'; '.join(could)}."
    )


def proposal(result: results.CompareResult) -> str:
    """Propose pairs that detect worsenings, given the noise."""
    own = [each for each in result.noise if each.role == "primary"]
    if not own:
        left_out = (left for each in result.without_noise if each.role == "primary" for left in each.left_out)
        why = next((f" ({left.why})" for left in left_out if left.run), "")
        return f"How many pairs a comparison needs is not known: base was not measured often enough{why}."
    needed = [each.needed for each in own]
    each = "; ".join(
        f"{metric(of, several=result.several)} {change(of.size)}: {of.needed or f'more than {MAX_PAIRS}'}" for of in own
    )
    known = [number for number in needed if number]
    last = (
        f"--pairs={max(known)} is proposed." if len(known) == len(needed) else "Take a quieter host or wider margins."
    )
    return (
        f"Pairs that detect a worsening by twice its margin in four cases of five, by base with itself: {each}. {last}"
    )


def pairs_that_decide(result: results.CompareResult) -> str:
    """Estimate the pairs that would decide open metrics."""
    open_ = [own for own in _primary(result)["inconclusive"] if own.method == "paired"]
    if not open_:
        return ""
    needed = [own.needed for own in open_]
    if None in needed:
        return f"Even {MAX_PAIRS} pairs would decide it less than four times in five: the host is too restless for it."
    most, used = max(filter(None, needed)), max(len(own.pairs) for own in open_)
    return f"About {most} pairs would decide." if most > used else ""


def _restless(result: results.CompareResult) -> str:
    differs = ("regression", "improvement")
    called = [own for own in result.noise if own.role == "primary" and own.verdict in differs]
    if not called:
        return ""
    base = result.sides.base.name
    return f"{base} differs from itself in {metric(called[0])} on this host, so that metric is not reliable here."


def _injected(result: results.CompareResult) -> str:
    slowdown = result.injected_slowdown
    if slowdown is None:
        return ""
    return f"A slowdown was injected on purpose ({slowdown.words}) and was {'' if slowdown.found else 'not '}detected."


def correctness_sentence(guarantees: results.Correctness, names: results.Arms[str]) -> str:
    """Summarise guarantees; the side that violates more comes first."""
    if guarantees.verdict == "none":
        return f"All runs that could be judged kept their guarantees ({_judged(guarantees.arms)})."
    if guarantees.verdict == "unknown":
        return f"Correctness is not known: {_judged(guarantees.arms)} could be judged."
    first, second = _worse_first(guarantees)
    found = sorted(guarantees.findings, key=lambda each: (len(each.of(second).having), -len(each.of(first).having)))
    if len(found) == 1:
        what, p = _violation(found[0].what), found[0].p
        own, other = (found[0].of(arm).count for arm in (first, second))
    else:
        what, p = "violated guarantees", guarantees.p
        own, other = (f"{each.failed} of {each.decided}" for each in map(guarantees.arms.of, (first, second)))
    test = f"Fisher's exact {p_value(p)}"
    if p >= ALPHA and guarantees.verdict in ("regression", "base only"):
        test += f"; too few runs to decide whether {names.of(second)} keeps what {names.of(first)} violates"
    each = ", ".join(
        f"{_named(row.what)} in {len(row.of(first).having)} against {len(row.of(second).having)}"
        for row in found[:MAX_NAMED]
        if len(found) > 1
    )
    other = f"none{other.removeprefix('0')}" if other.startswith("0 ") else other
    counts = f"{names.of(first)} {what} in {own} judged runs, {names.of(second)} in {other} ({test})"
    return f"{counts}: {each}." if each else f"{counts}."


def _worse_first(guarantees: results.Correctness) -> tuple[results.Arm, results.Arm]:
    base, head = (each.failed / max(each.decided, 1) for each in (guarantees.arms.base, guarantees.arms.head))
    head_first = guarantees.verdict == "regression" or (guarantees.verdict == "both" and head >= base)
    return ("head", "base") if head_first else ("base", "head")


def _violation(what: str) -> str:
    return f"{'violated' if what in INVARIANTS else 'showed'} {_named(what)}"


def _named(what: str) -> str:
    return f"{what} ({INVARIANTS[what].title})" if what in INVARIANTS else what


def _judged(arms: results.Arms[results.Verdicts]) -> str:
    return " and ".join(f"{own.decided} of {own.runs} runs of {arm}" for arm, own in arms)
