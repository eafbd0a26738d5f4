"""Airflow homes and their environment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from service import airflow_home


def test_the_environment_is_the_project_s_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The environment drops another Airflow's settings, and keeps its connections, metrics and PYTHONPATH."""
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", "/elsewhere")
    monkeypatch.setenv("AIRFLOW__CORE__PARALLELISM_X", "9")
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", "spark://far:7077")
    monkeypatch.setenv("AIRFLOW__METRICS__OTEL_ON", "True")
    monkeypatch.setenv("PYTHONPATH", "/mine")
    made = airflow_home.environment(tmp_path, PLIMSOLL_RUNS="steady")

    assert made["AIRFLOW__CORE__DAGS_FOLDER"] == str(airflow_home.ROOT / "dags")
    assert "AIRFLOW__CORE__PARALLELISM_X" not in made
    assert made["AIRFLOW__METRICS__OTEL_ON"] == "True"
    assert made["AIRFLOW_CONN_SPARK_DEFAULT"] == "spark://far:7077"
    assert made["PYTHONPATH"] == f"{airflow_home.ROOT}{os.pathsep}/mine"
    assert (made["AIRFLOW_HOME"], made["PLIMSOLL_RUNS"]) == (str(tmp_path), "steady")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The calls of a fake Airflow, whose database is empty."""
    found: list[str] = []

    def run(home: Path, _variables: object, *words: str) -> None:
        found.append(" ".join([home.name, *words[:2]]))
        (home / "airflow.cfg").write_text(f"sql_alchemy_conn = sqlite:///{home}/airflow.db\n")
        (home / "airflow.db").touch()

    monkeypatch.setattr(airflow_home, "HOMES", tmp_path / "cache")
    monkeypatch.setattr(airflow_home, "_run", run)
    return found


def test_a_home_is_a_copy_whose_paths_are_its_own(calls: list[str], tmp_path: Path) -> None:
    """A home is a copy of a template that is made once, with its own paths; an existing home is not changed."""
    first, second = (airflow_home.make_home(tmp_path / name) for name in ("first", "second"))
    (first / "mine").touch()
    airflow_home.make_home(first)

    assert [call.partition(" ")[2] for call in calls] == ["db migrate", "pools set", "pools set", "dags reserialize"]
    assert (second / "airflow.cfg").read_text() == f"sql_alchemy_conn = sqlite:///{second}/airflow.db\n"
    assert (first / "mine").exists()
    assert (second / "airflow.cfg").stat().st_mode & 0o077 == 0


def test_a_home_follows_the_sources_and_the_release(
    calls: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Changed DAGs are serialized anew; another release of Airflow migrates the database, too."""
    home = airflow_home.make_home(tmp_path / "home")
    calls.clear()
    monkeypatch.setattr(airflow_home, "_digest_of_sources", lambda: "another")
    airflow_home.make_home(home)
    assert calls == ["home dags reserialize"]

    monkeypatch.setattr(airflow_home, "version", lambda _: "99")
    airflow_home.make_home(home)
    assert calls[1:] == ["home db migrate", "home pools set", "home pools set", "home dags reserialize"]


def test_a_home_whose_making_broke_off_is_made_again(
    calls: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A home whose creation was interrupted is created again."""
    copy, home = airflow_home.shutil.copy2, tmp_path / "home"

    def broken(_source: Path, target: Path) -> None:
        target.write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr(airflow_home.shutil, "copy2", broken)
    with pytest.raises(KeyboardInterrupt):
        airflow_home.make_home(home)
    monkeypatch.setattr(airflow_home.shutil, "copy2", copy)
    airflow_home.make_home(home)

    assert (home / "airflow.db").read_text() == ""
    assert sorted(file.name for file in home.iterdir()) == ["airflow.cfg", "airflow.db", "prepared"]
