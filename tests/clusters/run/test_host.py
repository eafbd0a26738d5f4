"""Admission of runs to the host: a benchmark alone, others a few at once, in the order of their requests."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

from clusters.paths import ROOT
from clusters.run import host
from clusters.run.host import ALONE, admit, guests, sharing_host, wait_for_host
from clusters.run.leftovers import end_lease, hold_lease, is_leased, write_lease
from history.errors import HarnessError

MakeRun = Callable[[str], Path]
HOURS_S = 36_000


@pytest.fixture(autouse=True)
def own_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A list of guests of the test's own, which is asked often."""
    monkeypatch.setattr(host, "HOST", tmp_path / "host")
    monkeypatch.setattr(host, "LOOK_S", 0.0)
    return tmp_path / "host"


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """Makes runs with a lease by time."""

    def make(name: str) -> Path:
        run = tmp_path / name
        (run / "work").mkdir(parents=True)
        write_lease(run, "time")
        return run

    return make


def entries(own_host: Path) -> dict[str, Path]:
    """Map guests to their entries."""
    return {json.loads(file.read_text())["who"]: file for file in own_host.iterdir()}


def age(entry: Path, seconds: float) -> None:
    """Let an entry have been written so long ago."""
    before = entry.stat().st_mtime - seconds
    os.utime(entry, (before, before))


# --- who is admitted -------------------------------------------------------------------------------


def test_a_benchmark_runs_alone(make_run: MakeRun) -> None:
    """A benchmark waits for every other run, and excludes all others, benchmarks too."""
    runs = [make_run("a"), make_run("b")]
    assert [admit(run, 3) for run in runs] == ["", ""]
    benchmark = make_run("benchmark")
    alone = "waiting until this host is free, since a benchmark runs alone: "

    assert {each for each in ("a", "b") if each in admit(benchmark, ALONE).removeprefix(alone)} == {"a", "b"}
    end_lease(runs[0])
    assert admit(benchmark, ALONE) == alone + "b"
    end_lease(runs[1])
    assert admit(benchmark, ALONE) == ""

    for late, at_once in (("c", 3), ("d", ALONE)):
        assert admit(make_run(late), at_once) == "waiting until this host's benchmark has ended: benchmark"


def test_the_least_limit_of_those_inside_holds(make_run: MakeRun) -> None:
    """Of the limits of a run and of those inside the least holds, whichever of them has it."""
    third = make_run("third")
    assert (admit(make_run("first"), 2), admit(make_run("second"), 3)) == ("", "")

    why = admit(third, 3)
    assert why.startswith("waiting until one of this host's runs has ended: ")
    assert ("first" in why, "second" in why, "third" in why) == (True, True, False)
    end_lease(third.with_name("first"))
    assert admit(third, 3) == ""
    assert admit(make_run("fourth"), 2) != ""


def test_the_limit_of_a_run_holds_for_itself(make_run: MakeRun) -> None:
    """A run with a lower limit than those inside waits; one with the same limit does not."""
    assert [admit(make_run(name), 3) for name in ("first", "second")] == ["", ""]

    low, same = make_run("low"), make_run("same")
    assert admit(low, 2) != ""
    end_lease(low.with_name("first"))
    assert admit(low, 2) == ""
    end_lease(low)
    assert admit(same, 3) == ""


def test_the_order_of_requests_holds(make_run: MakeRun) -> None:
    """A waiting benchmark stops later runs, although there is space for them; an earlier one is let in."""
    inside, early, benchmark, late = map(make_run, ("inside", "early", "benchmark", "late"))
    assert admit(inside, 1_000) == ""
    limited = make_run("limited")
    assert admit(limited, 1_000) == ""
    assert "one of this host's runs" in admit(early, 2)
    assert "inside" in admit(benchmark, ALONE)

    end_lease(limited)
    assert admit(late, 1_000).startswith("waiting for its turn, after ")
    assert admit(early, 2) == ""
    for ended in (inside, early):
        end_lease(ended)
    assert admit(late, 1_000) == "waiting for its turn, after benchmark"
    assert admit(benchmark, ALONE) == ""
    end_lease(benchmark)
    assert admit(late, 1_000) == ""


