"""The exit codes of verdicts."""

import pytest

from history.errors import BadInput
from history.exit_codes import EXIT_CODES, MEANINGS, worst


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [(["pass", "pass"], 0), (["pass", "unknown"], 2), (["unknown", "fail", "pass"], 1), (["fail"], 1)],
)
def test_the_worst_of_several_verdicts_counts(verdicts: list[str], code: int) -> None:
    """The worst verdict decides: a violation is more certain than missing evidence, although its code is lower."""
    assert worst(verdicts) == code


def test_every_code_has_one_meaning() -> None:
    """Every exit code has one meaning, and bad input's differs from every verdict's."""
    assert {MEANINGS[code] for code in EXIT_CODES.values()} == EXIT_CODES.keys()
    assert BadInput.exit_code not in EXIT_CODES.values()
