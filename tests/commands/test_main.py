"""The command line, without Airflow and Kafka."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from campaigns import kinds
from clusters.paths import ROOT, locked
from clusters.run import experiment
from clusters.scenario.scenario import scenario_names
from commands import outcome, runs
from commands.app import app
from commands.main import main, variables_of
from history.errors import BadInput, HarnessError, NotRemoved, WaitTimeout
from history.folder import RunFolder
from operators import airflow_home, spark_cluster

COMMANDS = {
    *("run", "judge", "import", "inspect", "scenarios", "sample"),
    *(kinds.of(name).command for name in kinds.names()),
    *("up", "down", "spark-cluster", "doctor", "archive", "clean"),
}
RUN = ["run", "steady", "--kafka", "3.9.1"]


@pytest.fixture(autouse=True)
def nothing_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Patches out the removal of other runs' leftovers."""
    monkeypatch.setattr(experiment, "reap", lambda **_: [])


# --- help ------------------------------------------------------------------------------------------


def help_of(*command: str) -> str:
    """Return the output of ``--help`` in one line."""
    ended = CliRunner(env={"COLUMNS": "100", "TERM": "dumb"}).invoke(app, [*command, "--help"])

    assert ended.exit_code == 0
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", ended.stdout).split())


def test_help_names_every_command_and_every_exit_code() -> None:
    """The help lists exactly the commands, and the exit codes."""
    text = help_of()

    assert (
        {name for name in COMMANDS if f" {name} " in text}
        == COMMANDS
        == {info.name for info in app.registered_commands}
    )
    assert "0 pass, 1 fail, 2 unknown, 3 bad input (nothing was started), 130 interrupted" in text


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_of_a_command_teaches(command: str) -> None:
    """A command's help has a sentence, its options, and ``--json``."""
    text = help_of(command)

    assert re.search(rf"Usage: plimsoll {command} .*\. ", text) or re.search(rf"Usage: root {command} .*\. ", text)
    assert "--json <bool> Print one JSON object at the end; progress goes to stderr." in text


def test_options_of_a_campaign_follow_from_its_declaration() -> None:
    """A campaign's options come from its declaration: help, choices, default and example."""
    text = help_of("compare")

    assert "--head HEAD The version that is judged, or a folder or tarball of jars, such as 3.1.2." in text
    assert "--pairs PAIRS Fresh clusters on each side; default: 10." in text
    assert "--view VIEW The settings: same_settings (on both sides), default_settings" in text
    assert "Examples: plimsoll compare --base 3.0.2 --head 3.1.2" in text


def test_scenarios_and_choices_are_completed() -> None:
    """The shell completes scenario names."""
    environment = {"COMP_WORDS": "plimsoll run follower", "COMP_CWORD": "2", "_PLIMSOLL_COMPLETE": "complete_bash"}
    done = subprocess.run([ROOT / "plimsoll"], env=environment, capture_output=True, text=True, check=False)

    assert done.stdout.split() == ["follower_lag_then_leader_kill"]


