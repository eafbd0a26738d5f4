"""How a command ends: an exit code, lines for people, facts for machines."""

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
    """The end of a command; the last of ``lines`` are for machines, too. ``error`` is a sentence on what went wrong,
    and ``cases`` are what was decided, one by one.
    """

    code: int = 0
    lines: Sequence[str] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""
    cases: Sequence[Case] = ()

    def as_json(self) -> str:
        """One line of JSON: the facts, ``exit_code``, and ``error`` where there is one."""
        error = {"error": self.error} if self.error else {}
        return json.dumps({**self.facts, **error, "exit_code": self.code}, ensure_ascii=False, default=str)


def outcome_of(command: Callable[..., Outcome], options: Mapping[str, Any]) -> Outcome:
    """Run a command; whatever it raises becomes an exit code and what is said of it."""
    try:
        return command(**options)
    except KeyboardInterrupt:
        return Outcome(INTERRUPTED)
    except PlimsollError as error:
        return Outcome(getattr(error, "exit_code", UNKNOWN), error=str(error))
    # Python's own exit code, 1, says that a guarantee was violated; so may that with which a library wants to exit.
    except (Exception, SystemExit) as error:  # noqa: BLE001
        return Outcome(UNKNOWN, error=refusal(error) or traceback.format_exc().rstrip())


@contextmanager
def stdout_for_json() -> Iterator[None]:
    """Send to stderr what this process and its children write to stdout, so that one JSON object stands there alone."""
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
    """Print at once. Nobody may read on: what was started has to be collected and removed all the same."""
    _print(sys.stdout, text)


def print_error(sentence: str) -> None:
    """Print to stderr, if anybody reads on."""
    _print(sys.stderr, sentence)


def _print(stream: TextIO | None, text: str) -> None:
    """Python has no stream where the command was started with a closed one; ValueError: it was closed since."""
    if stream is not None:
        with suppress(OSError, ValueError):
            stream.write(f"{text}\n")
            stream.flush()


@contextmanager
def warned() -> Iterator[None]:
    """What the harness cannot do within is told, and what comes after goes on."""
    try:
        yield
    except HarnessError as error:
        print_error(f"warning: {error}")
