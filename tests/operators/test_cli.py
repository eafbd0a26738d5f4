"""The command line; no Airflow and no Kafka is started."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from clusters import experiment
from clusters.paths import locked
from clusters.scenario import scenario_names
from history.errors import BadInput, HarnessError
from history.folder import RunFolder
from operators import airflow_home, cli

RUN = ["run", "--scenario", "steady", "--kafka", "3.9.1"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run", "--scenario", "stedy", "--kafka", "3.9.1"], "There is no scenario 'stedy'; known: "),
        ([*RUN, "--runtime", "podman"], "Argument --runtime: invalid choice: 'podman'"),
        ([*RUN, "--rate", "fast"], "Argument --rate: invalid float value: 'fast'"),
        ([*RUN, "--seed", "1.5"], "Argument --seed: invalid int value: '1.5'"),
        (["run", "--kafka", "3.9.1"], "The following arguments are required: --scenario"),
        (["soak", "--kafka", "3.9.1", "--minutes", "0"], "MINUTES=0 is no length of a schedule"),
        (["hunt", "--kafka", "3.9.1", "--schedules", "0"], "N=0 schedules of 90 s are no hunt"),
        (["hunt", "--kafka", "3.9.1", "--menu", "/no/such/menu.yaml"], "The menu /no/such/menu.yaml cannot be read"),
        (["known_bugs", "--bugs", "13092"], "The known bugs cannot be planned: bugs: '13092' is no bug"),
        (["walk"], "Argument command: invalid choice: 'walk'"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 3, nothing on stdout, no traceback, nothing left behind."""
    folder = tmp_path / "runs"
    code = cli.main([*arguments, "--runs", str(folder)] if arguments[0] == "run" else arguments)
    said = capsys.readouterr()

    assert code == 3
    assert said.out == ""
    assert said.err.startswith(sentence)
    assert said.err.count("\n") == 1
    assert not folder.exists()


@pytest.mark.parametrize(("error", "code"), [(BadInput("No such Kafka."), 3), (HarnessError("No jars."), 2)])
def test_what_prepare_refuses_is_told_by_the_exit_code(
    error: Exception, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing was started, so that there is no run to name."""

    def prepare(*_: object, **__: object) -> Path:
        raise error

    monkeypatch.setattr(experiment, "prepare", prepare)

    assert cli.main(RUN) == code
    assert capsys.readouterr() == ("", f"{error}\n")


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (json.dumps({"verdict": "fail"}), "fail"),
        (json.dumps({"verdict": "splendid"}), "unknown"),
        ("{", "unknown"),
        (None, "unknown"),
    ],
)
def test_a_verdict_is_unknown_unless_the_judge_wrote_it(written: str | None, read: str, tmp_path: Path) -> None:
    """Missing, torn or foreign: unknown, never pass."""
    run = RunFolder(tmp_path)
    run.verdict.mkdir()
    if written:
        run.verdict_file.write_text(written)

    assert cli.read_verdict(run) == read


def test_scenarios_are_listed_with_their_reason(capsys: pytest.CaptureFixture[str]) -> None:
    """One line each."""
    assert cli.main(["scenarios"]) == 0
    lines = capsys.readouterr().out.splitlines()

    assert [line.split()[0] for line in lines] == scenario_names()
    assert re.search(r"^steady +Without a fault nothing is lost", "\n".join(lines), re.MULTILINE)


@pytest.mark.parametrize(("arguments", "everything"), [(["clean"], False), (["clean", "--all"], True)])
def test_clean_spares_live_runs_unless_told_otherwise(
    arguments: list[str],
    everything: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Homes of commands that are gone go, too."""
    asked: list[bool] = []
    monkeypatch.setattr(experiment, "reap", lambda *, all_runs: asked.append(all_runs) or ["old-run"])
    monkeypatch.setattr(airflow_home, "HOMES", tmp_path)
    for name in ("gone", "live"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "lock").touch()
    with locked(tmp_path / "runs" / "live" / "lock"):
        assert cli.main(arguments) == 0

    assert asked == [everything]
    assert capsys.readouterr().out == "removed what was left of: gone/airflow, old-run\n"
    assert [home.name for home in (tmp_path / "runs").iterdir()] == ["live"]


# --- a closed terminal ---------------------------------------------------------------------------


@pytest.fixture
def hang_up() -> Iterator[None]:
    """What SIGHUP does is as before after the test."""
    before = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hang_up", "capsys")
def test_a_closed_terminal_is_an_interrupt() -> None:
    """Once, however often it is told: what was started is being removed by then. Under nohup it means nothing."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    cli.main(["scenarios"])
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN

    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    cli.main(["scenarios"])
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGHUP)
    signal.raise_signal(signal.SIGHUP)


def test_what_nobody_foresaw_is_no_broken_promise(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python's own exit code would say that records were lost; what broke is told all the same."""
    monkeypatch.setattr(cli, "scenario_names", lambda: 1 / 0)

    assert cli.main(["scenarios"]) == 2
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_nobody_has_to_read_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that is gone refuses every word; that keeps nothing from being removed."""

    def gone(_: str) -> None:
        raise OSError(5, "Input/output error")

    for name in ("stdout", "stderr"):
        monkeypatch.setattr(cli.sys, name, SimpleNamespace(write=gone))
    cli._say("interrupted")
    cli._complain("The harness broke.")
