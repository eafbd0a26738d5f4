"""The command line: streams, signals, make's variables and JSON."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from clusters.paths import ROOT
from clusters.run import experiment
from commands import outcome, runs
from commands.main import main, variables_of
from service import airflow, spark_cluster

RUN = ["run", "steady", "--kafka", "3.9.1"]


def test_json_is_one_object_on_stdout(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """``--json`` prints one object on stdout, also for errors; all other output goes to stderr."""

    def names() -> list[str]:
        print("from Python")
        subprocess.run(["echo", "from a child"], check=True)
        return ["steady"]

    monkeypatch.setattr(runs, "scenario_names", names)
    assert main(["scenarios", "--json"]) == 0
    out, err = capfd.readouterr()

    assert json.loads(out) == {
        "scenarios": {"steady": "Without faults no record may be lost or duplicated, and all invariants must hold."},
        "exit_code": 0,
    }
    assert ("from Python" in err, "from a child" in err) == (True, True)

    assert main([*RUN, "--rate", "fast", "--json"]) == 3
    refused = json.loads(capfd.readouterr().out)
    assert refused["exit_code"] == 3
    assert refused["error"].startswith("Invalid value for '--rate'")


def make(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str, **variables: str
) -> tuple[int, str]:
    """Run a command as its make target does; return the exit code and stderr."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    code = main(["--from-make", " ".join(variables), command])
    return code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "variables", "sentence"),
    [
        ("run", {"KAFAK": "3.9.1"}, "make run takes no KAFAK=; did you mean KAFKA=? It takes SCENARIO, KAFKA, RUNTIME"),
        (
            "capacity",
            {"KAFKA": "3.9.1"},
            "make capacity takes no KAFKA=; it takes SETTINGS, NAME, SEED, UPLOAD, METRICS_PORT, RUNS, J",
        ),
        ("compare", {"BASE": "3.9.1"}, "--head is missing: the version to test: a release, or a folder or tarball of"),
        ("run", {"SCENARIO": "steady", "RATE": "fast"}, "Invalid value for '--rate': Input should be a valid number"),
        ("run", {"SCENARIO": "no such file.yaml"}, "There is no scenario 'no such file.yaml'"),
        ("judge", {"RUN": "/no/a '/no/b c'"}, "/no/a is no run folder"),
    ],
)
def test_variables_of_make_are_options(
    command: str,
    variables: dict[str, str],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Make's variables are options; an unknown one is rejected by name."""
    code, err = make(monkeypatch, capsys, command, **variables)

    assert code == 3
    assert err.startswith(sentence)


def test_a_port_that_cannot_be_had_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A metrics port in use is rejected first, with the option that set it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code = main(["run", "--metrics-port", port])
    told = capsys.readouterr()

    assert (code, told.out) == (3, "")
    assert told.err.startswith(f"Port {port} of 127.0.0.1 is not available")
    assert "--metrics-port=<number>." in told.err.strip()


def test_make_is_told_the_exit_code(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Under make, the last line of a failed command has its exit code, since make's own is always 2."""
    bad = "exit code 3: bad input (nothing was started)"

    assert make(monkeypatch, capsys, "run", KAFKA="9")[1].splitlines()[-1] == bad
    assert make(monkeypatch, capsys, "run", KAFAK="3.9.1")[1].splitlines()[-1] == bad
    assert make(monkeypatch, capsys, "scenarios") == (0, "")
    assert main(["run", "stedy"]) == 3
    assert "exit code" not in capsys.readouterr().err


@pytest.mark.parametrize(("value", "everything"), [("1", True), ("0", False), ("", False)])
def test_a_flag_is_set_by_one(
    value: str, everything: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``ALL=1`` is --all; 0 or an empty value is not."""
    calls: list[bool] = []
    monkeypatch.setattr(experiment, "reap", lambda *, all_runs: calls.append(all_runs) or [])
    monkeypatch.setattr(airflow, "end_unused", lambda **_: [])
    monkeypatch.setattr(spark_cluster, "remove_leftovers", lambda *, everything: calls.append(everything) or [])

    assert make(monkeypatch, capsys, "clean", ALL=value) == (0, "")
    assert calls == [everything, everything]


def test_every_parameter_is_a_variable() -> None:
    """Every parameter of a command is a make variable, and there are no others."""
    assert list(variables_of("import")) == [
        *("HISTORY", "FORMAT", "ACKS", "IDEMPOTENCE", "UNCLEAN_ELECTION", "ISOLATION", "FAULTS"),
        *("TOPIC_CONFIG", "KAFKA", "RUNS"),
        *("JSON", "JUNIT", "SUMMARY", "JAVA"),
    ]
    assert list(variables_of("known-bugs")) == [
        *("BUGS", "KAFKA", "MODE", "TRIES", "SETTINGS", "NAME", "SEED", "UPLOAD", "AT_ONCE", "METRICS_PORT", "RUNS"),
        *("JSON", "JUNIT", "SUMMARY", "AIRFLOW", "JAVA"),
    ]
    assert "AT_ONCE" not in variables_of("compare")  # benchmarks run one after the other
    assert variables_of("walk") == {}


@pytest.fixture
def hang_up() -> Iterator[None]:
    """Restores the handler of SIGHUP after the test."""
    before = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hang_up", "capsys")
def test_a_closed_terminal_is_an_interrupt() -> None:
    """SIGHUP interrupts a command once, so that cleaning up is not interrupted; under nohup it is ignored."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    main(["scenarios"])
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN

    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    main(["scenarios"])
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGHUP)
    signal.raise_signal(signal.SIGHUP)


def test_a_terminal_that_is_gone_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the terminal is closed, failed output does not stop the command, so that it can clean up."""
    refused: list[str] = []

    def gone(text: str) -> None:
        refused.append(text)
        raise OSError(5, "Input/output error")

    for name in ("stdout", "stderr"):
        monkeypatch.setattr(outcome.sys, name, SimpleNamespace(write=gone))
    outcome.say("interrupted")
    outcome.print_error("The harness broke.")

    assert refused == ["interrupted\n", "The harness broke.\n"]


def test_bad_input_waits_for_nobody(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """``judge`` rejects a path that is no run folder without waiting for the host's benchmark."""

    def sharing_host(*_: object) -> None:
        raise AssertionError("it waited")

    monkeypatch.setattr(runs, "sharing_host", sharing_host)

    assert main(["judge", "/no/such/run"]) == 3
    assert "/no/such/run is no run folder" in capsys.readouterr().err


DOWN = """
import sys
import commands.upkeep
from commands.main import main
from commands.outcome import Outcome
commands.upkeep.stop_airflow = lambda: Outcome(0, ["every guarantee held \u2026"])
sys.exit(main(["down"]))
"""


def test_no_letter_keeps_a_verdict_from_being_told() -> None:
    """Characters that the terminal cannot show are escaped."""
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-c", DOWN]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, "every guarantee held \\u2026\n", "")


def test_all_files_are_utf_8_whatever_the_locale(tmp_path: Path) -> None:
    """Python's UTF-8 mode is on in a command and its children, in any locale."""
    note = "import os, pathlib, sys; pathlib.Path(os.environ['NOTE']).write_text(str(sys.flags.utf8_mode))"
    (tmp_path / "sitecustomize.py").write_text(note)
    told = {"PYTHONPATH": str(tmp_path), "NOTE": str(tmp_path / "note")}
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **told}  # Python takes C itself for UTF-8
    done = subprocess.run([ROOT / "plimsoll", "--help"], env=environment, capture_output=True, check=False)

    assert (done.returncode, (tmp_path / "note").read_text()) == (0, "1")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("arguments", ["scenarios", "scenarios --json", "--help"])
def test_a_closed_stream_changes_no_exit_code(closed: str, arguments: str) -> None:
    """A closed stream does not change the exit code."""
    line = f"{shlex.quote(sys.executable)} -m commands {arguments} {closed}"

    assert subprocess.run(["sh", "-c", line], capture_output=True, cwd=ROOT, check=False).returncode == 0


def test_a_closed_stream_is_no_file_of_ours(tmp_path: Path) -> None:
    """A closed stream is replaced, so that no opened file gets its number and a child's output."""
    program = f"""
import subprocess
from commands.main import main
main(["scenarios"])
with open({str(tmp_path / "kept")!r}, "w") as kept:
    subprocess.run(["echo", "from a child"], check=True)
"""
    command = f"{shlex.quote(sys.executable)} -c {shlex.quote(program)} >&-"

    assert subprocess.run(["sh", "-c", command], capture_output=True, cwd=ROOT, check=False).returncode == 0
    assert (tmp_path / "kept").read_text() == ""
