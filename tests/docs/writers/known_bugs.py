"""Write docs/known-bugs.md: the prose of known_bugs.md, and a table of the tries in docs/known-bugs.json."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from campaigns.campaign import CampaignFolder
from campaigns.known_bugs.bugs import BUGS, Bug
from history.kafka_versions import affected_range
from tests.rows import ROOT, put, read

RESULTS = ROOT / "docs" / "known-bugs.json"
REPORTS = ROOT / "docs" / "known-bugs"
PROSE = Path(__file__).with_suffix(".md")
DECIDED = ("found", "clean")
ISSUES = "https://issues.apache.org/jira/browse"
LINKS = {"KIP-966": "https://cwiki.apache.org/confluence/display/KAFKA/KIP-966%3A+Eligible+Leader+Replicas"}
READ = {  # versions whose bytecode was read
    "HW-WAITS": "2.8.0, 3.0.2, 3.1.0, 3.5.2, 3.6.0, 3.9.1, 4.4.0",
    "STALE-HW": "3.3.2, 3.4.0, 3.4.1, 3.5.2, 3.6.2, 3.9.1, 3.9.2, 4.0.0, 4.3.0, 4.4.0",
    "STALE-ISR": "3.9.1",
}
Row = Mapping[str, Any]


def add(folders: Sequence[str]) -> None:
    """Take in campaigns of ``make known-bugs``."""
    for folder in map(Path, folders):
        put(RESULTS, "run_id", tries_of(json.loads(CampaignFolder(folder).result.read_text())))


def pages() -> dict[str, str]:
    """Return the page."""
    return {"known-bugs.md": render(read(RESULTS))}


def tries_of(result: Row) -> list[dict[str, Any]]:
    """Return a row per judged try."""
    about = ("bug", "issue", "version", "expected")
    return [
        {
            "run_id": run["run_id"],
            "date": result["created_at"][:10],
            **{name: arm[name] for name in about},
            "outcome": run["outcome"],
            "found_by": run["found_by"],
            "also": run["also"],
        }
        for arm in result["arms"]
        for run in arm["runs"]
    ]


def render(rows: Sequence[Row]) -> str:
    """Return the page with a row per bug."""
    valid = [row for row in rows if "withdrawn" not in row]
    lines = [
        PROSE.read_text().format(
            bugs=len({bug.issue for bug in BUGS}),
            tries=len(valid),
            days=_days(rows),
            runs=10 * sum(1 if bug.good is None else 2 for bug in BUGS),
        ),
        "| bug | what goes wrong | versions with it | found there | found elsewhere | shown by | bytecode | command |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [_line(bug, [row for row in valid if row["bug"] == bug.name]) for bug in BUGS]
    withdrawn = Counter((row["issue"], row["withdrawn"]) for row in rows if "withdrawn" in row)
    lines += ["", *(f"Withdrawn tries of {issue}: {tries}, since {why}." for (issue, why), tries in withdrawn.items())]
    return "\n".join(lines).rstrip() + "\n"


def _days(rows: Sequence[Row]) -> str:
    days = sorted({row["date"] for row in rows})
    return f"on {days[0]}" if days[0] == days[-1] else f"from {days[0]} to {days[-1]}"


def _line(bug: Bug, rows: Sequence[Row]) -> str:
    cells = (
        f"[{bug.issue}]({_address(bug.issue)})",
        bug.title,
        affected_range(bug.issue),
        *(_found([row for row in rows if row["expected"] == expected]) for expected in DECIDED),
        ", ".join(bug.shown_as),
        READ.get(bug.issue, "–"),
        f"`make known-bugs BUGS={bug.name}`",
    )
    return f"| {' | '.join(cells)} |"


def _address(issue: str) -> str:
    report = REPORTS / f"{issue.lower()}.md"
    return f"known-bugs/{report.name}" if report.exists() else LINKS.get(issue, f"{ISSUES}/{issue}")


def _found(rows: Sequence[Row]) -> str:
    """Return ``3.0.2: 10 of 10`` for each version."""
    decided = [row for row in rows if row["outcome"] in DECIDED]
    tries = Counter(row["version"] for row in decided)
    found = Counter(row["version"] for row in decided if row["outcome"] == "found")
    return "<br>".join(f"{version}: {found[version]} of {count}" for version, count in tries.items()) or "–"
