"""A command's decisions as cases, JUnit XML and Markdown.

Cases that need no decision are ``skipped``, never passed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal
from xml.etree import ElementTree as ET

Outcome = Literal["pass", "fail", "unknown", "skipped"]
TAGS: dict[Outcome, str] = {"fail": "failure", "unknown": "error", "skipped": "skipped"}  # JUnit's
WHOLE = "plimsoll"  # the overall case
MAX_ROWS = 50  # GitHub shows 1 MiB


@dataclass(frozen=True)
class Case:
    """One decision; ``group`` starts with its suite (``correctness.steady``)."""

    group: str
    name: str
    outcome: Outcome
    why: str = ""
    runs: Sequence[str] = ()


@dataclass(frozen=True)
class Report:
    """A finished command; ``places`` are folders and pages."""

    title: str
    outcome: Outcome
    sentence: str
    at: datetime
    cases: Sequence[Case] = ()
    places: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def every_case(self) -> list[Case]:
        """Return the cases after an overall one, so never none."""
        return [Case(WHOLE, self.title, self.outcome, self.sentence), *self.cases]


def junit(report: Report) -> str:
    """Return JUnit XML, a suite per first part of the groups."""
    suites: dict[str, list[Case]] = defaultdict(list)
    for case in report.every_case:
        suites[case.group.partition(".")[0]].append(case)
    root = ET.Element(
        "testsuites", {"name": report.title, **_counts(report.every_case), "time": f"{report.seconds:.3f}"}
    )
    for name, cases in suites.items():
        seconds = report.seconds if name == WHOLE else 0.0
        skipped = sum(case.outcome == "skipped" for case in cases)
        about = {"skipped": str(skipped), "time": f"{seconds:.3f}", "timestamp": f"{report.at:%Y-%m-%dT%H:%M:%S}"}
        suite = ET.SubElement(root, "testsuite", {"name": name, **_counts(cases), **about})
        for case in cases:
            _add(suite, case, seconds)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _counts(cases: Sequence[Case]) -> dict[str, str]:
    outcomes = Counter(case.outcome for case in cases)
    counts = {"tests": len(cases), "failures": outcomes["fail"], "errors": outcomes["unknown"]}
    return {name: str(count) for name, count in counts.items()}


def _add(suite: ET.Element, case: Case, seconds: float) -> None:
    added = ET.SubElement(suite, "testcase", classname=case.group, name=_printable(case.name), time=f"{seconds:.3f}")
    if tag := TAGS.get(case.outcome):
        why = ET.SubElement(added, tag, type=case.outcome, message=_printable(case.why))
        why.text = _printable("\n".join(case.runs)) or None


def _printable(text: str) -> str:
    return "".join(letter for letter in text if letter.isprintable() or letter in "\n\t")


def markdown(report: Report) -> str:
    """Return Markdown: heading, sentence, places, failed and unknown cases."""
    told = [case for outcome in ("fail", "unknown") for case in report.cases if case.outcome == outcome]
    lines = [f"### {report.title}: {report.outcome}", "", _inline(report.sentence), ""]
    lines += [f"- {name}: `{place}`" for name, place in report.places.items()]
    if report.cases:
        counts = Counter(case.outcome for case in report.cases)
        lines += ["- cases: " + ", ".join(f"{counts[each]} {each}" for each in ("pass", *TAGS) if counts[each])]
    if told:
        lines += ["", "| result | case | why |", "|---|---|---|"]
        lines += [f"| {case.outcome} | {_name(case)} | {_inline(case.why)} |" for case in told[:MAX_ROWS]]
    if len(told) > MAX_ROWS:
        lines += ["", f"And {len(told) - MAX_ROWS} more."]
    return "\n".join(lines) + "\n"


def _name(case: Case) -> str:
    return _inline(f"{case.group} {case.name}")


def _inline(text: str) -> str:
    escaped = "".join(f"\\{letter}" if letter in "\\`*_[]<>|#" else letter for letter in _printable(text))
    return " ".join(escaped.split())