@pytest.mark.parametrize(("seconds", "is_forgotten"), [(61, True), (50, False)])
def test_who_no_longer_asks_is_forgotten(make_run: MakeRun, own_host: Path, seconds: int, is_forgotten: bool) -> None:
    """A run whose last request is a minute old waits no longer; it loses its place."""
    assert admit(make_run("inside"), 2) == ""
    gone, late = make_run("gone"), make_run("late")
    assert admit(gone, ALONE) != ""
    age(entries(own_host)["gone"], seconds)

    assert (admit(late, 2) == "") is is_forgotten
    assert ("gone" in entries(own_host)) is not is_forgotten
    assert ("late" in admit(gone, ALONE)) is is_forgotten


def test_who_asks_again_keeps_its_place(make_run: MakeRun, own_host: Path) -> None:
    """Each request renews a waiting run's entry."""
    assert admit(make_run("inside"), 2) == ""
    waiting = make_run("waiting")
    assert admit(waiting, ALONE) != ""
    age(entries(own_host)["waiting"], 50)
    assert admit(waiting, ALONE) != ""
    age(entries(own_host)["waiting"], 50)

    assert admit(make_run("late"), 2) == "waiting for its turn, after waiting"


@pytest.mark.parametrize("kind", ["process", "time"])
def test_a_run_is_a_guest_while_it_has_a_lease(make_run: MakeRun, kind: Any) -> None:
    """A lease by a process's life or by time makes a guest; an ended lease does not."""
    run, benchmark = make_run("run"), make_run("benchmark")
    with ExitStack() as held:
        write_lease(run, kind)
        if kind == "process":
            held.enter_context(hold_lease(run))
        assert admit(run, 2) == ""
        assert "run" in admit(benchmark, ALONE)
        held.close()
        if kind == "time":
            end_lease(run)
        assert admit(benchmark, ALONE) == ""


def test_an_admitted_run_stays_admitted(make_run: MakeRun, own_host: Path) -> None:
    """A run that was admitted may ask again, for example after a retry, also if a benchmark waits and much later."""
    run, benchmark = make_run("run"), make_run("benchmark")
    assert admit(run, 2) == ""
    assert admit(benchmark, ALONE) != ""
    age(entries(own_host)["run"], HOURS_S)

    assert admit(run, 2) == ""
    assert "run" in admit(benchmark, ALONE)


def test_a_lease_that_expired_meanwhile_is_renewed(make_run: MakeRun) -> None:
    """A run that waited longer than its lease has one when it is admitted; a run without lease gets none."""
    run, ended = make_run("run"), make_run("ended")
    lease = run / "work" / "lease"
    lease.write_text(json.dumps(json.loads(lease.read_text()) | {"expires_s": 0.001}))
    end_lease(ended)
    assert not is_leased(run)

    assert [admit(each, 2) for each in (run, ended)] == ["", ""]
    assert (is_leased(run), is_leased(ended)) == (True, False)
    assert admit(make_run("benchmark"), ALONE).endswith(": run")


