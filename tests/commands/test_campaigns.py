"""The command of a campaign, with Airflow's part patched: its output and exit code."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from campaigns.campaign import CampaignFolder
from campaigns.rounds import item_run_id
from clusters.run import experiment
from commands import campaigns
from commands.main import main
from history.errors import BadInput
from service.api import NAMED, Address, Airflow

FUZZ = ["fuzz", "--schedules", "2", "--seconds", "20", "--runtime", "process", "--name", "f"]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for runs; fetching, starting Airflow and cleaning up are patched out."""
    monkeypatch.setattr(campaigns, "used", lambda *_: nullcontext(Address("http://127.0.0.1:1", home=tmp_path)))
    monkeypatch.setattr(Airflow, "check", lambda *_, **__: None)
    monkeypatch.setattr(Airflow, "state", lambda *_: "")  # of another round
    monkeypatch.setattr(experiment, "check", lambda *_, **__: None)
    monkeypatch.setattr(experiment, "reap", lambda **_: [])
    return tmp_path / "runs"


def ends(monkeypatch: pytest.MonkeyPatch, succeeded: bool, **result: Any) -> None:
    """Let the campaign's DAG write this result, if any."""

    def run_dag(_airflow: Airflow, _dag_id: str, conf: dict[str, str], **_: Any) -> bool:
        assert conf["runs"].endswith("/runs")
        if result:
            CampaignFolder(Path(conf["campaign"])).result.write_text(json.dumps(result))
        return succeeded

    monkeypatch.setattr(campaigns, "run_dag", run_dag)


@pytest.mark.parametrize(("state", "code"), [("pass", 0), ("fail", 1), ("unknown", 2), ("", 0)])
def test_a_campaign_ends_with_its_state(
    state: str, code: int, runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A campaign ends with its state, also if its task failed."""
    ends(monkeypatch, state != "fail", state=state, sentence="So it is.", lines=["one line"])
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
    assert said.err == ""


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
        f"{runs.parent}/logs/dag_id=fuzz/run_id=f-"
    )
    assert (told["exit_code"], told["state"]) == (2, "unknown")


def test_an_airflow_that_does_not_answer_leaves_no_campaign(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A named Airflow that does not fit is rejected before anything is planned."""

    def check(_airflow: Airflow, dag_id: str, **_: str) -> None:
        raise BadInput(f"No DAG {dag_id}.")

    monkeypatch.setattr(Airflow, "check", check)
    monkeypatch.setenv(NAMED, "")  # the option sets it

    assert main([*FUZZ, "--runs", str(runs), "--airflow", "http://127.0.0.1:1"]) == 3
    assert capsys.readouterr().err == "No DAG fuzz.\n"
    assert not (runs.parent / "site").exists()


def test_how_to_record_is_no_setting(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of runs at once goes to the DAG; a resumed campaign may have another one, or none."""
    confs: list[dict[str, Any]] = []
    monkeypatch.setattr(campaigns, "run_dag", lambda _airflow, _dag_id, conf, **_: confs.append(conf) or True)

    for options in (["--at-once", "2"], []):
        main([*FUZZ, *options, "--runs", str(runs)])
    assert [conf["at_once"] for conf in confs] == [2, None]
    assert {"upload"} & confs[0].keys() == set()
    assert main(["compare", "--at-once", "2"]) == 3


def test_an_interrupt_ends_the_campaign_then_its_runs(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupted campaign ends before its own runs, which it would record again; leftovers are removed last."""
    ended: list[object] = []

    def run_dag(*_: object, **__: object) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(campaigns, "run_dag", run_dag)
    monkeypatch.setattr(campaigns, "end_run", lambda _airflow, dag_id, *_: ended.append(dag_id))
    monkeypatch.setattr(campaigns, "end_all", lambda _airflow, _progress, prefix: ended.append(prefix))
    monkeypatch.setattr(experiment, "reap", lambda **_: ended.append("reaped") or [])

    assert main([*FUZZ, "--runs", str(runs)]) == 130
    assert ended == ["fuzz", item_run_id(CampaignFolder(runs.parent / "site" / "fuzz" / "f")), "reaped"]
