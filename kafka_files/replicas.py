"""A replica's log as inspected: contents and findings."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

MOST_FINDINGS = 1000  # per replica; all are counted
MOST_ALIKE = 10  # per kind


class Finding(NamedTuple):
    """A problem or note about a file."""

    file: str
    position: int | None
    offset: int | None
    text: str
    is_problem: bool

    @property
    def kind(self) -> str:
        """The text without numbers and quoted lines."""
        plain = re.sub(r'".*"|\d[\d,]*', "N", self.text)
        return re.sub(r"\boffsets N to N( are)?\b", lambda match: "offset N is" if match[1] else "offset N", plain)


class EpochRange(NamedTuple):
    """One leader epoch's offsets."""

    epoch: int
    first_offset: int
    last_offset: int


class OpenTransaction(NamedTuple):
    """A transaction without end marker."""

    producer_id: int
    first_offset: int


@dataclass
class Replica:
    """What a segment folder holds."""

    folder: Path
    segments: int = 0
    size_bytes: int = 0
    batches: int = 0
    records: int = 0
    first_offset: int | None = None
    end_offset: int | None = None
    formats: dict[int, int] = field(default_factory=dict)  # format → batches
    epochs: list[EpochRange] = field(default_factory=list)
    commits: int = 0
    aborts: int = 0
    open_transactions: list[OpenTransaction] = field(default_factory=list)
    checkpoints: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    kinds: dict[str, int] = field(default_factory=dict)
    problems: int = 0
    notes: int = 0

    def add(self, finding: Finding) -> None:
        self.problems += finding.is_problem
        self.notes += not finding.is_problem
        alike = self.kinds[finding.kind] = self.kinds.get(finding.kind, 0) + 1
        if alike <= MOST_ALIKE or len(self.findings) < MOST_FINDINGS:
            self.findings.append(finding)

    def about_file(self, file: str, text: str, *, is_problem: bool = True) -> None:
        self.add(Finding(file, None, None, text, is_problem))


def span(first: int, last: int) -> str:
    """Return offsets in words."""
    return f"offset {first:,}" if first == last else f"offsets {first:,} to {last:,}"
