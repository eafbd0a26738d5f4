"""Write docs/claims.md: arguments are ``result.json`` files of ``make claims`` to add."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from claims.table import CLAIMS, NOTES, notes_of
from tests.rows import ROOT, write

RESULTS = ROOT / "docs" / "claims.json"
WORDS = {"shown": "shown", "refuted": "**refuted**", "not observable": "–"}
_INTRODUCTION = """\
# Forty-eight claims about replication

What is said about HW, LEO, ISR, elections and storage, and what Kafka 2.8 to 4.3 answered: about a third of it is
wrong, or true for some versions only. The claims come from five unpublished [field notes](#the-notes).

`plimsoll claims --kafka 4.3.0` checks one version (`--mode zookeeper` where it has both modes): five runs, about 6
minutes on two cores if one at a time ([`--at-once`](airflow.md#which-runs-are-in-progress)). Its page shows what
decides each claim, the evidence of every answer (samples of every replica, the controller's history, sends and polls,
log lines and files), and walk-throughs: a record fetch by fetch, a stopped broker, retention, the price of a
replication factor. The same queries read all recordings; none knows a version.

| answer | meaning |
|---|---|
| shown | the runs contain what would show it, and nothing that refutes it; no proof |
| **refuted** | the runs contain a counterexample; one outweighs any number of examples |
| – | neither, for [a reason](#what-was-not-observable) |

"Known" is the answer of Kafka's source and improvement proposals for 2.8 to 4.x. "Partly": the claim holds in most
cases; the answers show the part that these experiments reach. The last column explains why an answer depends on the
version.

LEO is the log end offset, HW the high watermark, ISR the replicas in sync ([glossary](glossary.md)); AR are the
assigned replicas, ELR the eligible leader replicas (KIP-966). The checks name the claims that they
[serve](checks.md). Written by `make docs`; change `claims/table.py`, not this page.
"""

Result = Mapping[str, Any]


def add(files: Sequence[str]) -> None:
    """Take in files ``result.json`` of ``make claims``."""
    write(RESULTS, taken_in(_stored(), [json.loads(Path(path).read_text()) for path in files]))


def pages() -> dict[str, str]:
    """Return the page of the stored results."""
    return {"claims.md": page(_stored())}


def _stored() -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(RESULTS.read_text())
    return stored


def taken_in(stored: Mapping[str, Result], results: Sequence[Result]) -> dict[str, Result]:
    """Replace results of the same version and mode; sort by version."""
    fresh = {f"{result['kafka']} ({', '.join(result['modes'])})": condensed(result) for result in results}
    return dict(sorted({**stored, **fresh}.items(), key=lambda item: _numbers(item[0])))


def _numbers(version: str) -> tuple[list[int], str]:
    return [int(number) for number in re.findall(r"\d+", version)], version


def condensed(result: Result) -> dict[str, Any]:
    """Return what the page needs of a result."""
    return {
        "date": result["created_at"][:10],
        "answers": {
            name: {"verdict": answer["verdict"], "sentence": answer["sentence"]}
            for name, answer in result["answers"].items()
        },
    }


def page(versions: Mapping[str, Result]) -> str:
    """Return the page of the results by version."""
    notes = (f"- {name}: {note.about}\n" for name, note in NOTES.items())
    return "".join([_INTRODUCTION, *_table(versions), *_unobserved(versions), "\n## The notes\n\n", *notes])


def _table(versions: Mapping[str, Result]) -> Iterator[str]:
    columns = _columns(versions)
    titles = "".join(f" {title} |" for title, _ in columns)
    yield f"\n## The answers\n\n| | claim | notes | known |{titles} the answer changes |\n"
    yield "|---|---|---|---|" + "---|" * len(columns) + "---|\n"
    for name, claim in CLAIMS.items():
        answers = [WORDS[result["answers"][name]["verdict"]] for _, result in columns]
        row = [name, claim.text, " ".join(notes_of(name)), claim.known, *answers, claim.changes]
        yield f"| {' | '.join(row)} |\n"
    counted = "; ".join(f"{title}: {_counts(result)}" for title, result in columns)
    yield f"\nShown, refuted and not observable: {counted}. {_days(versions)}\n"


def _columns(versions: Mapping[str, Result]) -> list[tuple[str, Result]]:
    """Neighbouring versions with equal answers share a column."""
    of_version = list(versions.items())
    verdicts = {version: [each["verdict"] for each in result["answers"].values()] for version, result in of_version}
    columns = []
    for _, same in groupby(of_version, key=lambda item: (verdicts[item[0]], item[0].partition(" ")[2])):
        alike = list(same)
        numbers = ", ".join(version.partition(" ")[0] for version, _ in alike)
        columns.append((f"{numbers} {alike[0][0].partition(' ')[2]}".strip(), alike[0][1]))
    return columns


def _days(versions: Mapping[str, Result]) -> str:
    days = sorted({result["date"] for result in versions.values()})
    return f"Recorded on {days[0]}." if len(days) == 1 else f"Recorded from {days[0]} to {days[-1]}."


def _counts(result: Result) -> str:
    counts = Counter(answer["verdict"] for answer in result["answers"].values())
    return ", ".join(str(counts[word]) for word in WORDS)


def _unobserved(versions: Mapping[str, Result]) -> Iterator[str]:
    yield "\n## What was not observable\n\n"
    for name in CLAIMS:
        why: dict[str, list[str]] = {}
        for version, result in versions.items():
            if result["answers"][name]["verdict"] == "not observable":
                why.setdefault(result["answers"][name]["sentence"], []).append(version)
        for sentence, on in why.items():
            where = "everywhere" if len(on) == len(versions) else f"on {', '.join(on)}"
            yield f"- **{name}** {where}: {sentence}\n"
