"""Write the table in docs/verdicts.md of the checks that each kind of run can make."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from evidence.profiles import RECORDED, WATCHED, Profile, attached
from evidence.sources import sources
from history.manifest import ATTACHED
from judge.checks.anomalies import Needs
from judge.checks.invariants import INVARIANTS
from judge.run import CHECKS
from tests.docs.texts import GENERATED_PART
from tests.docs.writers.registry import DOCS

PROFILES = {
    "own": RECORDED,
    "attached": attached(ATTACHED),
    "leaders only": attached(ATTACHED - {"followers"}),
    "segments": attached(ATTACHED | sources("segments", "epoch files")),
    "watch": WATCHED,
}


def pages() -> dict[str, str]:
    """Return the page by file name, with the table of today."""
    page = (DOCS / "verdicts.md").read_text()
    return {"verdicts.md": GENERATED_PART.sub(lambda part: f"{part[1]}\n{table()}\n{part[3]}", page)}


def table() -> str:
    """Return the table; checks that the same kinds of runs can make share a row."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for name, check in CHECKS.items():
        rows.setdefault(tuple(mark(check, profile) for profile in PROFILES.values()), []).append(name)
    lines = [f"| checks | {' | '.join(PROFILES)} |", f"|---|{'---|' * len(PROFILES)}"]
    lines += [f"| {', '.join(ranges(names))} | {' | '.join(marks)} |" for marks, names in rows.items()]
    return "\n".join(lines)


def mark(check: Needs, profile: Profile) -> str:
    """Return whether a run of this profile can make a check, or decides less."""
    if not profile.allows(check.reads - check.helpful):
        return "–"
    return "✓" if profile.allows(check.reads) else "(✓)"


def ranges(names: list[str]) -> Iterator[str]:
    """Yield anomalies, then invariants, of which more than two consecutive ones are a range."""
    numbers = [int(name[1:]) for name in names if name in INVARIANTS]
    yield from (f"`{name}`" for name in names if name not in INVARIANTS)
    for _, run in groupby(enumerate(numbers), key=lambda each: each[1] - each[0]):
        own = [f"I{number}" for _, number in run]
        yield from [f"{own[0]} to {own[-1]}"] if len(own) > 2 else own
