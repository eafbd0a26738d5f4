"""The exceptions and their hierarchy."""

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
    """All errors share one root, which the command line catches to show one sentence."""
    assert issubclass(error, PlimsollError)


def test_a_wait_that_ran_out_is_the_harness() -> None:
    """A wait that timed out is a harness error, never bad input nor evidence; other harness errors are no such wait."""
    assert issubclass(WaitTimeout, HarnessError)
    assert not issubclass(WaitTimeout, BadInput | EvidenceError)
    assert not issubclass(HarnessError, WaitTimeout)


def test_bad_input_ends_with_3() -> None:
    """Bad input exits with 3, since 1 and 2 are verdicts."""
    assert BadInput.exit_code == 3


@pytest.mark.parametrize("error", [BadInput, EvidenceError])
def test_a_refusal_is_one_line(error: type[PlimsollError]) -> None:
    """A rejection is one line of limited length, with line feeds and escapes quoted."""
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
    """A system error becomes a sentence with the file and advice, in a run's events and in the command alike."""
    error = OSError(number, os.strerror(number), "/runs/x")

    assert refusal(error) == reason_of(error) == sentence
    assert refusal(OSError(number, os.strerror(number))) == sentence.removeprefix("/runs/x: ")


@pytest.mark.parametrize(
    "error", [ValueError("12"), ConnectionRefusedError(errno.ECONNREFUSED, "refused"), OSError("?")]
)
def test_any_other_error_is_told_with_its_type(error: Exception) -> None:
    """Any other error, such as a defect or a lost connection, is reported with its type and without advice."""
    assert refusal(error) == ""
    assert reason_of(error) == f"{type(error).__name__}: {error}"


def test_what_resists_keeps_nothing_else_from_going() -> None:
    """One failed removal does not stop the others; the error at the end lists all removed items."""

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
