"""Write docs/checks.md and docs/metrics.md from the docstrings of the checks and the table of metrics."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from evidence.facts import SETTLE_NS, Cause
from history import steady
from history.anomalies import SEVERITY
from history.metrics import METRICS
from judge.checks import (
    anomalies,
    atomicity,
    causes,
    elections,
    exactly_once,
    groups,
    invariants,
    leader_changes,
    reading_order,
    records,
    shares,
    visibility,
    watermarks,
)
from judge.measures import metrics

_INTRODUCTION = """\
# The checks, one by one

This page describes every invariant and anomaly. It lists the [claims C1 to C48](claims.md) that an invariant serves (or
"at-least-once"), when it applies, what it checks beyond its title, why it is sound, and, in italics, its evidence. A
violation counts only if all sources in bold are complete. An invariant without a condition holds for all versions and
configurations. *Timed* means that it sets a time limit. [Verdicts](verdicts.md) explains how a verdict follows. S1, the
default, violates a guarantee; S2 needs review and fails no run. `make docs` writes this page from the docstrings of the
checks.

A topic is *clean* if no committed record may be missing: unclean elections are off, and no fault removed records from
the disk of the only in-sync replica. Sample A is before sample B if A's response was received before B's request was
sent, on one clock. HW is the high watermark, LEO the log end offset. The settling time is {settle:g} s. A broker or
controller is out of reach while a fault may have made it unreachable. Incomplete exports and drains are not checked.
After a step moved or damaged a replica, its earlier samples no longer count. For a topic with fewer replicas than
`min.insync.replicas`, the number of replicas counts as `min.insync.replicas`. Checks of share groups follow KIP-932,
"In-flight records", unless they name another section; I34 and I36 leave out members that stalled for a lock duration.
"""
_OF_REPLICAS: dict[str, tuple[Callable[..., Any], ...]] = {
    "source_disagreement": (elections.disagreements,),
    "behaviour_change": (watermarks.hw_below_min_isr, elections.led_from_elr, elections.last_known_leader),
}


def functions(modules: tuple[ModuleType, ...]) -> Iterator[Callable[..., Any]]:
    """Yield modules' own public functions, in source order."""
    for module in modules:
        own = (f for _, f in inspect.getmembers(module, inspect.isfunction) if f.__module__ == module.__name__)
        yield from sorted((f for f in own if not f.__name__.startswith("_")), key=lambda f: f.__code__.co_firstlineno)


def pages() -> dict[str, str]:
    """Return each page by file name."""
    return {"checks.md": _checks(), "metrics.md": _metrics()}


def _checks() -> str:
    parts = ["## Invariants of the replicas\n", *_invariants(), "## Anomalies\n", *_anomalies()]
    introduction = _INTRODUCTION.format(settle=SETTLE_NS / 1e9)
    return "\n".join([introduction, *parts, "## What may permit an anomaly\n", *_causes()])


def _invariants() -> Iterator[str]:
    for name, invariant in invariants.INVARIANTS.items():
        yield f"### {name}: {invariant.title}{_severity(invariant.severity)}\n"
        for each in invariant.checks:
            text = re.sub(rf"^{name}(?:[,:] | \((.*?)\))", r"\1", _text(each))  # the heading names it
            yield f"{text[0].upper()}{text[1:]}\n"
        yield f"{_evidence(invariant)}\n"


def _anomalies() -> Iterator[str]:
    for function in functions((records, atomicity, exactly_once, reading_order, visibility, groups, shares)):
        name = function.__name__
        if name in SEVERITY:
            yield f"### {name}{_severity(SEVERITY[name])}\n\n{_text(function)}\n"
            yield f"{_evidence(anomalies.NEEDS[name])}\n"
    yield f"### unread_acknowledged\n\n{_text(records.unread_acknowledged)}\n"
    for name, checks in _OF_REPLICAS.items():
        yield f"### {name}{_severity(SEVERITY[name])}\n"
        yield from (f"{_text(check)}\n" for check in checks)


