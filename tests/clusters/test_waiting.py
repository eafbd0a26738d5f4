"""The waiting helper."""

from __future__ import annotations

import pytest

from clusters.waiting import wait_until
from history.errors import WaitTimeout


def test_first_truthy_value_is_returned() -> None:
    """The condition is evaluated until its value is truthy, and that value is returned."""
    values = iter([0, None, "leader 2", "leader 3"])

    assert wait_until(lambda: next(values), limit_s=5, what="a leader", every_s=0) == "leader 2"


def test_condition_is_asked_even_without_time() -> None:
    """With a limit of 0 s the condition is still evaluated once."""
    assert wait_until(lambda: True, limit_s=0, what="nothing") is True


def test_timeout_says_what_how_long_and_last_seen() -> None:
    """The time-out message has the condition, the limit and the last observation."""
    with pytest.raises(WaitTimeout, match=r"^Waited 0 s for isr_full orders; last seen: ISR \[1, 2\] of 3\.$"):
        wait_until(lambda: False, limit_s=0, what="isr_full orders", last_seen=lambda: "ISR [1, 2] of 3")


@pytest.mark.parametrize(("threads", "said"), [(16.4, " on a busy host (16 threads want its 2 cores)"), (16.0, "")])
def test_a_timeout_on_a_busy_host_says_so(monkeypatch: pytest.MonkeyPatch, threads: float, said: str) -> None:
    """The time-out message reports a busy host above eight threads a core."""
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr("os.getloadavg", lambda: (threads, 0.0, 0.0))
    with pytest.raises(WaitTimeout) as raised:
        wait_until(lambda: False, limit_s=0, what="a broker")

    assert str(raised.value) == f"Waited 0 s for a broker{said}; last seen: False."


def test_last_value_stands_in_for_last_seen() -> None:
    """Without a description, the message shows the condition's last value."""
    with pytest.raises(WaitTimeout, match=r"last seen: \[\]"):
        wait_until(list, limit_s=0, what="some rows")


def test_listed_exceptions_are_waited_out_and_told() -> None:
    """A listed exception counts as "not yet", and the message shows it as the last observation."""

    def refused() -> bool:
        raise ConnectionRefusedError("port 9092")

    with pytest.raises(WaitTimeout, match="ConnectionRefusedError: port 9092"):
        wait_until(refused, limit_s=0, what="a broker", ignoring=(OSError,))


def test_other_exceptions_propagate() -> None:
    """Exceptions that are not listed are raised at once."""
    with pytest.raises(ZeroDivisionError):
        wait_until(lambda: 1 / 0, limit_s=5, what="a number", ignoring=(OSError,))


def test_a_condition_that_takes_long_is_left_alone_for_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow condition is evaluated again only after as long as it took; a fast one after ``every_s``."""
    now_s, slept_s = 0.0, []

    def asked(took_s: float) -> bool:
        nonlocal now_s
        now_s += took_s
        return len(slept_s) == 2

    monkeypatch.setattr("time.monotonic", lambda: now_s)
    monkeypatch.setattr("time.sleep", slept_s.append)
    wait_until(lambda: asked(0.0 if not slept_s else 3.0), limit_s=60, what="all replicas", every_s=0.5)

    assert slept_s == [0.5, 3.0]
