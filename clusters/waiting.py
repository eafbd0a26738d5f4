"""The one way to wait: poll a condition until it is truthy, or say what was awaited and what was last seen."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from history.errors import LAST_SEEN, WaitTimeout

T = TypeVar("T")


def wait_until(
    condition: Callable[[], T | None],
    *,
    limit_s: float,
    what: str,
    every_s: float = 0.05,
    last_seen: Callable[[], str] | None = None,
    ignoring: tuple[type[Exception], ...] = (),
) -> T:
    """Return the first truthy value of ``condition``, asked at least once and then every ``every_s`` seconds.

    ``last_seen`` describes the state for the message; without it the condition's last value, or the last
    ignored exception, stands there. Exceptions propagate unless ``ignoring`` lists their type.

    Raises:
        WaitTimeout: nothing truthy within ``limit_s`` seconds.
    """
    deadline = time.monotonic() + limit_s
    while True:
        try:
            value = condition()
            seen = repr(value)
        except ignoring as error:
            seen = f"{type(error).__name__}: {error}"
        else:
            if value:
                return value
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise WaitTimeout(f"Waited {limit_s:g} s for {what}{LAST_SEEN}{last_seen() if last_seen else seen}.")
        time.sleep(min(every_s, left_s))
