"""The command of a campaign, with Airflow's part patched: its output and exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from campaigns import kinds
from campaigns.campaign import CampaignFolder
from clusters.run import experiment
from commands import campaigns
from commands.main import main
from operators import airflow_home

FUZZ = ["fuzz", "--schedules", "2", "--seconds", "20", "--runtime", "process", "--name", "f"]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for runs; fetching, migrating an Airflow home and cleaning up are patched out."""

    def make_home(home: Path) -> Path:
        home.mkdir(parents=True, exist_ok=True)
        return home

    monkeypatch.setattr(airflow_home, "HOMES", tmp_path / "homes")
    monkeypatch.setattr(airflow_home, "make_home", make_home)
    monkeypatch.setattr(experiment, "check", lambda *_, **__: None)
    monkeypatch.setattr(experiment, "reap", lambda **_: [])
    return tmp_path / "runs"


def ends(monkeypatch: pytest.MonkeyPatch, succeeded: bool, **result: Any) -> None:
    """Let the campaign's DAG write this result, if any."""

    def run_dag(_dag_id: str, conf: dict[str, str], **_: Any) -> bool:
        if result:
            CampaignFolder(Path(conf["campaign"])).result.write_text(json.dumps(result))
        return succeeded

    monkeypatch.setattr(campaigns, "run_dag", run_dag)


@pytest.mark.parametrize(("state", "code"), [("pass", 0), ("fail", 1), ("unknown", 2), ("", 0)])
def test_a_campaign_ends_with_its_state(
    state: str, code: int, runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A campaign ends with its state, also if its task failed; its Airflow home is removed."""
    ends(monkeypatch, state != "fail", state=state, sentence="So it is.", lines=["one line"])
    monkeypatch.setattr("campaigns.fuzz.search.search", lambda *_: [])
    page = runs.parent / "site" / "fuzz" / "f" / "index.html"

    assert main([*FUZZ, "--runs", str(runs)]) == code
    said = capsys.readouterr()
    assert said.out.splitlines()[-5:] == [
        f"campaign: {page.parent}",
        "one line",
        "So it is.",
        f"page: {page}",
        f"state: {state or 'none'}",
    ]
    assert (said.err, list((runs.parent / "homes" / "runs").iterdir())) == ("", [])


def test_a_campaign_that_broke_off_says_how_to_go_on(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A campaign without a result shows the command that continues it; an older result does not count."""
    ends(monkeypatch, succeeded=True, state="pass", sentence="So it was.")
    assert main([*FUZZ, "--runs", str(runs)]) == 0
    ends(monkeypatch, succeeded=False)
    capsys.readouterr()

    assert main([*FUZZ, "--runs", str(runs), "--json"]) == 2
    told = json.loads(capsys.readouterr().out)
    assert told["error"].startswith(
        "The campaign came to no result.\nA task failed. The same command with --name=f goes on; Airflow's log: "
    )
    assert (told["exit_code"], told["state"]) == (2, "unknown")


def test_a_violation_is_shrunk(runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """After a failed fuzz campaign the violation is shrunk, and the result is printed before the last two lines."""
    given: list[Any] = []

    def search(_folder: CampaignFolder, options: dict[str, Any], *_: Any) -> list[str]:
        given.append(options["shrink_runs"])
        return ["shrunk: 18 steps to 7"]

    ends(monkeypatch, succeeded=False, state="fail", sentence="1 of 2 schedules violated a guarantee.")
    monkeypatch.setattr("campaigns.fuzz.search.search", search)

    assert main([*FUZZ, "--shrink-runs", "5", "--runs", str(runs)]) == 1
    assert given == [5]
    assert capsys.readouterr().out.splitlines()[-3] == "shrunk: 18 steps to 7"
    assert [name for name in kinds.names() if kinds.of(name).search] == ["bisect", "fuzz"]
