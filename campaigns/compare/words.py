"""A comparison in sentences: what somebody who upgrades should know, and what is not known."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from reports.cells import change, p_value
from spark.effects import ALPHA

Found = Mapping[str, Any]
MAX_NAMED = 2  # in one sentence
MIN_USED = 0.8  # of the planned pairs: what cannot be used may be missing because it was slow


def metric(effect: Found, *, several: bool = False) -> str:
    """What was measured, and where."""
    return f"{effect['words']}{_place(effect, several=several)}"


def _place(found: Found, *, several: bool) -> str:
    phase = f" in phase {found['phase']}" if found["phase"] else ""
    return phase + (f" of {found['scenario']}" if several else "")


def estimate(effect: Found) -> str:
    """The estimate with its interval and the number of pairs."""
    if effect["method"] == "paired":
        interval = f"{change(effect['low'])} to {change(effect['high'])}"
        return f"{change(effect['mean'])} (95 % interval {interval}, {effect['n']} pairs)"
    if effect["method"] == "log-rank":
        mean = "" if effect["mean"] is None else f"{change(effect['mean'])} "
        return f"{mean}({effect['n']} pairs with censored times, {p_value(effect['p'])})"
    return f"not known ({effect['why']})"


def inconclusive(effect: Found) -> str:
    """Why a metric's effect decides nothing."""
    margin = f"±{100 * effect['margin']:g} %"
    if effect["method"] == "log-rank":
        return "censored times show a difference or nothing; they never show that two versions are equivalent"
    if effect["method"] != "paired":
        return "not measured"
    beyond = abs(math.log1p(effect["mean"] / 100)) > math.log1p(effect["margin"])
    if beyond and effect["p"] < ALPHA:
        return f"one of several metrics looks different by chance more easily: {p_value(effect['p_holm'])} after Holm"
    if effect["p"] < ALPHA:
        return f"different, but the estimate lies within the margin of {margin} and the interval does not"
    return f"the interval holds 0 and reaches beyond the margin of {margin}"


def planned_pairs(effect: Found) -> int:
    """Usable or not."""
    return len(effect["pairs"]) + len({left["pair"] for left in effect["left_out"]})


def too_few(effect: Found) -> str:
    """Why the usable pairs cannot show that head is as good or better; empty where they can."""
    used, planned = len(effect["pairs"]), planned_pairs(effect)
    if used >= MIN_USED * planned:
        return ""
    return f"{used} of {planned} pairs can be used; to call head as good or better takes {100 * MIN_USED:g} %"


# --- the first sentence, and what comes after it -----------------------------------------------------


def first_sentence(found: Found) -> str:
    """What somebody who upgrades should know, in one breath."""
    base, head = (found["sides"][arm]["name"] for arm in ("base", "head"))
    by_verdict = _primary(found)
    worse, better, same, open_ = (_listed(found, own) for own in by_verdict.values())
    if found["correctness"]["verdict"] == "regression":
        said = str(found["correctness"]["sentence"])
    elif found["refusals"]:
        said = f"{head} is not compared with {base}: {_lower(found['refusals'][0])}"
    elif worse:
        said = f"{head} is worse than {base}: {worse}."
    elif _leads_with_load(found):
        said = _missed(found)[0]
    elif open_ and not better:
        said = f"These runs do not tell {head} from {base}: {open_}."
    elif better:
        said = f"{head} is better than {base}: {better}."
    else:
        said = f"{head} is equivalent to {base} within the margins: {same}."
    runs = found["runs"]
    if runs["recorded"] == runs["planned"]:
        return said
    return f"Not finished, {runs['recorded']} of {runs['planned']} runs are recorded: {_lower(said)}"


def further_sentences(found: Found) -> list[str]:
    """What belongs to the first sentence and would make it too long."""
    told = found["correctness"]
    worse, better, same, open_ = (_listed(found, own) for own in _primary(found).values())
    lead = _leads_with_load(found)
    led = worse or lead
    advice = "Do not upgrade before the broken promise is understood; how fast it is comes second."
    parts = [
        advice if told["verdict"] == "regression" else told["sentence"],
        f"Worse: {worse}." if worse and told["verdict"] == "regression" else "",
        *_missed(found)[lead:],
        f"Better: {better}." if better and led else "",
        f"Undecided: {open_}." if open_ and (led or better) else "",
        f"Equivalent within its margin: {same}." if same and (led or better or open_) else "",
        _survivors(found),
        _seen(found),
        _restless(found),
        _planted(found),
    ]
    return [part for part in parts if part]


def _leads_with_load(found: Found) -> bool:
    """Nothing that was measured is worse, and what was not measured surely is."""
    worse = found["correctness"]["verdict"] == "regression" or found["refusals"] or _primary(found)["regression"]
    return not worse and any(row["surely"] for row in found["missed_loads"])


