"""Write the tables in docs/verdicts.md: the checks that each kind of run can make, and what recorded ones showed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from evidence.profiles import RECORDED, WATCHED, Profile, attached
from evidence.sources import sources
from history.manifest import ATTACHED
from judge.checks.anomalies import Needs
from judge.checks.invariants import INVARIANTS
from judge.run import CHECKS
from tests.acceptance.profiles import RESULTS
from tests.docs.texts import GENERATED_PART
from tests.docs.writers.registry import DOCS
from tests.rows import Row, read

PROFILES = {
    "own": RECORDED,
    "attached": attached(ATTACHED),
    "leaders only": attached(ATTACHED - {"followers"}),
    "segments": attached(ATTACHED | sources("segments", "epoch files")),
    "watch": WATCHED,
}


def pages() -> dict[str, str]:
    """Return the page by file name, with the tables of today."""
    page = (DOCS / "verdicts.md").read_text()
    tables = f"{table()}\n\n{recorded(read(RESULTS))}"
    return {"verdicts.md": GENERATED_PART.sub(lambda part: f"{part[1]}\n{tables}\n{part[3]}", page)}


def table() -> str:
    """Return the table; checks that the same kinds of runs can make share a row."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for name, check in CHECKS.items():
        rows.setdefault(tuple(mark(check, profile) for profile in PROFILES.values()), []).append(name)
    lines = [f"| checks | {' | '.join(PROFILES)} |", f"|---|{'---|' * len(PROFILES)}"]
    lines += [f"| {', '.join(ranges(names))} | {' | '.join(marks)} |" for marks, names in rows.items()]
    return "\n".join(lines)


def recorded(rows: Sequence[Row]) -> str:
    """Return the table of recorded runs and watches; those with the same result share a row."""
    cases: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        result = row["evidence"] or "–", str(row["judged"]), str(row["not_judged"]), _verdict(row)
        cases.setdefault(result, []).append(row["case"])
    lines = ["| recorded | evidence that the verdict names | judged | not judged | verdict |", "|---|---|---|---|---|"]
    lines += [f"| {'; '.join(names)} | {' | '.join(result)} |" for result, names in cases.items()]
    return "\n".join(lines)


def _verdict(row: Row) -> str:
    """Return the verdict, and the sentence of one that is no pass."""
    return "pass" if row["verdict"] == "pass" else f"{row['verdict']}: {row['sentence'].removeprefix('Inconclusive: ')}"


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
