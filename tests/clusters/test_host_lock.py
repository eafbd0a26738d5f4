"""One benchmark alone, or correctness runs side by side."""

import fcntl
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from clusters.host_lock import alone, beside_others


def _is_free(lock: Path, how: int) -> bool:
    with lock.open("a") as file:
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@pytest.mark.parametrize(
    ("held", "for_benchmark", "for_correctness"), [(alone, False, False), (beside_others, False, True)]
)
def test_who_may_come_in(
    tmp_path: Path,
    held: Callable[[Path], AbstractContextManager[None]],
    for_benchmark: bool,
    for_correctness: bool,
) -> None:
    """Nobody beside a benchmark; beside a correctness run another one; afterwards anybody."""
    lock = tmp_path / "lock"
    with held(lock):
        assert _is_free(lock, fcntl.LOCK_EX) is for_benchmark
        assert _is_free(lock, fcntl.LOCK_SH) is for_correctness
    assert _is_free(lock, fcntl.LOCK_EX)
