"""A command's outcome: exit code, lines for people, facts for machines."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field
from typing import Any, TextIO

from history.errors import HarnessError, PlimsollError, refusal
from history.exit_codes import INTERRUPTED, UNKNOWN
from history.results.cases import Case


@dataclass(frozen=True)
class Outcome:
    """``cases`` are the separate results; scripts read the last ``lines``."""

    code: int = 0
    lines: Sequence[str] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""
    cases: Sequence[Case] = ()

    def as_json(self) -> str:
        error = {"error": self.error} if self.error else {}
        return json.dumps({**self.facts, **error, "exit_code": self.code}, ensure_ascii=False, default=str)


def outcome_of(command: Callable[..., Outcome], options: Mapping[str, Any]) -> Outcome:
    """Run a command; turn exceptions into an exit code and an error."""
    try:
        return command(**options)
    except KeyboardInterrupt:
        return Outcome(INTERRUPTED)
    except PlimsollError as error:
        return Outcome(getattr(error, "exit_code", UNKNOWN), error=str(error))
    # exit code 1 would mean a violated guarantee
    except (Exception, SystemExit) as error:  # noqa: BLE001
        return Outcome(UNKNOWN, error=refusal(error) or traceback.format_exc().rstrip())


@contextmanager
def stdout_for_json() -> Iterator[None]:
    """Redirect stdout, also of children, to stderr, so that it holds only JSON."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def say(text: str) -> None:
    """Print at once; ignore a closed pipe, since cleanup must go on."""
    _print(sys.stdout, text)


def print_error(sentence: str) -> None:
    """Print to stderr, ignoring a closed pipe."""
    _print(sys.stderr, sentence)


def _print(stream: TextIO | None, text: str) -> None:
    """A stream may be closed since the start (None) or later (ValueError)."""
    if stream is not None:
        with suppress(OSError, ValueError):
            stream.write(f"{text}\n")
            stream.flush()


@contextmanager
def warned() -> Iterator[None]:
    """Print a HarnessError and go on."""
    try:
        yield
    except HarnessError as error:
        print_error(f"warning: {error}")