def test_who_waits_reads_why_once(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reason is shown once, until the run is admitted."""
    run, told = make_run("run"), list[str]()
    answers = iter(["a", "a", "b", "a", ""])
    monkeypatch.setattr(host, "_ask", lambda *_: next(answers))

    wait_for_host(run, 2, told.append)

    assert (told, list(answers)) == (["a", "b"], [])


# --- other work ------------------------------------------------------------------------------------

OTHER = """
from pathlib import Path
from sys import argv
from clusters.run import host
host.HOST = Path(argv[1])
with host.sharing_host("other work", print):
    print(flush=True)
    input()
"""


def interrupt(why: str) -> None:
    """End a wait with its reason."""
    raise HarnessError(why)


@pytest.fixture
def other(own_host: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that shares the host."""
    command = [sys.executable, "-c", OTHER, str(own_host)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        process.stdout.readline()
        yield process
        process.kill()


def test_judging_does_not_wait_for_runs(make_run: MakeRun, own_host: Path) -> None:
    """Judging goes on however many runs are inside or wait; its entry goes with it."""
    assert [admit(make_run(name), 2) for name in ("a", "b")] == ["", ""]
    assert admit(make_run("waiting"), 2) != ""

    with sharing_host("judging", interrupt):
        assert len(entries(own_host)) == 4
    assert set(entries(own_host)) == {"a", "b", "waiting"}


def test_judging_waits_for_a_benchmark(make_run: MakeRun, own_host: Path) -> None:
    """Judging waits for a benchmark that runs, not for one that waits: runs before it may need the workers.

    An interrupted wait leaves no entry.
    """
    first, benchmark = make_run("first"), make_run("benchmark")
    assert admit(first, 2) == ""
    assert admit(benchmark, ALONE) != ""
    with sharing_host("judging", interrupt):
        end_lease(first)
        assert "judging (process" in admit(benchmark, ALONE)
    assert admit(benchmark, ALONE) == ""

    why = "waiting until this host's benchmark has ended: benchmark"
    with pytest.raises(HarnessError, match=why), sharing_host("judging", interrupt):
        pytest.fail("it did not wait")
    assert set(entries(own_host)) == {"first", "benchmark"}


def test_a_run_does_not_count_judging(make_run: MakeRun) -> None:
    """Only a benchmark waits for judging: for runs it takes no place."""
    with sharing_host("judging", interrupt), sharing_host("judging", interrupt):
        assert [admit(make_run(name), 2) for name in ("a", "b")] == ["", ""]
        assert "one of" in admit(make_run("c"), 2)


def test_other_work_ends_with_its_process(make_run: MakeRun, own_host: Path, other: subprocess.Popen[str]) -> None:
    """A benchmark waits for a process that shares the host, and names it; a killed one does not count."""
    benchmark, user = make_run("benchmark"), psutil.Process().username()
    assert admit(benchmark, ALONE).endswith(f"runs alone: other work (process {other.pid} of {user})")

    other.kill()
    other.wait()
    assert len(entries(own_host)) == 2
    assert admit(benchmark, ALONE) == ""
    assert set(entries(own_host)) == {"benchmark"}


def test_another_process_with_the_same_number_is_no_guest(
    make_run: MakeRun, own_host: Path, other: subprocess.Popen[str]
) -> None:
    """An entry counts for the process that wrote it, not for a later one with its number."""
    (entry,) = own_host.iterdir()
    guest = json.loads(entry.read_text())
    benchmark = make_run("benchmark")
    assert guest["pid"] == other.pid
    assert admit(benchmark, ALONE) != ""

    entry.write_text(json.dumps(guest | {"born_s": guest["born_s"] - 1}))
    assert admit(benchmark, ALONE) == ""


# --- the list --------------------------------------------------------------------------------------


@pytest.fixture
def tight_umask() -> Iterator[None]:
    """New files are for their owner only."""
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.mark.usefixtures("tight_umask")
def test_every_user_may_join(make_run: MakeRun, own_host: Path) -> None:
    """Whatever the umask, all users may add entries and read those of others, and remove only their own."""
    assert admit(make_run("run"), 2) == ""

    assert own_host.stat().st_mode & 0o7777 == 0o1777
    assert [file.stat().st_mode & 0o777 for file in own_host.iterdir()] == [0o644]


def test_what_others_made_is_only_read(make_run: MakeRun, own_host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock is the folder, opened for reading; its mode is not changed once it exists."""
    own_host.mkdir()
    own_host.chmod(0o755)
    opened: list[tuple[Path, int]] = []
    plain = os.open
    monkeypatch.setattr(
        os, "open", lambda path, flags, **more: (opened.append((path, flags)), plain(path, flags, **more))[1]
    )
    assert admit(make_run("run"), 2) == ""

    assert opened == [(own_host, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)]
    assert own_host.stat().st_mode & 0o7777 == 0o755


def test_one_run_at_a_time_reads_and_changes_the_list(
    make_run: MakeRun, own_host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list is locked from reading others' entries to writing the own one, and free afterwards."""
    free: list[bool] = []

    def look(*_: object) -> None:
        folder = os.open(own_host, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free.append(True)
        except BlockingIOError:
            free.append(False)
        finally:
            os.close(folder)

    monkeypatch.setattr(host, "_others", lambda _: look() or [])
    monkeypatch.setattr(host, "_write", look)
    admit(make_run("run"), 2)
    look()

    assert free == [False, False, True]


def test_an_entry_is_not_written_through_a_link(make_run: MakeRun, own_host: Path, tmp_path: Path) -> None:
    """A link that another user put in an entry's place is replaced; its target is not changed."""
    run, target = make_run("run"), tmp_path / "target"
    target.write_text("mine")
    target.chmod(0o600)
    assert admit(run, 2) == ""
    (entry,) = own_host.iterdir()
    entry.unlink()
    entry.symlink_to(target)

    assert admit(run, 2) == ""
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("mine", 0o600)
    assert not entry.is_symlink()


def test_a_full_disk_stops_no_run(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run is admitted although its entry cannot be written, unless others are in its way."""

    def no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    first, second = make_run("first"), make_run("second")
    with monkeypatch.context() as patch:
        patch.setattr(json, "dump", no_space)
        assert admit(first, ALONE) == ""
    assert admit(first, ALONE) == ""
    monkeypatch.setattr(json, "dump", no_space)
    assert admit(second, 2).endswith(": first")


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"who": "x", "at_on',
        "[]",
        '{"who": "x"}',
        '{"who": "x", "at_once": 1, "asked_ns": 1, "is_admitted": true, "pid": 1, "colour": "red"}',
        "\udcff",
    ],
    ids=["empty", "torn", "list", "incomplete", "of another version", "bytes"],
)
def test_a_file_that_is_no_entry_is_ignored(make_run: MakeRun, own_host: Path, text: str) -> None:
    """Torn and foreign files are neither guests nor removed."""
    own_host.mkdir()
    (own_host / "x").write_text(text, errors="surrogateescape")

    assert admit(make_run("benchmark"), ALONE) == ""
    assert (own_host / "x").is_file()


def test_a_run_with_a_torn_entry_asks_anew(make_run: MakeRun, own_host: Path) -> None:
    """A run whose own entry is torn is admitted like one that asks for the first time."""
    run = make_run("run")
    assert admit(run, 2) == ""
    (entry,) = own_host.iterdir()
    entry.write_text(entry.read_text()[:20])

    assert admit(run, 2) == ""
    assert entries(own_host) == {"run": entry}


def test_all_meet_at_one_list(tmp_path: Path) -> None:
    """The list does not depend on TMPDIR, so that all runs of a host share it."""
    told = subprocess.run(
        [sys.executable, "-c", "from clusters.run.host import HOST; print(HOST)"],
        env={"TMPDIR": str(tmp_path)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert told.stdout.strip() == "/tmp/plimsoll.host"


# --- reading the list ------------------------------------------------------------------------------


def entry(own_host: Path, name: str, **values: Any) -> Path:
    """Write an entry as another process did."""
    own_host.mkdir(exist_ok=True)
    file = own_host / name
    file.write_text(json.dumps({"who": name, "at_once": 2, "asked_ns": 1, **values}))
    return file


def names() -> list[str]:
    """Return the present guests."""
    return [guest.who for guest in guests()]


def test_guests_are_those_present_in_the_order_of_their_requests(make_run: MakeRun, own_host: Path) -> None:
    """Runs with a lease and runs that asked within a minute are listed; reading removes no other entry."""
    inside, ended = make_run("inside"), make_run("ended")
    end_lease(ended)
    entry(own_host, "a", asked_ns=2, is_admitted=True, run=str(inside))
    entry(own_host, "b", asked_ns=3, is_admitted=True, run=str(ended))
    age(entry(own_host, "c", asked_ns=1), 50)
    age(entry(own_host, "d", asked_ns=4), 61)
    me = psutil.Process()
    entry(own_host, "e", asked_ns=5, at_once=0, pid=me.pid, born_s=me.create_time())
    entry(own_host, "f", asked_ns=6, at_once=0, pid=me.pid, born_s=me.create_time() - 1)
    before = {file: (file.stat().st_mtime_ns, file.read_text()) for file in own_host.iterdir()}

    assert names() == ["c", "a", "e"]
    assert {file: (file.stat().st_mtime_ns, file.read_text()) for file in own_host.iterdir()} == before


def test_reading_the_list_makes_no_folder(own_host: Path) -> None:
    """Without a list there are no guests, nor in a file of its name; none is made."""
    assert names() == []
    assert not own_host.exists()

    own_host.write_text("")
    assert names() == []
    own_host.unlink()
    entry(own_host, "a")
    assert names() == ["a"]


def test_what_others_left_in_the_list_is_passed_over(own_host: Path) -> None:
    """A folder, a pipe, a broken link, a torn entry, and one of a run that cannot exist are no guests."""
    entry(own_host, "a")
    entry(own_host, "b", is_admitted=True, run="x" * 5_000)
    entry(own_host, "c", is_admitted=True, run="\0")
    entry(own_host, "d").write_text('{"who": "d", "at_on')
    (own_host / "e").mkdir()
    os.mkfifo(own_host / "f")
    (own_host / "g").symlink_to(own_host / "nowhere")

    assert names() == ["a"]


def test_a_held_lock_does_not_stop_the_reader(own_host: Path) -> None:
    """While another process holds the list, it is read nevertheless."""
    entry(own_host, "a")
    folder = os.open(own_host, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)

    assert names() == ["a"]
    os.close(folder)
