"""Write docs/checks.md and docs/metrics.md from docstrings and tables: ``python -m judge.describe``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from evidence.gather import LOST_COPY, NEW_LEADER, UNCLEAN_LEADER
from history import steady
from history.metrics import METRICS
from judge.checks import (
    anomalies,
    atomicity,
    causes,
    elections,
    exactly_once,
    groups,
    invariants,
    reading_order,
    records,
    shares,
    takeovers,
    visibility,
    watermarks,
)
from judge.measures import metrics

DOCS = Path(__file__).resolve().parents[1] / "docs"
_INTRODUCTION = """\
# The checks, one by one

Each entry says what is checked, for which versions and configurations, why it is sound, and which of the
[claims C1 to C48](claims.md) it serves. [Verdicts](verdicts.md) say what follows from it. Written by
`python -m judge.describe` from the docstrings of the checks; change those, not this page.

A topic is *clean* when nothing committed may be missing from it: unclean elections are off, and no fault took
records off the disk of the only replica in sync. Sample A is before sample B when A's answer came before B's
question, on one clock. HW is the high watermark, LEO the log end offset.
"""
_OF_REPLICAS: dict[str, tuple[Callable[..., Any], ...]] = {
    "source_disagreement": (elections.disagreements,),
    "behaviour_change": (watermarks.hw_below_min_isr, elections.led_from_elr, elections.last_known_leader),
}


def functions(modules: tuple[ModuleType, ...]) -> Iterator[Callable[..., Any]]:
    """Yield the public functions that some modules define themselves, in source order."""
    for module in modules:
        own = (f for _, f in inspect.getmembers(module, inspect.isfunction) if f.__module__ == module.__name__)
        yield from sorted((f for f in own if not f.__name__.startswith("_")), key=lambda f: f.__code__.co_firstlineno)


def pages() -> dict[str, str]:
    """Return the current content of each page, by file name."""
    return {"checks.md": _checks(), "metrics.md": _metrics()}


def _checks() -> str:
    parts = ["## Invariants of the replicas\n", *_invariants(), "## Anomalies\n", *_anomalies()]
    return "\n".join([_INTRODUCTION, *parts, "## What may permit an anomaly\n", *_causes()])


def _invariants() -> Iterator[str]:
    for name, invariant in invariants.INVARIANTS.items():
        yield f"### {name}: {invariant.title} ({invariant.severity})\n"
        for each in invariant.documented or invariant.checks:
            text = re.sub(rf"^{name}[,:] ", "", _text(each))  # the heading names it
            yield f"{text[0].upper()}{text[1:]}\n"
        yield f"{_rests_on(invariant)}\n"


def _anomalies() -> Iterator[str]:
    for function in functions((records, atomicity, exactly_once, reading_order, visibility, groups, shares)):
        name = function.__name__
        if name in anomalies.SEVERITY:
            yield f"### {name} ({anomalies.SEVERITY[name]})\n\n{_text(function)}\n"
            yield f"{_rests_on(anomalies.ANOMALIES[name])}\n"
    yield f"### unread_acknowledged\n\n{_text(records.unread_acknowledged)}\n"
    for name, checks in _OF_REPLICAS.items():
        yield f"### {name} ({anomalies.SEVERITY[name]})\n"
        yield from (f"{_text(check)}\n" for check in checks)


def _causes() -> Iterator[str]:
    table = "[what is permitted](verdicts.md#what-must-hold-follows-from-the-configuration)"
    yield f"A rule of {table} names one of these causes.\n"
    losses = ", ".join((NEW_LEADER, UNCLEAN_LEADER, LOST_COPY))
    told: dict[str, Callable[..., Any]] = {losses: takeovers.taken, **causes.CAUSES}
    for name, check in told.items():
        yield f"### {name}\n\n{_text(check)}\n"


def _rests_on(check: invariants.Invariant | anomalies.Anomaly) -> str:
    whole = f"; a violation needs all of: {', '.join(sorted(check.whole))}" if check.whole else ""
    return f"Rests on: {', '.join(sorted(check.reads))}{whole}."


def _text(function: Callable[..., Any]) -> str:
    return inspect.cleandoc(function.__doc__ or "").replace("``", "`")


_OF_METRICS = """\
# The metrics, one by one

Written by `python -m judge.describe`. What a run measured stands in `verdict/metrics` and, for good, in the archive;
the ending of a name is its unit.

- Latency counts from the time at which a send was due, whatever the cluster did then. It is trusted only where at least
  {achieved:.1%} of what was due up to a second before the phase's end was acknowledged within the phase, and where at
  least {beyond} samples are expected beyond the percentile, n (1 - q) >= {beyond}: {p50:,}, {p99:,} and {p999:,}
  samples for p50, p99 and p99.9. It is the success-failure condition of
  [OpenIntro Statistics](https://www.openintro.org/book/os/); with fewer a percentile hangs on a handful of records.
- A phase of {seconds} s or more without a fault must be in steady state, or its latency and CPU per GB are not trusted.
  Over five windows the range of throughput and of median latency is at most {range:.0%} of the mean, as SNIA's Solid
  State Storage Performance Test Specification has it, whose bound of 10% for the slope is one for disks: brokers on two
  cores go on drifting by 7 to 15% for minutes ([why](dev/adr/0019-steady-state-is-a-range.md)).
- What was owed by then and never acknowledged took longer than anything. A percentile that falls on it has no value,
  and a rate at which p99 does is above every limit.
- The sustainable rate is where p99 crosses the scenario's `p99_limit`, between the last offered rate that kept it and
  the first that did not; log p99 is taken as linear between them. A rate that was answered in no steady state is not
  sustained, and then the last one that was is told.
- A time may be censored: the observation ended first, and the true time is longer.
- A phase takes as long as the last of its partitions.
- Where the host disturbed a phase (more than {steal:.0%} of CPU time stolen, {other:.0%} used by others than the run's
  nodes, or {io:.0%} of the time somebody waiting for a disk) nothing that was measured in it is trusted; counts of
  records are. Waiting for a CPU is shown and is no such gate, because brokers under a quota cause it themselves.
- Counters of brokers and host are read at the boundaries of phases. One that fell (a broker that was started anew)
  or was not there at one of its boundaries gives no figure.
  CPU per GB is there where all loads have records of one size.

| metric | measured in | better | what it is |
|---|---|---|---|
"""


def _metrics() -> str:
    head = _OF_METRICS.format(
        achieved=metrics.MIN_ACHIEVED,
        beyond=metrics.MIN_BEYOND,
        seconds=steady.MIN_SECONDS,
        range=steady.MAX_RANGE,
        steal=metrics.MAX_STEAL,
        other=metrics.MAX_OTHER_CPU,
        io=metrics.MAX_IO_PRESSURE,
        **{name: metrics.MIN_SAMPLES[f"{name}_ms"] for name in ("p50", "p99", "p999")},
    )
    return head + "".join(
        f"| `{name}` | {'the run' if of.of_run else 'each phase'} | {of.better or ''} | {of.words} |\n"
        for name, of in METRICS.items()
    )


if __name__ == "__main__":
    for _name, _text_of_page in pages().items():
        (DOCS / _name).write_text(_text_of_page)
