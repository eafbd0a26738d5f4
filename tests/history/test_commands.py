"""Programs that run to their end."""

from __future__ import annotations

import pytest

from history.commands import run_command
from history.errors import HarnessError


def test_a_program_that_does_not_end_in_time_is_named() -> None:
    """A program that exceeds its limit is killed, and the error names it and the limit."""
    assert run_command(["echo", "a b"], 10).stdout == "a b\n"
    with pytest.raises(HarnessError, match=r"^sh -c 'exec sleep 9' did not end within 0\.1 s and was killed"):
        run_command(["sh", "-c", "exec sleep 9"], 0.1)
