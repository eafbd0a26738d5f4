"""Every invariant and every anomaly has hand-written histories: one that fires it, and a near miss that must not.

By name: tests of invariant I7 begin with ``test_i7_``, tests of an anomaly with ``test_`` and its name. In them a pair
(checked, violated) or a list of cases says what was expected. The tables of cases say it by their own columns.
"""

import ast
import re
from functools import cache
from pathlib import Path

from judge.checks import invariants
from judge.checks.anomalies import SEVERITY
from tests.judge.checks.test_account import CASES as FATES
from tests.judge.checks.test_records import CASES

FIRES = re.compile(r"\(\d+, [1-9]\d*\)|== \(?\[[^]]")
MUST_NOT = re.compile(r"\([1-9]\d*, 0\)|== \(?\[\]")
FATE_NAMED = {"undecided": "unseen"}
# Their histories lie side by side in tables of their own; a test that bears their name is all that is asked for.
SIDE_BY_SIDE = {"I26", "I27", "torn_transaction", "hanging_transaction"}
EVERY = sorted({*invariants.INVARIANTS, *SEVERITY})


def source_of(check: str, files: dict[str, str]) -> str:
    """The tests that are named after a check."""
    begins = f"test_{check.lower()}_" if check[1:].isdigit() else f"test_{check}"
    return "\n".join(text for name, text in files.items() if name.startswith(begins))


@cache
def functions() -> dict[str, str]:
    """The test functions of this folder with their source."""
    return {
        node.name: ast.get_source_segment(text, node) or ""
        for file in sorted(Path(__file__).parent.rglob("test_*.py"))
        for text in [file.read_text()]
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef)
    }


@cache
def tabled() -> tuple[set[str], set[str]]:
    """The anomalies that the tables of cases fire, and those that they narrowly miss.

    Fates: the same sends and reads, and another fate because of what the replicas hold.
    """
    pairs = [(one, other) for one in FATES for other in FATES if (one.sends, one.polls) == (other.sends, other.polls)]
    fates = {fate for case in FATES for fate in case.fates.values()}
    missed = {fate for one, other in pairs for fate in set(one.fates.values()) - set(other.fates.values())}
    fired = {case.kind for case in CASES if case.found}
    return fired | {FATE_NAMED.get(fate, fate) for fate in fates}, {case.misses for case in CASES} | {
        FATE_NAMED.get(fate, fate) for fate in missed
    }


def without(check: str) -> list[str]:
    """What a check has no history for."""
    text, (fired, missed) = source_of(check, functions()), tabled()
    if check in SIDE_BY_SIDE and text:
        return []
    found = {
        "a history that fires it": check in fired or FIRES.search(text),
        "a near miss": check in missed or MUST_NOT.search(text),
    }
    return [what for what, there in found.items() if not there]


def test_every_check_has_a_history_that_fires_it_and_a_near_miss():
    """A new check needs both."""
    assert {check: lacking for check in EVERY if (lacking := without(check))} == {}


def test_a_check_without_tests_is_found():
    """Nothing is named after I999; a test that expects only violations has no near miss."""
    only_hits = {"test_i999_x": "assert check() == (2, 1)"}
    both = {"test_i999_x": "assert check() == (2, 1)\n    assert check() == (2, 0)"}

    assert without("I999") == ["a history that fires it", "a near miss"]
    assert FIRES.search(source_of("I999", only_hits))
    assert not MUST_NOT.search(source_of("I999", only_hits))
    assert MUST_NOT.search(source_of("I999", both))
