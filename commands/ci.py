"""Reports for CI systems: JUnit XML and a Markdown summary."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

from commands.outcome import Outcome, outcome_of
from history.errors import BadInput
from history.exit_codes import BAD_INPUT, FAIL, MEANINGS, PASS, UNKNOWN
from history.folder import is_stream, write_atomically
from history.results.cases import Outcome as CaseOutcome
from history.results.cases import Report, junit, markdown

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"  # a file that GitHub shows below a job's steps
_OUTCOMES: dict[int, CaseOutcome] = {PASS: "pass", FAIL: "fail"}  # other codes: unknown


@dataclass(frozen=True)
class Files:
    """Files to write; ``appended`` may hold another step's summary."""

    junit: Path | None = None
    summary: Path | None = None
    appended: Path | None = None

    @classmethod
    def of(cls, junit: Path | None, summary: Path | None) -> Files:
        step = os.environ.get(STEP_SUMMARY)
        return cls(junit and _place(junit), summary and _place(summary), Path(step) if step else None)

    def prepare(self) -> None:
        """Delete older reports, which must not outlive a command that dies; raise BadInput if that fails."""
        for option, path in (("--junit", self.junit), ("--summary", self.summary)):
            try:
                if path and is_stream(path):
                    path.stat()  # fails for a closed file descriptor
                elif path:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.unlink(missing_ok=True)
            except OSError as error:
                raise BadInput(f"{option}={path} cannot be written: {error.strerror}.") from error

    def write(self, report: Report) -> None:
        if self.junit:
            write_atomically(self.junit, junit(report))
        if self.summary:
            write_atomically(self.summary, markdown(report))
        if self.appended:
            with self.appended.open("a") as file:
                file.write(markdown(report) + "\n")


def _place(path: Path) -> Path:
    """Keep /dev/stdout, whose target may be another process's file."""
    return path.absolute() if is_stream(path) else path.resolve()


def reported(title: str, files: Files, command: Callable[..., Outcome], options: Mapping[str, Any]) -> Outcome:
    """Run and report a command; a pass without its report becomes unknown."""
    began_s = monotonic()
    try:
        files.prepare()
    except BadInput as error:
        return Outcome(BAD_INPUT, error=str(error))
    outcome = outcome_of(command, options)
    try:
        files.write(report_of(title, outcome, monotonic() - began_s, datetime.now(UTC)))
    except (OSError, ValueError) as error:  # ValueError: not encodable
        code = UNKNOWN if outcome.code == PASS else outcome.code
        why = f"The result for CI could not be written: {error}"
        return replace(outcome, code=code, error="\n".join(filter(None, [outcome.error, why])))
    return outcome


def report_of(title: str, outcome: Outcome, seconds: float, at: datetime) -> Report:
    """Convert an outcome."""
    facts = outcome.facts
    sentence = " ".join(filter(None, [facts.get("sentence"), outcome.error])) or MEANINGS[outcome.code]
    places = {name: str(facts[name]) for name in ("run", "campaign", "page") if facts.get(name)}
    return Report(title, _OUTCOMES.get(outcome.code, "unknown"), sentence, at, outcome.cases, places, seconds)
