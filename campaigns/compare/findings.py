"""What is counted in runs: promises broken, losses and copies, and what differs between two versions in kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from campaigns.compare.runs import ARMS, Run
from history.metrics import METRICS, metric_of
from spark.effects import ALPHA, fisher
from spark.intervals import none_in
from spark.known_bugs import explained
from spark.metrics import MIN_ACHIEVED

OPEN = {"undrained", "unseen"}  # evidence that is missing, no promise that is broken
BY_DESIGN = "behaviour_change"


def _finding(what: str, runs: Sequence[Run], having: Sequence[Run]) -> dict[str, Any]:
    """In which runs of each arm something is, and Fisher's p of the difference."""
    total = {arm: sum(run.arm == arm for run in runs) for arm in ARMS}
    found = {arm: [run.run_id for run in having if run.arm == arm] for arm in ARMS}
    p = fisher(len(found["head"]), total["head"], len(found["base"]), total["base"])
    return {"what": what, **{arm: {"runs": total[arm], "with": found[arm]} for arm in ARMS}, "p": p}


def _found(run: Run) -> set[str]:
    """Anomalies and broken invariants; a known bug stands for the invariants as which it shows."""
    found = {*(name for name, cases in run.about["anomalies"].items() if cases), *run.about["broken"]}
    return explained(found, run.about["sentence"])


# --- correctness -----------------------------------------------------------------------------------


def correctness(runs: Sequence[Run]) -> dict[str, Any]:
    """Broken promises by arm.

    ``verdict`` is regression, improvement, both, none or unknown. A single run that breaks a promise which base keeps
    is a regression: Kafka promises it always, not on average. ``p`` says what chance makes of the counts, ``at_most``
    how often an arm that never failed may still fail, at 95 %.
    """
    judged = [run for run in runs if run.verdict != "unknown"]
    failed = [run for run in judged if run.verdict == "fail"]
    findings = [
        _finding(name, judged, [run for run in failed if name in _found(run)])
        for name in sorted({name for run in failed for name in _blamed(run, runs)})
    ]
    arms = {arm: _verdicts([run for run in runs if run.arm == arm]) for arm in ARMS}
    p = fisher(arms["head"]["fail"], _decided(arms["head"]), arms["base"]["fail"], _decided(arms["base"]))
    return {
        "verdict": _promise(arms["base"], arms["head"], findings, p),
        "arms": arms,
        "p": p,
        "at_most": {arm: none_in(_decided(own)) for arm, own in arms.items() if not own["fail"]},
        "findings": findings,
        "failed": [_told(run) for run in failed],
        "unknown": [_told(run) for run in runs if run.verdict == "unknown"],
    }


def _blamed(run: Run, runs: Sequence[Run]) -> set[str]:
    """What broke the promise: what this arm's runs that pass have, too, is permitted."""
    passing = [other for other in runs if other.arm == run.arm and other.verdict == "pass"]
    permitted = {name for other in passing for name in _found(other)}
    return _found(run) - permitted - OPEN - {BY_DESIGN}


def _verdicts(runs: Sequence[Run]) -> dict[str, int]:
    told = [run.verdict for run in runs]
    return {"runs": len(runs), **{verdict: told.count(verdict) for verdict in ("pass", "fail", "unknown")}}


def _decided(arm: Mapping[str, int]) -> int:
    return arm["pass"] + arm["fail"]


def _told(run: Run) -> dict[str, str]:
    return {"run": run.run_id, "arm": run.arm, "sentence": run.about["sentence"]}


def _promise(base: Mapping[str, int], head: Mapping[str, int], findings: Sequence[Mapping[str, Any]], p: float) -> str:
    if not _decided(base) or not _decided(head):
        return "unknown"
    if not head["fail"]:
        return "improvement" if base["fail"] else "none"
    new = any(finding["head"]["with"] and not finding["base"]["with"] for finding in findings)
    more = p < ALPHA and head["fail"] / _decided(head) > base["fail"] / _decided(base)
    return "regression" if not base["fail"] or new or more else "both"


# --- other counts ----------------------------------------------------------------------------------


def counts(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Losses and copies: in how many runs there were any, and the largest share. A share of zero has no ratio."""
    found = []
    for name, metric in METRICS.items():
        own = [run for run in runs if run.value(name) is not None]
        if metric.kind == "count" and own:
            row = _finding(name, own, [run for run in own if run.value(name)])
            for arm in ARMS:
                row[arm]["largest"] = max((run.value(name) or 0.0 for run in own if run.arm == arm), default=None)
            found.append({**row, "words": metric.words})
    return found


def missed_loads(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Phases whose load head missed and base never did, or surely more often; the surest first.

    Such runs have no latency, so that no effect tells of them. What the host disturbed is not counted.
    """
    found = []
    for scenario, phase in {(str(run.about["scenario"]), at): None for run in runs for _, at in run.measured}:
        own = [run for run in runs if run.about["scenario"] == scenario and run.achieved(phase) is not None]
        row = _finding("load missed", own, [run for run in own if (run.achieved(phase) or 0.0) < MIN_ACHIEVED])
        head, base = (len(row[arm]["with"]) / max(row[arm]["runs"], 1) for arm in ("head", "base"))
        surely = row["p"] < ALPHA
        if head > base and row["base"]["runs"] and (surely or not row["base"]["with"]):
            found.append({**row, "scenario": scenario, "phase": phase, "surely": surely})
    return sorted(found, key=lambda row: row["p"])


def behaviour(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """What a version does differently by design, and what was seen on one side only."""
    by_design = _finding(BY_DESIGN, runs, [run for run in runs if run.about["anomalies"].get(BY_DESIGN)])
    found = [by_design] if by_design["base"]["with"] or by_design["head"]["with"] else []
    if {run.arm for run in runs} < set(ARMS):
        return found
    permitted = sorted({name for run in runs if run.verdict != "fail" for name in _found(run)} - {BY_DESIGN})
    rows = [_finding(name, runs, [run for run in runs if name in _found(run)]) for name in permitted]
    times = {place: None for run in runs for place in run.measured if metric_of(place[0]).kind == "time"}
    for metric, phase in times:
        words = metric_of(metric).words + (f" in phase {phase}" if phase else "")
        seen = [run for run in runs if run.value(metric, phase) is not None]
        rows.append(_finding(f"{words}: measured", runs, seen))
        late = [run for run in seen if run.measured[metric, phase]["censored"]]
        rows.append(_finding(f"{words}: not over when the observation ended", runs, late))
    return found + [row for row in rows if bool(row["base"]["with"]) != bool(row["head"]["with"])]
