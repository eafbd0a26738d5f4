"""Every invariant and every anomaly has hand-written histories: one that violates it, and a near miss that does not.

Tests of invariant I7 begin with ``test_i7_``, tests of an anomaly with ``test_`` and its name. In them a pair (checked,
violated) or a list of cases is the expectation. Tables of cases have columns for it.
"""

import ast
import re
from functools import cache
from pathlib import Path

from history.anomalies import SEVERITY
from judge.checks import invariants
from tests.judge.checks.test_account import CASES as FATES
from tests.judge.checks.test_records import CASES

FIRES = re.compile(r"\(\d+, [1-9]\d*\)|== \(?\[[^]]")
MUST_NOT = re.compile(r"\([1-9]\d*, 0\)|== \(?\[\]")
FATE_NAMED = {"undecided": "unseen"}
# Their histories are in tables; a test with their name is enough.
SIDE_BY_SIDE = {"I26", "I27", "torn_transaction", "hanging_transaction"}
EVERY = sorted({*invariants.INVARIANTS, *SEVERITY})


def source_of(check: str, files: dict[str, str]) -> str:
    """Return the source of the tests that are named after a check."""
    begins = f"test_{check.lower()}_" if check[1:].isdigit() else f"test_{check}"
    return "\n".join(text for name, text in files.items() if name.startswith(begins))


@cache
def functions() -> dict[str, str]:
    """Return the test functions of this folder with their source."""
    return {
        node.name: ast.get_source_segment(text, node) or ""
        for file in sorted(Path(__file__).parent.rglob("test_*.py"))
        for text in [file.read_text()]
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef)
    }


@cache
def tabled() -> tuple[set[str], set[str]]:
    """Return the anomalies that the tables of cases contain, and those that they narrowly miss.

    A fate is narrowly missed if the same sends and reads have another fate with other logs.
    """
    pairs = [(one, other) for one in FATES for other in FATES if (one.sends, one.polls) == (other.sends, other.polls)]
    fates = {fate for case in FATES for fate in case.fates.values()}
    missed = {fate for one, other in pairs for fate in set(one.fates.values()) - set(other.fates.values())}
    fired = {case.kind for case in CASES if case.found}
    return fired | {FATE_NAMED.get(fate, fate) for fate in fates}, {case.misses for case in CASES} | {
        FATE_NAMED.get(fate, fate) for fate in missed
    }


def without(check: str) -> list[str]:
    """Return which histories a check lacks."""
    text, (fired, missed) = source_of(check, functions()), tabled()
    if check in SIDE_BY_SIDE and text:
        return []
    found = {
        "a history that fires it": check in fired or FIRES.search(text),
        "a near miss": check in missed or MUST_NOT.search(text),
    }
    return [what for what, there in found.items() if not there]


def test_every_check_has_a_history_that_fires_it_and_a_near_miss():
    """Every check has a history that violates it and a near miss."""
    assert {check: lacking for check in EVERY if (lacking := without(check))} == {}


def test_a_check_without_tests_is_found():
    """A check without tests, or without a near miss, is found."""
    only_hits = {"test_i999_x": "assert check() == (2, 1)"}
    both = {"test_i999_x": "assert check() == (2, 1)\n    assert check() == (2, 0)"}

    assert without("I999") == ["a history that fires it", "a near miss"]
    assert FIRES.search(source_of("I999", only_hits))
    assert not MUST_NOT.search(source_of("I999", only_hits))
    assert MUST_NOT.search(source_of("I999", both))