def _causes() -> Iterator[str]:
    table = "[what is permitted](verdicts.md#what-must-hold-follows-from-the-configuration)"
    yield f"A rule of {table} names one of these causes.\n"
    losses = ", ".join((Cause.NEW_LEADER, Cause.UNCLEAN_LEADER, Cause.LOST_COPY))
    rules: dict[str, Callable[..., Any]] = {losses: leader_changes.caused_by_losses, **causes.CAUSES}
    for name, check in rules.items():
        yield f"### {name}\n\n{_text(check)}\n"


def _evidence(check: invariants.Invariant | anomalies.Needs) -> str:
    return f"*{', '.join(f'**{name}**' if name in check.whole else name for name in sorted(check.reads))}*"


def _severity(severity: str) -> str:
    return "" if severity == "S1" else f" ({severity})"


def _text(function: Callable[..., Any]) -> str:
    return inspect.cleandoc(function.__doc__ or "").replace("``", "`")


_OF_METRICS = """\
# The metrics, one by one

This page lists the metrics of a run. The table `verdict/metrics` and the archive have their values; the ending of a
name is its unit. `make docs` writes this page.

- **Latency** counts from the time at which a send was due. It is trusted only if at least {achieved:.1%} of the sends
  that were due 1 s or more before the phase's end were acknowledged within the phase, and if at least {beyond}
  samples are expected beyond the percentile, n (1 - q) >= {beyond}: {p50:,}, {p99:,} and {p999:,} samples for p50,
  p99 and p99.9 (the success-failure condition of [OpenIntro Statistics](https://www.openintro.org/book/os/)). Sends
  that were not acknowledged count as slower than all others: a percentile that falls on one has no value, and p99 is
  then above every limit.
- **Steady state**: a phase of {seconds} s or more without a fault must be in steady state, or its latency and CPU per
  GB are not trusted. Over five windows the range of throughput and of median latency is at most {range:.0%} of the
  mean (SNIA's Solid State Storage Performance Test Specification). Its limit of 10% for the slope is not used
  ([why](dev/adr/0018-steady-state-is-a-range.md)).
- **The sustainable rate** is where p99 crosses the scenario's `p99_limit`, between the last offered rate within the
  limit and the first above it, with log p99 interpolated linearly. A rate without steady state is not sustained; the
  metric is then the last rate that was.
- **Censored**: the observation ended first, and the true time is longer. A phase's time is that of its slowest
  partition.
- **Disturbed by the host**: if more than {steal:.0%} of CPU time was stolen, other processes used more than
  {other:.0%}, or tasks waited for a disk more than {io:.0%} of the time, the phase's measurements are not trusted;
  counts of records are. Waiting for a CPU does not count, because brokers under a quota cause it themselves.
- **Counters** of brokers and host are read at the boundaries of phases. A counter that fell (a restarted broker) or
  was missing at a boundary gives no value. CPU per GB requires that all loads have records of one size.

| metric | measured in | better | what it is |
|---|---|---|---|
"""


def _metrics() -> str:
    head = _OF_METRICS.format(
        achieved=metrics.MIN_ACHIEVED,
        beyond=metrics.MIN_BEYOND,
        seconds=steady.MIN_SECONDS,
        range=steady.MAX_RANGE,
        steal=METRICS["host_steal_ratio"].limit,
        other=METRICS["host_other_cpu_ratio"].limit,
        io=METRICS["host_pressure_io_ratio"].limit,
        **{name: metrics.MIN_SAMPLES[f"{name}_ms"] for name in ("p50", "p99", "p999")},
    )
    return head + "".join(
        f"| `{name}` | {'the run' if of.of_run else 'each phase'} | {of.better or ''} | {of.words} |\n"
        for name, of in METRICS.items()
    )
