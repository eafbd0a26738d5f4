"""Findings counted in runs: violated guarantees, losses, duplicates, one-sided behaviour."""

from __future__ import annotations

from collections.abc import Sequence

from campaigns.compare.runs import ARMS, Run
from campaigns.compare.words import correctness_sentence
from campaigns.statistics.effects import ALPHA, fisher
from campaigns.statistics.intervals import none_in
from history.metrics import METRICS, metric_of
from history.results import compare as results
from judge.checks.known_bugs import explained
from judge.measures.metrics import MIN_ACHIEVED

OPEN = {"undrained", "unseen"}  # missing evidence, not violations
BY_DESIGN = "behaviour_change"


def _finding(what: str, runs: Sequence[Run], having: Sequence[Run]) -> results.Finding:
    base, head = (
        results.Having(
            runs=sum(run.arm == arm for run in runs), having=[run.run_id for run in having if run.arm == arm]
        )
        for arm in ARMS
    )
    p = fisher(len(head.having), head.runs, len(base.having), base.runs)
    return results.Finding(what=what, base=base, head=head, p=p)


def shown(run: Run) -> set[str]:
    """Return a run's anomalies and violated invariants; known bugs replace the latter."""
    names = {*(name for name, cases in run.about["anomalies"].items() if cases), *run.about["broken"]}
    return explained(names, (run.about["known_bugs"] or {}).values())


def correctness(runs: Sequence[Run], names: results.Arms[str]) -> results.Correctness:
    """Compare violated guarantees by arm.

    One in head alone is a regression, since guarantees always hold; an improvement needs Fisher's exact test.
    ``at_most`` bounds an arm without failures, at 95 %.
    """
    judged = [run for run in runs if run.verdict != "unknown"]
    failed = [run for run in judged if run.verdict == "fail"]
    findings = [
        _finding(name, judged, [run for run in failed if name in shown(run)])
        for name in sorted({name for run in failed for name in _blamed(run, runs)})
    ]
    base, head = (_verdicts([run for run in runs if run.arm == arm]) for arm in ARMS)
    p = fisher(head.failed, head.decided, base.failed, base.decided)
    counted = results.Correctness(
        verdict=_guarantee(base, head, findings, p),
        sentence="",
        arms=results.Arms[results.Verdicts](base=base, head=head),
        p=p,
        at_most={arm: none_in(own.decided) for arm, own in zip(ARMS, (base, head), strict=True) if not own.failed},
        findings=findings,
        failed=[_with_sentence(run) for run in failed],
        unknown=[_with_sentence(run) for run in runs if run.verdict == "unknown"],
    )
    return counted.model_copy(update={"sentence": correctness_sentence(counted, names)})


def _blamed(run: Run, runs: Sequence[Run]) -> set[str]:
    """Exclude names that this arm's passing runs also show."""
    passing = [other for other in runs if other.arm == run.arm and other.verdict == "pass"]
    permitted = {name for other in passing for name in shown(other)}
    return violations(run) - permitted


def violations(run: Run) -> set[str]:
    """Return names except missing evidence and behaviour by design."""
    return shown(run) - OPEN - {BY_DESIGN}


def _verdicts(runs: Sequence[Run]) -> results.Verdicts:
    verdicts = [run.verdict for run in runs]
    passed, failed, unknown = (verdicts.count(verdict) for verdict in ("pass", "fail", "unknown"))
    return results.Verdicts(runs=len(runs), passed=passed, failed=failed, unknown=unknown)


def _with_sentence(run: Run) -> results.RunSentence:
    return results.RunSentence(run=run.run_id, arm=run.arm, sentence=run.about["sentence"])


def _guarantee(
    base: results.Verdicts, head: results.Verdicts, findings: Sequence[results.Finding], p: float
) -> results.GuaranteeVerdict:
    if not base.decided or not head.decided:
        return "unknown"
    if not head.failed:
        return "none" if not base.failed else "improvement" if p < ALPHA else "base only"
    new = any(finding.head.having and not finding.base.having for finding in findings)
    more = p < ALPHA and head.failed / head.decided > base.failed / base.decided
    return "regression" if not base.failed or new or more else "both"


def counts(runs: Sequence[Run]) -> list[results.Finding]:
    """Count runs with losses or duplicates; shares may be 0, so they have no ratio."""
    rows = []
    for name, metric in METRICS.items():
        own = [run for run in runs if run.value(name) is not None]
        if metric.kind == "count" and own:
            row = _finding(metric.words, own, [run for run in own if run.value(name)])
            largest = {
                arm: max((run.value(name) or 0.0 for run in own if run.arm == arm), default=None) for arm in ARMS
            }
            update: dict[str, results.Having] = {
                arm: row.of(arm).model_copy(update={"largest": largest[arm]}) for arm in ARMS
            }
            rows.append(row.model_copy(update=update))
    return rows


def missed_loads(runs: Sequence[Run]) -> list[results.MissedLoad]:
    """Return loads that head missed significantly more often, or base never; they have no latency, hence no effect."""
    rows = []
    for scenario, phase in {(str(run.about["scenario"]), at): None for run in runs for _, at in run.measured}:
        own = [run for run in runs if run.about["scenario"] == scenario and run.achieved(phase) is not None]
        row = _finding("load missed", own, [run for run in own if (run.achieved(phase) or 0.0) < MIN_ACHIEVED])
        base, head = (len(arm.having) / max(arm.runs, 1) for arm in (row.base, row.head))
        surely = row.p < ALPHA
        if head > base and row.base.runs and (surely or not row.base.having):
            rows.append(results.MissedLoad(**dict(row), scenario=scenario, phase=phase, surely=surely))
    return sorted(rows, key=lambda row: row.p)


def behaviour(runs: Sequence[Run]) -> list[results.Finding]:
    """Return behaviour that differs by design, and one-sided findings."""
    by_design = _finding(BY_DESIGN, runs, [run for run in runs if run.about["anomalies"].get(BY_DESIGN)])
    first = [by_design] if by_design.base.having or by_design.head.having else []
    if {run.arm for run in runs} < set(ARMS):
        return first
    permitted = sorted({name for run in runs if run.verdict != "fail" for name in shown(run)} - {BY_DESIGN})
    rows = [_finding(name, runs, [run for run in runs if name in shown(run)]) for name in permitted]
    times = {place: None for run in runs for place in run.measured if metric_of(place[0]).kind == "time"}
    for metric, phase in times:
        words = metric_of(metric).words + (f" in phase {phase}" if phase else "")
        seen = [run for run in runs if run.value(metric, phase) is not None]
        rows.append(_finding(f"{words}: measured", runs, seen))
        late = [run for run in seen if run.measured[metric, phase]["censored"]]
        rows.append(_finding(f"{words}: not over when the observation ended", runs, late))
    return first + [row for row in rows if bool(row.base.having) != bool(row.head.having)]
