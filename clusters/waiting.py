"""Poll until a condition is truthy."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

from history.errors import LAST_SEEN, WaitTimeout

T = TypeVar("T")
BUSY = 8  # threads per core that run or want to


def wait_until(
    condition: Callable[[], T | None],
    *,
    limit_s: float,
    what: str,
    every_s: float = 0.05,
    last_seen: Callable[[], str] | None = None,
    ignoring: tuple[type[Exception], ...] = (),
) -> T:
    """Return the first truthy value of ``condition``, called at most half of the time.

    ``last_seen`` describes the state for the error.

    Raises:
        WaitTimeout: nothing truthy within ``limit_s`` seconds.
    """
    deadline = time.monotonic() + limit_s
    while True:
        began = time.monotonic()
        try:
            value = condition()
            seen = repr(value)
        except ignoring as error:
            seen = f"{type(error).__name__}: {error}"
        else:
            if value:
                return value
        answered = time.monotonic()
        left_s = deadline - answered
        if left_s <= 0:
            state = last_seen() if last_seen else seen
            raise WaitTimeout(f"Waited {limit_s:g} s for {what}{_on_a_busy_host()}{LAST_SEEN}{state}.")
        time.sleep(min(max(every_s, answered - began), left_s))


def _on_a_busy_host() -> str:
    threads, cores = os.getloadavg()[0], os.cpu_count() or 1
    return f" on a busy host ({threads:.0f} threads want its {cores} cores)" if threads > BUSY * cores else ""
