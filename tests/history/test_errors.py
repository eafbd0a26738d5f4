"""The exceptions and what catching one of them catches."""

from __future__ import annotations

import pytest

from history.errors import BadInput, EvidenceError, HarnessError, PlimsollError, WaitTimeout


@pytest.mark.parametrize("error", [BadInput, HarnessError, WaitTimeout, EvidenceError])
def test_there_is_one_root(error: type[Exception]) -> None:
    """The command line catches the root and shows one sentence."""
    assert issubclass(error, PlimsollError)


def test_a_wait_that_ran_out_is_the_harness() -> None:
    """It is never bad input nor evidence, and a plain harness error is no wait."""
    assert issubclass(WaitTimeout, HarnessError)
    assert not issubclass(WaitTimeout, BadInput | EvidenceError)
    assert not issubclass(HarnessError, WaitTimeout)


def test_bad_input_ends_with_3() -> None:
    """1 and 2 are verdicts."""
    assert BadInput.exit_code == 3