def test_the_command_is_this_checkouts_wherever_it_is_called(tmp_path: Path) -> None:
    """``plimsoll`` imports its own checkout's modules, not a folder of the same name in the working directory."""
    other = tmp_path / "commands"
    other.mkdir()
    (other / "__init__.py").write_text("raise SystemExit('another one')")

    done = subprocess.run([ROOT / "plimsoll", "--help"], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


def test_commands_are_quick_to_import() -> None:
    """Importing the commands does not import Airflow, Spark or plotting libraries."""
    modules = [f"commands.{file.stem}" for file in sorted((ROOT / "commands").glob("[a-z]*.py"))]
    heavy = {"airflow", "pyspark", "great_expectations", "pandas", "plotly", "scipy"}
    program = f"import sys, {', '.join(modules)}; print({heavy} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)

    assert done.stdout.strip() == "set()"


# --- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run", "stedy"], "There is no scenario 'stedy'; known: "),
        ([*RUN, "--runtime", "podman"], "Invalid value for '--runtime': 'podman' is not one of 'auto', 'docker'"),
        ([*RUN, "--rate", "fast"], "Invalid value for '--rate': Input should be a valid number"),
        ([*RUN, "--seed", "1.5"], "Invalid value for '--seed': Input should be a valid integer"),
        ([*RUN, "--rate", "-5"], "--rate=-5 is not a rate; give records per second above 0."),
        (["run", "--kafak", "3.9.1"], "No such option: --kafak (Possible options: --java, --kafka); see plimsoll run"),
        (["judge"], "Missing argument 'RUN'; see plimsoll judge --help."),
        (["soak", "--minutes", "0"], "--minutes=0 is refused: Input should be greater than 0"),
        (["fuzz", "--schedules", "0"], "--schedules=0 is refused: Input should be greater than or equal to 1"),
        (["fuzz", "--fault-mix", "/no/such/mix.yaml"], "The fault mix /no/such/mix.yaml cannot be read"),
        (["compare", "--base", "3.9.1"], "--head is missing: the version that is judged, or a folder or tarball of"),
        (["known-bugs", "--bugs", "13092"], "--bugs=13092 is refused: '13092' is no bug of the list"),
        (["wlak"], "No such command 'wlak'; see plimsoll --help."),
        (["dokter"], "No such command 'dokter'. Did you mean 'doctor'?; see plimsoll --help."),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bad input exits with 3 and one sentence on stderr, without a traceback or a run folder."""
    folder = tmp_path / "runs"
    code = main([*arguments, "--runs", str(folder)] if arguments[0] == "run" else arguments)
    out, err = capsys.readouterr()

    assert code == 3
    assert out == ""
    assert err.startswith(sentence)
    assert err.count("\n") == 1
    assert not folder.exists()


@pytest.mark.parametrize(("error", "code"), [(BadInput("No such Kafka."), 3), (HarnessError("No jars."), 2)])
def test_what_prepare_refuses_is_told_by_the_exit_code(
    error: Exception, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An error while preparing a run sets the exit code, and nothing is printed on stdout."""

    def prepare(*_: object, **__: object) -> Path:
        raise error

    monkeypatch.setattr(experiment, "prepare", prepare)

    assert main(RUN) == code
    assert capsys.readouterr() == ("", f"{error}\n")


def test_an_interrupt_has_its_own_code(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """An interrupt exits with 130, as in a shell."""

    def interrupted() -> list[str]:
        raise KeyboardInterrupt

    monkeypatch.setattr(runs, "scenario_names", interrupted)

    assert main(["scenarios"]) == 130
    assert capsys.readouterr() == ("", "")


def test_what_nobody_foresaw_violates_no_guarantee(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unexpected error or a broken pipe exits with 2, since 1 would mean a violated guarantee."""
    for error in (ZeroDivisionError("x"), BrokenPipeError(32, "Broken pipe"), SystemExit(1)):

        def broken(error: BaseException = error) -> list[str]:
            raise error

        monkeypatch.setattr(runs, "scenario_names", broken)

        assert main(["scenarios"]) == 2
        assert type(error).__name__ in capsys.readouterr().err


def test_what_cannot_be_imported_violates_no_guarantee(tmp_path: Path) -> None:
    """An import error exits with 2, not with 1."""
    (tmp_path / "typer.py").write_text("raise ImportError('half a package')")
    command = [sys.executable, "-m", "commands", "scenarios"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT, check=False)

    assert done.returncode == 2
    assert done.stderr.endswith("ImportError: half a package\n")


def test_what_other_runs_left_keeps_no_run_from_starting(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Leftovers of another run that cannot be removed are reported, and the run is still prepared."""

    def stuck(**_: object) -> list[str]:
        raise NotRemoved(["Waited 10 s for the processes of a-run to end."], [])

    def prepare(*_: object, **__: object) -> Path:
        raise BadInput("No such Kafka.")

    monkeypatch.setattr(experiment, "reap", stuck)
    monkeypatch.setattr(experiment, "prepare", prepare)

    assert main(RUN) == 3
    assert capsys.readouterr().err == (
        "warning: Not everything was removed. Waited 10 s for the processes of a-run to end.\nNo such Kafka.\n"
    )


# --- JSON ------------------------------------------------------------------------------------------


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
        "scenarios": {"steady": "Without a fault nothing is lost, duplicated or out of bounds."},
        "exit_code": 0,
    }
    assert ("from Python" in err, "from a child" in err) == (True, True)

    assert main([*RUN, "--rate", "fast", "--json"]) == 3
    refused = json.loads(capfd.readouterr().out)
    assert refused["exit_code"] == 3
    assert refused["error"].startswith("Invalid value for '--rate'")


def test_a_run_for_machines(tmp_path: Path) -> None:
    """The facts of a run are folder, verdict, sentence and page; without a verdict it is unknown and the rest null."""
    run = RunFolder(tmp_path)
    run.verdict.mkdir()
    unjudged = runs.facts_of(run)
    run.verdict_file.write_text(json.dumps({"verdict": "pass", "sentence": "Nothing was lost."}))
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "index.html").touch()

    assert unjudged == {"run": tmp_path, "verdict": "unknown", "sentence": None, "page": None}
    assert runs.facts_of(run) == {
        "run": tmp_path,
        "verdict": "pass",
        "sentence": "Nothing was lost.",
        "page": tmp_path / "report" / "index.html",
    }


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (json.dumps({"verdict": "fail"}), "fail"),
        (json.dumps({"verdict": "splendid"}), "unknown"),
        ("[]", "unknown"),
        ("{", "unknown"),
        (None, "unknown"),
    ],
)
def test_a_verdict_is_unknown_unless_the_judge_wrote_it(written: str | None, read: str, tmp_path: Path) -> None:
    """A missing, torn or invalid verdict file is unknown."""
    run = RunFolder(tmp_path)
    run.verdict.mkdir()
    if written:
        run.verdict_file.write_text(written)

    assert runs.verdict_of(run) == read


