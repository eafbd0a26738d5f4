"""Commands that clean up and list."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

import pytest

from clusters.run import experiment
from commands.main import main
from history.errors import NotRemoved, WaitTimeout
from service import airflow, spark_cluster


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
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """``clean`` spares live runs unless ``--all`` is given, and removes Airflows of ended commands."""
    calls: list[bool] = []
    monkeypatch.setattr(experiment, "reap", lambda *, all_runs: calls.append(all_runs) or ["old-run"])
    monkeypatch.setattr(spark_cluster, "remove_leftovers", lambda *, everything: calls.append(everything) or ["old"])
    monkeypatch.setattr(airflow, "end_unused", lambda **_: ["airflow"])
    assert main(arguments) == 0

    assert calls == [everything, everything]
    assert capsys.readouterr().out == "removed what was left of: airflow, old-run, old\n"


def test_clean_goes_on_after_what_resists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If ``clean`` cannot remove one kind of leftovers, it removes the others, reports it and exits with an error."""

    def stuck(**_: object) -> list[str]:
        raise NotRemoved(["Waited 10 s for the processes of a-run to end."], ["b-run"])

    def broken(**_: object) -> list[str]:
        raise WaitTimeout("Waited 10 s for the processes of a home to end.")

    monkeypatch.setattr(airflow, "end_unused", broken)
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
    [(1000, "/usr/sbin/ip", "needs root for its network namespaces; use sudo"), (0, None, r"needs the command ip \(")],
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
