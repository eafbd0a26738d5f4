"""The exceptions and what catching one of them catches."""

from __future__ import annotations

import errno
import os

import pytest

from history.errors import (
    MAX_SENTENCE,
    BadInput,
    EvidenceError,
    HarnessError,
    NotRemoved,
    PlimsollError,
    WaitTimeout,
    reason_of,
    refusal,
    remove_each,
)


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


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (errno.ENOSPC, "/runs/x: No space left on device; make room on its disk and start again."),
        (errno.EROFS, "/runs/x: Read-only file system; use a copy on a disk that can be written and start again."),
        (
            errno.EACCES,
            "/runs/x: Permission denied; let your user write there, or use a copy of your own and start again.",
        ),
    ],
)
def test_what_the_machine_refuses_is_a_sentence_that_says_what_to_do(number: int, sentence: str) -> None:
    """With the file, where the error names one; a run's events say the same as the command."""
    error = OSError(number, os.strerror(number), "/runs/x")

    assert refusal(error) == reason_of(error) == sentence
    assert refusal(OSError(number, os.strerror(number))) == sentence.removeprefix("/runs/x: ")


@pytest.mark.parametrize(
    "error", [ValueError("12"), ConnectionRefusedError(errno.ECONNREFUSED, "refused"), OSError("?")]
)
def test_any_other_error_is_told_with_its_type(error: Exception) -> None:
    """A defect of ours, and a peer that is gone: nobody can make room for that."""
    assert refusal(error) == ""
    assert reason_of(error) == f"{type(error).__name__}: {error}"


def test_what_resists_keeps_nothing_else_from_going() -> None:
    """At the end it is told once, with all that went, however deep; without it nothing is raised."""

    def stuck() -> list[str]:
        raise WaitTimeout("Waited 10 s for b to end.")

    def broken() -> list[str]:
        raise ValueError("12")

    def some() -> list[str]:
        return remove_each([lambda: ["a"], stuck, lambda: ["c"]])

    with pytest.raises(NotRemoved) as error:
        remove_each([some, broken, lambda: ["d", "e"]])
    assert error.value.removed == ["a", "c", "d", "e"]
    assert str(error.value) == "Not everything was removed. Waited 10 s for b to end. ValueError: 12"
    assert remove_each([lambda: ["a"], list, lambda: ["b"]]) == ["a", "b"]
