"""Airflow homes and their environment."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from clusters.paths import locked
from history.errors import NotRemoved
from operators import airflow_home


def test_the_environment_is_the_project_s_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The environment drops another Airflow's settings, and keeps its connections and PYTHONPATH."""
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", "/elsewhere")
    monkeypatch.setenv("AIRFLOW__CORE__PARALLELISM_X", "9")
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", "spark://far:7077")
    monkeypatch.setenv("PYTHONPATH", "/mine")
    made = airflow_home.environment(tmp_path, PLIMSOLL_SCENARIO="steady")

    assert made["AIRFLOW__CORE__DAGS_FOLDER"] == str(airflow_home.ROOT / "dags")
    assert "AIRFLOW__CORE__PARALLELISM_X" not in made
    assert made["AIRFLOW_CONN_SPARK_DEFAULT"] == "spark://far:7077"
    assert made["PYTHONPATH"] == f"{airflow_home.ROOT}{os.pathsep}/mine"
    assert (made["AIRFLOW_HOME"], made["PLIMSOLL_SCENARIO"]) == (str(tmp_path), "steady")


def test_a_home_is_a_copy_whose_paths_are_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A home is a copy of a template that is migrated once, with its own paths; an existing home is not changed."""
    migrated: list[Path] = []

    def migrate(home: Path) -> None:
        migrated.append(home)
        (home / "airflow.cfg").write_text(f"sql_alchemy_conn = sqlite:///{home}/airflow.db\n")
        (home / "airflow.db").write_text("empty")

    monkeypatch.setattr(airflow_home, "HOMES", tmp_path / "cache")
    monkeypatch.setattr(airflow_home, "migrate", migrate)
    first, second = (airflow_home.make_home(tmp_path / name) for name in ("first", "second"))
    (first / "airflow.db").write_text("used")
    airflow_home.make_home(first)

    assert len(migrated) == 1
    assert (second / "airflow.cfg").read_text() == f"sql_alchemy_conn = sqlite:///{second}/airflow.db\n"
    assert (first / "airflow.db").read_text() == "used"
    assert (second / "airflow.cfg").stat().st_mode & 0o077 == 0


def test_a_home_whose_making_broke_off_is_made_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A home whose creation was interrupted is created again."""
    template = tmp_path / "template"
    template.mkdir()
    for name in ("airflow.cfg", "airflow.db"):
        (template / name).write_text(f"whole {name}")
    monkeypatch.setattr(airflow_home, "_template", lambda: template)
    copy, home = airflow_home.shutil.copy2, tmp_path / "home"

    def broken(_source: Path, target: Path) -> None:
        target.write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr(airflow_home.shutil, "copy2", broken)
    with pytest.raises(KeyboardInterrupt):
        airflow_home.make_home(home)
    monkeypatch.setattr(airflow_home.shutil, "copy2", copy)
    airflow_home.make_home(home)

    assert (home / "airflow.db").read_text() == "whole airflow.db"
    assert sorted(file.name for file in home.iterdir()) == ["airflow.cfg", "airflow.db"]


def test_what_outlived_its_command_goes_with_its_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An Airflow whose command was killed is killed with its home; that of a live command is not."""
    monkeypatch.setattr(airflow_home, "HOMES", tmp_path)
    homes = [tmp_path / "runs" / name for name in ("gone", "live")]
    with locked(homes[0] / "lock"):
        pass  # the command has ended
    with locked(homes[1] / "lock"):
        sleepers = [subprocess.Popen(["sleep", "60"], env=airflow_home.environment(home)) for home in homes]
        try:
            removed = airflow_home.remove_leftovers()
            ended = [sleeper.poll() for sleeper in sleepers]
        finally:
            for sleeper in sleepers:
                sleeper.kill()
                sleeper.wait()

    assert removed == ["gone/airflow"]
    assert ended == [-9, None]
    assert [home.exists() for home in homes] == [False, True]


def test_a_home_that_cannot_be_removed_keeps_no_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A home that cannot be removed is named, and the others are removed."""
    monkeypatch.setattr(airflow_home, "HOMES", tmp_path)
    (tmp_path / "runs" / "a" / "lock").mkdir(parents=True)  # no lock can be taken
    with locked(tmp_path / "runs" / "b" / "lock"):
        pass  # the command has ended

    with pytest.raises(NotRemoved, match="runs/a/lock") as error:
        airflow_home.remove_leftovers()
    assert error.value.removed == ["b/airflow"]