# --- make ------------------------------------------------------------------------------------------


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
        ("compare", {"BASE": "3.9.1"}, "--head is missing: the version that is judged, or a folder or tarball of"),
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
    assert told.err.startswith(f"Port {port} of 127.0.0.1 cannot be had")
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
    monkeypatch.setattr(airflow_home, "remove_leftovers", list)
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
        *("BUGS", "KAFKA", "MODE", "TRIES", "SETTINGS", "NAME", "SEED", "UPLOAD", "METRICS_PORT", "RUNS"),
        *("JSON", "JUNIT", "SUMMARY", "JAVA"),
    ]
    assert variables_of("walk") == {}


# --- small commands ----------------------------------------------------------------------------------


def test_scenarios_are_listed_with_their_reason(capsys: pytest.CaptureFixture[str]) -> None:
    """``scenarios`` lists each scenario with its reason on one line."""
    assert main(["scenarios"]) == 0
    lines = capsys.readouterr().out.splitlines()

    assert [line.split()[0] for line in lines] == scenario_names()
    assert re.search(r"^steady +Without a fault nothing is lost", "\n".join(lines), re.MULTILINE)


def test_the_archive_is_written_as_metrics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``archive --metrics`` writes a metrics file; a missing folder is rejected before anything is done."""
    (tmp_path / "runs").mkdir()
    given = ["archive", "--runs", str(tmp_path / "runs"), "--metrics"]

    assert main([*given, str(tmp_path / "none" / "x.prom")]) == 3
    assert f"--metrics={tmp_path}/none/x.prom: there is no folder {tmp_path}/none." in capsys.readouterr().err
    assert not (tmp_path / "site").exists()
    assert main([*given, str(tmp_path / "x.prom")]) == 0
    assert (tmp_path / "x.prom").read_text().endswith("# EOF\n")


@pytest.mark.parametrize(("arguments", "everything"), [(["clean"], False), (["clean", "--all"], True)])
def test_clean_spares_live_runs_unless_told_otherwise(
    arguments: list[str],
    everything: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """``clean`` spares live runs unless ``--all`` is given, and removes Airflow homes of ended commands."""
    calls: list[bool] = []
    monkeypatch.setattr(experiment, "reap", lambda *, all_runs: calls.append(all_runs) or ["old-run"])
    monkeypatch.setattr(spark_cluster, "remove_leftovers", lambda *, everything: calls.append(everything) or ["old"])
    monkeypatch.setattr(airflow_home, "HOMES", tmp_path)
    for name in ("gone", "live"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "lock").touch()
    with locked(tmp_path / "runs" / "live" / "lock"):
        assert main(arguments) == 0

    assert calls == [everything, everything]
    assert capsys.readouterr().out == "removed what was left of: gone/airflow, old-run, old\n"
    assert [home.name for home in (tmp_path / "runs").iterdir()] == ["live"]


def test_clean_goes_on_after_what_resists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If ``clean`` cannot remove one kind of leftovers, it removes the others, reports it and exits with an error."""

    def stuck(**_: object) -> list[str]:
        raise NotRemoved(["Waited 10 s for the processes of a-run to end."], ["b-run"])

    def broken() -> list[str]:
        raise WaitTimeout("Waited 10 s for the processes of a home to end.")

    monkeypatch.setattr(airflow_home, "remove_leftovers", broken)
    monkeypatch.setattr(experiment, "reap", stuck)
    monkeypatch.setattr(spark_cluster, "remove_leftovers", lambda **_: ["a-cluster"])
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "plimsoll-left").mkdir()
    (tmp_path / "plimsoll-left" / "lock").touch()

    assert main(["clean"]) == 2
    assert capsys.readouterr() == (
        "removed what was left of: b-run, a-cluster, plimsoll-left\n",
        "Not everything was removed. Waited 10 s for the processes of a home to end. "
        "Waited 10 s for the processes of a-run to end.\n",
    )


