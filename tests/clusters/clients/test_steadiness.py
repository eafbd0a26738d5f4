"""Whether a load is answered steadily, judged from growing ledgers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from clusters.clients.ledger import NOT_SEEN, About, Ledger, error_names
from clusters.clients.steadiness import Steadiness

S, MS = 1_000_000_000, 1_000_000
Write = Callable[..., None]


@pytest.fixture
def write(tmp_path: Path) -> Iterator[Write]:
    """Writes ten records per second, each answered after ``ms`` or with an error."""
    with Ledger(tmp_path / "sends-load-1.arrow", About("load-1", "orders", "all", may_have_retried=True)) as ledger:

        def write(seconds: range, ms: float, error: str | None = None) -> None:
            due_ns = np.repeat(np.array(seconds, np.int64) * S, 10)
            told = {"due_ns": due_ns, "sent_ns": due_ns, "done_ns": due_ns + int(ms * MS)}
            told |= {name: np.zeros_like(due_ns) for name in ("seq", "partition", "record_bytes")}
            told |= {name: np.full_like(due_ns, NOT_SEEN) for name in ("offset", "transaction")}
            ledger.record(error_names([error] * due_ns.size), told)
            ledger.flush()

        yield write


def test_it_is_steady_when_the_last_seconds_were(tmp_path: Path, write: Write) -> None:
    """A load is steady if the last windows are; earlier and still unanswered seconds do not count."""
    steadiness = Steadiness(tmp_path)
    assert steadiness.look() == (False, "no acknowledged record has a due time yet")
    write(range(100, 154), ms=2)
    assert steadiness.look() == (False, "1 s more of load are needed")
    write(range(154, 155), ms=90)
    assert steadiness.look() == (True, "steady over 50 s")

    write(range(155, 165), ms=90)
    assert not steadiness.look()[0]
    write(range(165, 215), ms=90)
    assert steadiness.look()[0]


def test_it_is_not_when_they_changed(tmp_path: Path, write: Write) -> None:
    """A load whose latency changed is not steady; the reason is the same while no row is added."""
    steadiness = Steadiness(tmp_path)
    write(range(100, 130), ms=3)
    write(range(130, 155), ms=2)
    held, seen = steadiness.look()

    assert not held
    assert "no steady state: the range of median latency over 5 windows is" in seen
    assert steadiness.look() == (held, seen)


def test_seconds_of_errors_or_of_nothing_are_not_steady(tmp_path: Path, write: Write) -> None:
    """Seconds with errors only, or without records, are not steady."""
    write(range(100, 130), ms=2)
    write(range(130, 140), ms=2, error="NOT_LEADER_OR_FOLLOWER")
    write(range(150, 155), ms=2)

    held, seen = Steadiness(tmp_path).look()
    assert not held
    assert "acknowledged records a second" in seen


def test_what_is_answered_late_changes_nothing(tmp_path: Path, write: Write) -> None:
    """A window that was already evaluated does not change when late answers arrive."""
    steadiness = Steadiness(tmp_path)
    write(range(100, 155), ms=2)
    assert steadiness.look()[0]
    write(range(120, 130), ms=900)
    write(range(155, 156), ms=2)
    assert steadiness.look()[0]
