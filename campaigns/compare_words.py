"""A comparison in sentences: what somebody who upgrades should know, and what is not known."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from spark.effects import ALPHA

Found = Mapping[str, Any]
MOST_NAMED = 3


def change(percent: float) -> str:
    """A change with its sign, such as +12 % and +3.4 %."""
    digits = 0 if abs(percent) >= 9.95 else 1
    shown = f"{abs(percent):,.{digits}f}"
    return f"{'−' if percent < 0 and float(shown.replace(',', '')) else '+'}{shown} %"


def p_value(p: float) -> str:
    """A p-value that never reads as zero."""
    return "p < 0.0001" if p < 0.0001 else f"p = {p:.2g}"


def metric(effect: Found, *, several: bool = False) -> str:
    """What was measured, and where."""
    phase = f" in phase {effect['phase']}" if effect["phase"] else ""
    return f"{effect['words']}{phase}" + (f" of {effect['scenario']}" if several else "")


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


# --- the first sentence ----------------------------------------------------------------------------


def first_sentence(found: Found) -> str:
    """What somebody who upgrades should know, in one breath; what is missing comes with it."""
    parts = [_unfinished(found), _result(found), _promises(found), _restless(found), _planted(found)]
    return " ".join(part for part in parts if part)


def _unfinished(found: Found) -> str:
    runs = found["runs"]
    left = runs["planned"] - runs["recorded"]
    return f"Not finished, {runs['recorded']} of {runs['planned']} runs are recorded:" if left else ""


def _result(found: Found) -> str:
    base, head = (found["sides"][arm]["name"] for arm in ("base", "head"))
    if found["correctness"]["verdict"] == "regression":
        return str(found["correctness"]["sentence"])
    if found["refusals"]:
        return f"{head} is not compared with {base}. {found['refusals'][0]}"
    primary = [effect for effect in found["effects"] if effect["role"] == "primary"]
    of = {
        verdict: [effect for effect in primary if effect["verdict"] == verdict]
        for verdict in ("regression", "improvement", "equivalent", "inconclusive")
    }
    several = len(found["settings"]["scenarios"]) > 1
    worse, better, same, open_ = (_listed(own, several=several) for own in of.values())
    if worse:
        also = f" It is better in {better}." if better else ""
        return f"{head} is worse than {base}: {worse}, beyond the margin that was set.{also}{_open(open_)}"
    if better:
        return f"{head} is better than {base}: {better}, beyond the margin that was set.{_open(open_)}"
    if open_:
        settled = f" Equivalent within its margin: {same}." if same else ""
        return f"These runs do not tell {head} from {base}: {open_}.{_seen(found)}{settled}"
    return f"{head} is equivalent to {base} within the margins that were set: {same}."


def _listed(effects: Sequence[Found], *, several: bool) -> str:
    named = [f"{metric(effect, several=several)} {estimate(effect)}" for effect in effects[:MOST_NAMED]]
    more = len(effects) - len(named)
    return "; ".join(named) + (f"; and {more} more" if more else "")


def _open(listed: str) -> str:
    return f" Undecided: {listed}." if listed else ""


def _seen(found: Found) -> str:
    """What these runs could have shown, where calibration says it."""
    known = {(own["scenario"], own["metric"], own["phase"]): own for own in found["noise"]}
    for effect in found["effects"]:
        own = known.get((effect["scenario"], effect["metric"], effect["phase"]))
        if effect["role"] == "primary" and effect["verdict"] == "inconclusive" and own:
            pairs = found["settings"]["pairs"]
            return f" {pairs} pairs on this host find a worsening of {change(own['smallest'])[1:]} four times of five."
    return ""


def _promises(found: Found) -> str:
    told = found["correctness"]
    return str(told["sentence"]) if told["verdict"] in ("both", "improvement", "unknown") else ""


def _restless(found: Found) -> str:
    called = [
        own for own in found["noise"] if own["role"] == "primary" and own["verdict"] in ("regression", "improvement")
    ]
    if not called:
        return ""
    base = found["sides"]["base"]["name"]
    return f"But {base} differs from itself in {metric(called[0])} on this host, so take that metric with doubt."


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
    of = {arm: f"{told['arms'][arm]['fail']} of {told['arms'][arm]['runs']} runs" for arm in ("base", "head")}
    p = f"Fisher's exact {p_value(told['p'])}"
    named = _findings(told["findings"])
    if told["verdict"] == "regression":
        return (
            f"{head} breaks a promise that {base} keeps{named}: {of['head']} fail against {of['base']} ({p}). "
            "Do not upgrade before that is understood."
        )
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
    named = [finding["what"] for finding in in_order[:MOST_NAMED]]
    return f" ({', '.join(named)})" if named else ""