def _missed(found: Found) -> list[str]:
    """Loads that head missed: such runs have no latency, and are in no effect."""
    base, head = (found["sides"][arm]["name"] for arm in ("base", "head"))
    several = len(found["settings"]["scenarios"]) > 1
    return [
        f"{head} misses its offered load{_place(row, several=several)} in {len(row['head']['with'])} of "
        f"{row['head']['runs']} runs, {base} in {len(row['base']['with'])} of {row['base']['runs']} "
        f"(Fisher's exact {p_value(row['p'])}); such runs have no latency."
        for row in found["missed_loads"][:MAX_NAMED]
    ]


def _survivors(found: Found) -> str:
    """Where too few pairs are left to say that head is as good or better, the effect and the reason."""
    several = len(found["settings"]["scenarios"]) > 1
    few = [(own, too_few(own)) for own in _primary(found)["inconclusive"] if own["method"] != "none"]
    named = [f"{metric(own, several=several)}: {why}" for own, why in few if why]
    return f"Too little is left of {'; '.join(named[:MAX_NAMED])}." if named else ""


def _lower(sentence: str) -> str:
    """To go on after a colon; a name keeps its capital."""
    return sentence[0].lower() + sentence[1:] if sentence.startswith(("The", "Some", "A ")) else sentence


def _primary(found: Found) -> dict[str, list[Found]]:
    """The primary effects by verdict, the worst first."""
    verdicts = ("regression", "improvement", "equivalent", "inconclusive")
    primary = [effect for effect in found["effects"] if effect["role"] == "primary"]
    return {verdict: [effect for effect in primary if effect["verdict"] == verdict] for verdict in verdicts}


def _listed(found: Found, effects: Sequence[Found]) -> str:
    several = len(found["settings"]["scenarios"]) > 1
    named = [f"{metric(effect, several=several)} {estimate(effect)}" for effect in effects[:MAX_NAMED]]
    more = len(effects) - len(named)
    return "; ".join(named) + (f"; and {more} more" if more else "")


def _seen(found: Found) -> str:
    """What these runs could have shown, where something is open and calibration says it."""
    open_ = {(effect["scenario"], effect["metric"], effect["phase"]) for effect in _primary(found)["inconclusive"]}
    own = [own for own in found["noise"] if (own["scenario"], own["metric"], own["phase"]) in open_]
    if not own:
        return ""
    could = "; ".join(f"{_least(each['smallest'])} in {metric(each)}" for each in own)
    return f"With the noise of this host, {found['settings']['pairs']} pairs find {could}, four times of five."


def _least(percent: float) -> str:
    return "no worsening below tenfold" if percent >= 900 else f"a worsening of {change(percent).removeprefix('+')}"


def _restless(found: Found) -> str:
    differs = ("regression", "improvement")
    called = [own for own in found["noise"] if own["role"] == "primary" and own["verdict"] in differs]
    if not called:
        return ""
    base = found["sides"]["base"]["name"]
    return f"{base} differs from itself in {metric(called[0])} on this host, so take that metric with doubt."


def _planted(found: Found) -> str:
    plant = found["plant"]
    if plant is None:
        return ""
    return f"A slowdown was planted here ({plant['words']}) and was {'' if plant['found'] else 'not '}found."


# --- correctness -----------------------------------------------------------------------------------


def correctness_sentence(found: Found) -> str:
    """Promises kept and broken, by arm."""
    told = found["correctness"]
    base, head = (found["sides"][arm]["name"] for arm in ("base", "head"))
    of = {arm: f"{own['fail']} of {own['pass'] + own['fail']} judged runs" for arm, own in told["arms"].items()}
    p = f"Fisher's exact {p_value(told['p'])}"
    named = _findings(told["findings"])
    if told["verdict"] == "regression":
        return f"{head} breaks a promise that {base} keeps{named}: {of['head']} fail against {of['base']} ({p})."
    if told["verdict"] == "improvement":
        return f"{head} keeps a promise that {base} breaks{named}: {of['head']} fail against {of['base']} ({p})."
    if told["verdict"] == "both":
        return f"Both break promises{named}: {of['head']} of {head} and {of['base']} of {base} fail ({p})."
    if told["verdict"] == "none":
        return f"No promise was broken in any run that could be judged ({_judged(told['arms'])})."
    return f"Correctness is not known: {_judged(told['arms'])} could be judged."


def _judged(arms: Mapping[str, Mapping[str, int]]) -> str:
    return " and ".join(f"{own['pass'] + own['fail']} of {own['runs']} runs of {arm}" for arm, own in arms.items())


def _findings(findings: Sequence[Found]) -> str:
    """The names of what was found, what only head shows first."""
    in_order = sorted(findings, key=lambda finding: (len(finding["base"]["with"]), -len(finding["head"]["with"])))
    named = [finding["what"] for finding in in_order[:MAX_NAMED]]
    return f" ({', '.join(named)})" if named else ""