def test_a_spark_cluster_that_resists_keeps_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """If one Spark cluster cannot be removed, others are; one with running processes is removed only by --all."""
    names = [f"{spark_cluster.NAMESPACES}{name}-master" for name in ("alive0", "gone00", "stuck0")]

    def remove(namespaces: list[str]) -> list[str]:
        if "stuck0" in namespaces[0]:
            raise WaitTimeout("Waited 10 s for Spark's processes to end.")
        return namespaces

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(spark_cluster, "_namespaces", lambda: [names[2], names[1], names[0]])
    monkeypatch.setattr(spark_cluster, "_processes", lambda name: [7] if "alive0" in name else [])
    monkeypatch.setattr(spark_cluster, "_remove", remove)
    for everything, gone in ((False, ["gone00"]), (True, ["alive0", "gone00"])):
        with pytest.raises(NotRemoved, match="for Spark's processes to end") as error:
            spark_cluster.remove_leftovers(everything=everything)
        assert error.value.removed == [f"{spark_cluster.NAMESPACES}{name}" for name in gone]


@pytest.mark.parametrize(
    ("user", "command", "sentence"),
    [(1000, "/usr/sbin/ip", "needs root, for its network namespaces; use sudo"), (0, None, r"needs the command ip \(")],
)
def test_a_spark_cluster_is_refused_where_it_cannot_be(
    user: int,
    command: str | None,
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """``spark-cluster`` without root or iproute2 is rejected before anything starts."""
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(shutil, "which", lambda name: command)

    assert main(["spark-cluster"]) == 3
    assert re.search(sentence, capsys.readouterr().err)


# --- a closed terminal ---------------------------------------------------------------------------


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
    """``judge`` rejects a path that is no run folder without waiting for the host's benchmark lock."""

    def beside_others() -> None:
        raise AssertionError("it waited")

    monkeypatch.setattr("commands.runs.beside_others", beside_others)

    assert main(["judge", "/no/such/run"]) == 3
    assert "/no/such/run is no run folder" in capsys.readouterr().err


# --- locales and closed streams --------------------------------------------------------------------

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


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["qualify", "--from", "9", "--to", "3.9.1"], "--from=9 is not a version"),
        (["qualify", "--from=3.9.1", "--to=2.7.0"], "--to=2.7.0 is too old"),
        (["compare", "--base", "nowhere/x", "--head", "3.9.1"], "--base=nowhere/x: there is no such folder"),
        (["run", "steady", "--kafka", "9"], "--kafka=9 is not a version"),
    ],
)
def test_a_refused_version_is_named_by_the_option_that_was_used(
    given: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rejected version is named by the option that was used."""
    assert main(given) == 3
    assert says in capsys.readouterr().err
