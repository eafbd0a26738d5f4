"""One benchmark alone on the host, or several correctness runs at the same time."""

import fcntl
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

from clusters.paths import ROOT
from clusters.run.host_lock import LOCK, exclusive_host, shared_host

Lock = Callable[..., AbstractContextManager[None]]


def _is_free(lock: Path, how: int) -> bool:
    with lock.open("a") as file:
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


RUNS_ENDED = "this host's other runs have ended: a benchmark runs alone"


@pytest.mark.parametrize(
    ("held", "for_benchmark", "for_correctness"), [(exclusive_host, False, False), (shared_host, False, True)]
)
def test_who_may_come_in(
    tmp_path: Path,
    held: Lock,
    for_benchmark: bool,
    for_correctness: bool,
) -> None:
    """A benchmark excludes all other runs; correctness runs exclude benchmarks only."""
    lock = tmp_path / "lock"
    with held(lock):
        assert _is_free(lock, fcntl.LOCK_EX) is for_benchmark
        assert _is_free(lock, fcntl.LOCK_SH) is for_correctness
    assert _is_free(lock, fcntl.LOCK_EX)


HOLDER = """
from pathlib import Path
from sys import argv
from clusters.run import host_lock
with getattr(host_lock, argv[1])(Path(argv[2])):
    print(flush=True)
    input()
"""


@pytest.mark.parametrize(
    ("waits", "how", "held", "words"),
    [
        (shared_host, fcntl.LOCK_SH, ["exclusive_host"], "this host's benchmark has ended"),
        (
            exclusive_host,
            fcntl.LOCK_EX,
            ["exclusive_host"],
            RUNS_ENDED,
        ),
        (
            exclusive_host,
            fcntl.LOCK_EX,
            ["shared_host"] * 2,
            RUNS_ENDED,
        ),
    ],
)
def test_who_waits_is_told_for_whom(tmp_path: Path, waits: Lock, how: int, held: list[str], words: str) -> None:
    """A waiting run lists the processes that hold the lock, and continues when the last of them has ended."""
    lock = tmp_path / "lock"
    told: list[str] = []
    with ExitStack() as stack:
        commands = [[sys.executable, "-c", HOLDER, name, lock] for name in held]
        pipes: dict[str, Any] = {"cwd": ROOT, "stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        holders = [stack.enter_context(subprocess.Popen(command, **pipes)) for command in commands]
        for holder in holders:
            holder.stdout.readline()

        def tell(sentence: str) -> None:
            told.extend(sentence.split("; "))
            for holder in holders:
                assert not _is_free(lock, how)
                holder.communicate("\n")

        with waits(lock, tell):
            assert [holder.poll() for holder in holders] == [0] * len(held)

    shown = f"of {psutil.Process().username()}: {sys.executable} -c from pathlib import Path from sys"
    assert told[0] == f"waiting until {words}"
    assert {who.split(" import argv")[0] for who in told[1:]} == {f"process {each.pid} {shown}" for each in holders}


def test_the_lock_of_another_user_is_only_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock file is writable for everyone when created, and afterwards opened for reading only."""
    lock = tmp_path / "lock"
    with exclusive_host(lock):
        assert lock.stat().st_mode & 0o777 == 0o666
    lock.chmod(0o444)
    opened: list[str] = []
    plain = Path.open
    monkeypatch.setattr(
        Path, "open", lambda path, mode="r", **more: (opened.append(mode), plain(path, mode, **more))[1]
    )

    with shared_host(lock):
        assert lock.stat().st_mode & 0o777 == 0o444
    assert opened == ["r"]


def test_all_meet_at_one_lock(tmp_path: Path) -> None:
    """The lock file does not depend on TMPDIR, so that all runs of a host share it."""
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
