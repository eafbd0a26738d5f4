"""``python -m spark.describe`` writes docs/checks.md: every check in the words of its own docstring."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from spark import agreement, anomalies, elections, invariants, order, replica_checks, transactions, watermarks

PAGE = Path(__file__).resolve().parents[1] / "docs" / "checks.md"
_INTRODUCTION = """\
# The checks, one by one

Written by `python -m spark.describe` from the docstrings of the checks; change those, not this page. Each entry says
what is checked, from which version and under which configuration it may speak, why it is sound, and which of the
[claims C1 to C48](claims.md) it serves. What the verdicts do with them stands in
[verdicts](verdicts.md).

A topic is *clean* when nothing committed may be missing from it: unclean elections are off, and no fault took a disk's
contents away. Sample A is before sample B when A's answer came before B's question, on one clock.
"""
_INVARIANT = re.compile(r"i(\d+)_\w+")
_OF_REPLICAS: dict[str, tuple[Callable[..., Any], ...]] = {
    "source_disagreement": (elections.disagreements,),
    "behaviour_change": (watermarks.hw_below_min_isr, elections.last_known_leader),
}


def functions(modules: tuple[ModuleType, ...]) -> Iterator[Callable[..., Any]]:
    """The public functions that some modules define themselves, in the order of their source."""
    for module in modules:
        own = (f for _, f in inspect.getmembers(module, inspect.isfunction) if f.__module__ == module.__name__)
        yield from sorted((f for f in own if not f.__name__.startswith("_")), key=lambda f: f.__code__.co_firstlineno)


def page() -> str:
    """The page as it should be."""
    return "\n".join(
        [_INTRODUCTION, "## Invariants of the replicas\n", *_invariants(), "## Anomalies\n", *_anomalies()]
    )


def _invariants() -> Iterator[str]:
    named = {**invariants.INVARIANTS, **replica_checks.INVARIANTS}
    found: dict[int, list[Callable[..., Any]]] = {}
    for function in functions((invariants, watermarks, agreement, elections, replica_checks)):
        if number := _INVARIANT.fullmatch(function.__name__):
            found.setdefault(int(number[1]), []).append(function)
    for each, checks in sorted(found.items()):
        invariant = named[f"I{each}"]
        yield f"### I{each}: {invariant.title} ({invariant.severity})\n"
        yield from (f"{_text(check)}\n" for check in checks)


def _anomalies() -> Iterator[str]:
    for function in functions((anomalies, transactions, order)):
        name = function.__name__
        if name in anomalies.SEVERITY:
            yield f"### {name} ({anomalies.SEVERITY[name]})\n\n{_text(function)}\n"
    yield f"### unread_acknowledged\n\n{_text(anomalies.unread_acknowledged)}\n"
    for name, checks in _OF_REPLICAS.items():
        yield f"### {name} ({anomalies.SEVERITY[name]})\n"
        yield from (f"{_text(check)}\n" for check in checks)


def _text(function: Callable[..., Any]) -> str:
    return inspect.cleandoc(function.__doc__ or "").replace("``", "`")


if __name__ == "__main__":
    PAGE.write_text(page())
