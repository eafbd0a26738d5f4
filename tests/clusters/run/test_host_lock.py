"""One benchmark alone, or correctness runs side by side."""

import fcntl
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import psutil
import pytest

from clusters.paths import ROOT
from clusters.run.host_lock import LOCK, alone, beside_others


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


def test_who_waits_is_told_for_whom(tmp_path: Path) -> None:
    """Another process holds the lock, and lets go once it was named."""
    lock = tmp_path / "lock"
    held = "import sys; from pathlib import Path; from clusters.run.host_lock import alone"
    held += "\nwith alone(Path(sys.argv[1])): print(flush=True); input()"
    told: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-c", held, lock], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout
        assert holder.stdin
        holder.stdout.readline()

        def tell(words: str) -> None:
            told.append(words)
            holder.communicate("\n")

        with beside_others(lock, tell):
            pass

    assert [words.split(" -c ")[0] for words in told] == [
        f"waiting until this host's benchmark has ended; process {holder.pid} of {psutil.Process().username()}: "
        f"{sys.executable}"
    ]


def test_the_lock_of_another_user_is_only_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is made for everyone, and then never opened for writing nor changed."""
    lock = tmp_path / "lock"
    with alone(lock):
        assert lock.stat().st_mode & 0o777 == 0o666
    lock.chmod(0o444)
    opened: list[str] = []
    plain = Path.open
    monkeypatch.setattr(
        Path, "open", lambda path, mode="r", **more: (opened.append(mode), plain(path, mode, **more))[1]
    )

    with beside_others(lock):
        assert lock.stat().st_mode & 0o777 == 0o444
    assert opened == ["r"]


def test_all_meet_at_one_lock(tmp_path: Path) -> None:
    """A folder of one's own for temporary files makes no host of one's own."""
    told = subprocess.run(
        [sys.executable, "-c", "from clusters.run.host_lock import LOCK; print(LOCK)"],
        env={"TMPDIR": str(tmp_path)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert told.stdout.strip() == str(LOCK)
    assert tmp_path not in LOCK.parents
