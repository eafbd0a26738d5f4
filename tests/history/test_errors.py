"""The exceptions and what catching one of them catches."""

from __future__ import annotations

import pytest

from history.errors import MAX_SENTENCE, BadInput, EvidenceError, HarnessError, PlimsollError, WaitTimeout


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


@pytest.mark.parametrize("error", [BadInput, EvidenceError])
def test_a_refusal_is_one_line(error: type[PlimsollError]) -> None:
    """What it quotes may hold line feeds and escapes, or be very long; a plain sentence stays as it is."""
    assert str(error("KAFKA=a\nb\x1b[2J is no version.")) == r"KAFKA=a\nb\x1b[2J is no version."
    assert str(error("»naïve« is no name.")) == "»naïve« is no name."
    long = str(error(f"KAFKA={'x' * 10_000} is no version."))
    assert long.startswith("KAFKA=xxx")
    assert long.endswith("xxx is no version.")
    assert len(long) <= MAX_SENTENCE
