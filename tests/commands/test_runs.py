"""Commands on single runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from clusters.run import experiment
from clusters.scenario.scenario import scenario_names
from commands import runs
from commands.main import main
from history.errors import BadInput, NotRemoved
from history.folder import RunFolder

RUN = ["run", "steady", "--kafka", "3.9.1"]


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


def test_an_airflow_that_does_not_start_leaves_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If Airflow does not fit, the prepared run's folder is removed."""

    def prepare(*_: object, **__: object) -> Path:
        (tmp_path / "r1" / "work").mkdir(parents=True)
        return tmp_path / "r1"

    def used(_: object) -> None:
        raise BadInput("It was started with another PLIMSOLL_JAVA.")

    monkeypatch.setattr(experiment, "prepare", prepare)
    monkeypatch.setattr(runs, "used", used)

    assert main(RUN) == 3
    assert capsys.readouterr().err == "It was started with another PLIMSOLL_JAVA.\n"
    assert list(tmp_path.iterdir()) == []


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


def test_scenarios_are_listed_with_their_reason(capsys: pytest.CaptureFixture[str]) -> None:
    """``scenarios`` lists each scenario with its reason on one line."""
    assert main(["scenarios"]) == 0
    lines = capsys.readouterr().out.splitlines()

    assert [line.split()[0] for line in lines] == scenario_names()
    assert re.search(r"^steady +Without faults no record may be lost", "\n".join(lines), re.MULTILINE)
