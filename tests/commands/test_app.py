"""Help, completion and bad input of every command."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from campaigns import kinds
from clusters.paths import ROOT
from clusters.run import experiment
from commands import runs
from commands.app import app
from commands.main import main
from history.errors import BadInput, HarnessError

COMMANDS = {
    *("run", "judge", "import", "inspect", "scenarios", "sample"),
    *(kinds.of(name).command for name in kinds.names()),
    *("up", "down", "spark-cluster", "doctor", "archive", "clean", "watch"),
}
RUN = ["run", "steady", "--kafka", "3.9.1"]


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

    assert "--head HEAD The version to test: a release, or a folder or tarball of jars, such as 3.1.2." in text
    assert "--pairs PAIRS Pairs of runs, one of base and one of head; default: 10." in text
    assert "that both sides sustain on this host (measured first), such as 0.5; default: the scenario's rate." in text
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
        (
            ["compare", "--base", "3.9.1"],
            "--head is missing: the version to test: a release, or a folder or tarball of",
        ),
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
