"""The suite again and again: what a try counts."""

from __future__ import annotations

from typing import Any

import psutil
import pytest

from tests.acceptance.flakiness import TRIES, busy, clean, found

PRINTED = """\
FAILED tests/docs/test_docs.py::test_a - AssertionError: no
ERROR tests/bench/test_b.py::test_c
FAILED tests/docs/test_docs.py::test_a - AssertionError: no
10 passed, 2 failed
"""
GOOD: dict[str, Any] = {"exit_code": 0, "passed": 10, "failed": 0}


def test_what_failed_is_named_once() -> None:
    """With the counts of the last line; a suite that broke off passed nothing."""
    assert found(PRINTED) == {
        "passed": 10,
        "failed": 2,
        "which": ["tests/bench/test_b.py::test_c", "tests/docs/test_docs.py::test_a"],
    }
    assert found("3 passed, 0 failed, 1 skipped (why)\n") == {"passed": 3, "failed": 0, "which": []}
    assert found("Killed\n")["passed"] == 0


@pytest.mark.parametrize(
    ("changed", "expected"), [({}, True), ({"failed": 1}, False), ({"exit_code": 2}, False), ({"passed": 0}, False)]
)
def test_only_a_whole_suite_without_a_failure_is_clean(changed: dict[str, Any], expected: bool) -> None:
    """One that ended early without a word is not."""
    assert clean(GOOD | changed) is expected


def test_there_are_five_quiet_tries_and_two_busy_ones() -> None:
    """As promised."""
    assert list(TRIES.values()) == [False] * 5 + [True] * 2


def test_loops_end_with_the_try() -> None:
    """One for each core, and none is left."""
    before = set(psutil.Process().children())
    with busy(2):
        loops = set(psutil.Process().children()) - before

    assert len(loops) == 2
    assert not any(loop.is_running() for loop in loops)
