"""The exit codes of all commands (docs/commands.md)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

Verdict = Literal["pass", "fail", "unknown"]

PASS, FAIL, UNKNOWN, BAD_INPUT, INTERRUPTED = 0, 1, 2, 3, 130
EXIT_CODES = {"pass": PASS, "fail": FAIL, "unknown": UNKNOWN}
MEANINGS = {
    **{code: verdict for verdict, code in EXIT_CODES.items()},
    BAD_INPUT: "bad input (nothing was started)",
    INTERRUPTED: "interrupted",
}


def worst(verdicts: Iterable[str]) -> int:
    """Return the exit code of several verdicts, the worst."""
    return max((EXIT_CODES[verdict] for verdict in verdicts), key=[PASS, UNKNOWN, FAIL].index)
