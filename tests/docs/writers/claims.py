"""Write docs/claims.md: arguments are ``result.json`` files of ``make claims`` to add."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from claims.table import CLAIMS, NOTES
from tests.rows import ROOT, write

RESULTS = ROOT / "docs" / "claims.json"
WORDS = {"shown": "shown", "refuted": "**refuted**", "not observable": "–"}
KEPT_EVIDENCE = 3  # per answer
_INTRODUCTION = """\
# Forty-eight claims about replication

What is said about HW, LEO, ISR, elections and storage, and what Kafka 2.8 to 4.3 answered: about a third of it is
wrong, or true for some versions only. The claims come from five unpublished [field notes](#the-notes).

`plimsoll claims --kafka 4.3.0` asks one version (`--mode zookeeper` where it has both modes): five runs, about 6
minutes on two cores. Its page has the evidence of every answer: samples of every replica, the controller's history,
sends and polls, log lines and files. The same functions read all recordings; none knows a version.

| answer | meaning |
|---|---|
| shown | the runs contain what would show it, and nothing that refutes it; no proof for all times |
| **refuted** | the runs contain a counterexample; one outweighs any number of examples |
| – | neither, for [a reason](#what-was-not-observable) |

LEO is the log end offset, HW the high watermark, ISR the replicas in sync ([glossary](glossary.md)); AR are the
assigned replicas, ELR the eligible leader replicas (KIP-966). The checks name the claims that they
[serve](checks.md). Written by `make docs`; change `claims/table.py`, not this page.
"""
_HOW = """\
## What decides each claim

"Known" is the answer of Kafka's source and improvement proposals for 2.8 to 4.x. "Partly": a claim that holds in most
cases is refuted by a recorded counterexample; the answers above show the part that these experiments reach. The last
column explains why an answer depends on the version.

| | known | shown by | refuted by | the answer changes |
|---|---|---|---|---|
"""

Told = Mapping[str, Any]


def add(files: Sequence[str]) -> None:
    """Take in files ``result.json`` of ``make claims``."""
    write(RESULTS, taken_in(_known(), [json.loads(Path(path).read_text()) for path in files]))


def pages() -> dict[str, str]:
    """Return the page of the stored results."""
    return {"claims.md": page(_known())}


def _known() -> dict[str, Any]:
    known: dict[str, Any] = json.loads(RESULTS.read_text())
    return known


def taken_in(known: Mapping[str, Told], results: Sequence[Told]) -> dict[str, Told]:
    """Replace results of the same version and mode; sort by version."""
    fresh = {f"{result['kafka']} ({', '.join(result['modes'])})": condensed(result) for result in results}
    return dict(sorted({**known, **fresh}.items(), key=lambda item: _numbers(item[0])))


def _numbers(version: str) -> tuple[list[int], str]:
    return [int(number) for number in re.findall(r"\d+", version)], version


def condensed(result: Told) -> dict[str, Any]:
    """Return what the page needs of a result."""
    return {
        "date": result["created_at"][:10],
        "answers": {
            name: {
                "verdict": told["verdict"],
                "sentence": told["sentence"],
                "evidence": told["evidence"][:KEPT_EVIDENCE],
            }
            for name, told in result["answers"].items()
        },
        "walkthroughs": result["walkthroughs"],
    }


def page(versions: Mapping[str, Told]) -> str:
    """Return the page of the results by version."""
    parts = [_INTRODUCTION, *_matrix(versions), *_differing(versions), *_unobserved(versions), *_steps(versions), _HOW]
    parts += [
        f"| {name} | {claim.known} | {claim.shows} | {claim.refutes} | {claim.changes} |\n"
        for name, claim in CLAIMS.items()
    ]
    parts += ["\n## The notes\n\n", *(f"- {name}: {about}\n" for name, about in NOTES.items())]
    return "".join(parts)


def _matrix(versions: Mapping[str, Told]) -> Iterator[str]:
    columns = _columns(versions)
    yield "\n## The answers\n\n| | claim | notes |" + "".join(f" {title} |" for title, _ in columns) + "\n"
    yield "|---|---|---|" + "---|" * len(columns) + "\n"
    for name, claim in CLAIMS.items():
        answers = [WORDS[told["answers"][name]["verdict"]] for _, told in columns]
        yield f"| {' | '.join([name, claim.text, ' '.join(claim.notes), *answers])} |\n"
    counted = "; ".join(f"{title}: {_counts(told)}" for title, told in columns)
    yield f"\nShown, refuted and not observable: {counted}. {_days(versions)}\n"


def _columns(versions: Mapping[str, Told]) -> list[tuple[str, Told]]:
    """Neighbouring versions with equal answers share a column."""
    of_version = list(versions.items())
    verdicts = {version: [each["verdict"] for each in told["answers"].values()] for version, told in of_version}
    columns = []
    for _, same in groupby(of_version, key=lambda item: (verdicts[item[0]], item[0].partition(" ")[2])):
        alike = list(same)
        numbers = ", ".join(version.partition(" ")[0] for version, _ in alike)
        columns.append((f"{numbers} {alike[0][0].partition(' ')[2]}".strip(), alike[0][1]))
    return columns


def _days(versions: Mapping[str, Told]) -> str:
    days = sorted({told["date"] for told in versions.values()})
    return f"Recorded on {days[0]}." if len(days) == 1 else f"Recorded from {days[0]} to {days[-1]}."


def _counts(told: Told) -> str:
    counts = Counter(answer["verdict"] for answer in told["answers"].values())
    return ", ".join(str(counts[word]) for word in WORDS)


def _differing(versions: Mapping[str, Told]) -> Iterator[str]:
    yield "\n## Where versions differ\n"
    for name, claim in CLAIMS.items():
        said: dict[str, tuple[str, Told]] = {}
        for version, told in versions.items():
            said[told["answers"][name]["verdict"]] = version, told["answers"][name]
        if len(said.keys() - {"not observable"}) < 2:
            continue
        yield f"\n**{name}** {claim.text}\n\n"
        for verdict, (version, answer) in said.items():
            yield f"- {verdict}, as on {version}: {answer['sentence']}\n"
            for row in answer["evidence"]:
                at = "" if row["at_s"] is None else f" at {row['at_s']:.3f} s"
                yield f"  - `{row['source']}`{at}: {row['text']}\n"


def _steps(versions: Mapping[str, Told]) -> Iterator[str]:
    newest = {table["title"]: (version, table) for version, told in versions.items() for table in told["walkthroughs"]}
    if newest:
        yield "## Step by step\n\nWhat the notes go through, as the scenarios `claims_…` recorded it.\n\n"
    for title, (version, table) in newest.items():
        yield f"### {title}\n\nKafka {version}. {table['words']}\n\n"
        yield f"| {' | '.join(table['columns'])} |\n{'|---' * len(table['columns'])}|\n"
        for row in table["rows"]:
            yield f"| {' | '.join('–' if value is None else str(value) for value in row)} |\n"
        yield "\n"


def _unobserved(versions: Mapping[str, Told]) -> Iterator[str]:
    yield "\n## What was not observable\n\n"
    for name in CLAIMS:
        why: dict[str, list[str]] = {}
        for version, told in versions.items():
            if told["answers"][name]["verdict"] == "not observable":
                why.setdefault(told["answers"][name]["sentence"], []).append(version)
        for sentence, on in why.items():
            where = "everywhere" if len(on) == len(versions) else f"on {', '.join(on)}"
            yield f"- **{name}** {where}: {sentence}\n"
    yield "\n"
