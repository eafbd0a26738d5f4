"""A nightly run's sentence and state."""

from __future__ import annotations

from collections import Counter

from campaigns.statistics.changes import MIN_NIGHTLY_RUNS
from history.results.base import State
from history.results.nightly import NightlyResult, Series, SeriesState
from history.words import counted

MAX_NAMED = 2  # per sentence
NO_BENCHMARKS = "there are no benchmarks, so nothing was measured"


def in_phase(phase: str) -> str:
    """Name the phase, if any."""
    return f", phase {phase}" if phase else ""


def sentence(result: NightlyResult) -> str:
    """Count runs, failures and slowdowns, and tell of the control."""
    done = [run for run in result.runs if run.run_id]
    states = Counter(each.state for each in result.series if each.role == "matrix")
    statuses = Counter(failure.status for failure in result.failures)
    kinds = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))
    slow = len({(each.scenario, each.kafka_version) for each in result.series if each.state == "confirmed"})
    parts = [counted(len(result.failures), "correctness failure") + (f" ({kinds})" if kinds else "")]
    if result.measures:
        parts.append(counted(slow, "confirmed slowdown"))
    if worse := _worse(result):
        parts.append(worse)
    unknown = sum(run.verdict == "unknown" for run in done)
    unsettled = states["candidate"] + states["inconclusive"]
    parts += [
        count
        for count in (
            counted(len(result.runs) - len(done), "missing run"),
            counted(unknown, "run without a verdict", "runs without a verdict"),
            counted(unsettled, "candidate regression not settled", "candidate regressions not settled"),
            counted(states["refuted"], "refuted candidate regression"),
            counted(states["missing data"], "series with missing data", "series with missing data"),
        )
        if not count.startswith("0 ")
    ]
    matrix = f"{counted(len(result.scenarios), 'scenario')} on {counted(len(result.versions), 'version')}"
    return f"{counted(len(done), 'run')} of {matrix}: {', '.join(parts)}; {_end(result, states)}."


def _worse(result: NightlyResult) -> str:
    margins = {metric: watch["margin"] for metric, watch in result.settings["watch"].items()}
    worse = [each for each in result.beside if each.verdict == "regression"]
    worse.sort(key=lambda each: -abs(each.percent) / margins[each.metric])
    if not worse:
        return ""
    names = named([f"{each.words}, {each.scenario}{in_phase(each.phase)}: {each.percent:+.3g} %" for each in worse])
    subject, of = result.settings["subject"]["name"], counted(len(result.beside), "figure")
    return f"{subject} worse than {worse[0].release} in {len(worse)} of {of} ({names})"


def hosts(series: list[Series]) -> list[str]:
    """Return the series that changed together with the control."""
    return [each.name for each in series if each.state == "host"]


def named(names: list[str]) -> str:
    """Name the first of many."""
    more = len(names) - MAX_NAMED
    return "; ".join(names[:MAX_NAMED]) + (f"; and {more} more" if more > 0 else "")


def _end(result: NightlyResult, states: Counter[SeriesState]) -> str:
    if not result.measures:
        return NO_BENCHMARKS
    if states["no basis"] and not states.keys() - {"no basis", "no figure"}:
        return f"a series is compared once it has {MIN_NIGHTLY_RUNS + 1} nightly runs on one host"
    if with_it := hosts(result.series):
        return f"the control changed together with {named(with_it)}, so the host is the likely cause"
    words = {
        "steady": "the control did not change",
        "moved": "the control changed, so the host is the likely cause",
        "missing": "the control is missing",
    }
    return words.get(result.control.state, "the control has too few nightly runs to compare")


def state(result: NightlyResult) -> State:
    """``fail`` needs attention now, ``unknown`` lacks evidence, ``pass`` needs nothing."""
    if result.alerts or result.suppressed:
        return "fail"
    unclear = {"missing", "unknown"}.intersection(run.verdict for run in result.runs)
    open_ones = {"candidate", "inconclusive", "missing data", "host"}.intersection(each.state for each in result.series)
    return "unknown" if unclear or open_ones or result.control.state in ("moved", "missing") else "pass"
