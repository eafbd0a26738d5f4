"""DAGs from a Git repository: a run uses the commit of its start, and the grid shows versions."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from clusters.paths import CACHE, ROOT
from clusters.waiting import wait_until
from history.folder import RunFolder
from service.airflow import ADDRESS, free_port, url_of
from service.airflow_home import airflow, environment, make_home
from tests.acceptance.under_airflow import ENDED, Rest

pytestmark = [pytest.mark.slow, pytest.mark.workers]

DAG = "steady"


class Bed(NamedTuple):
    """An Airflow that reads DAGs from a bare repository, and a clone to commit in."""

    rest: Rest
    clone: Path
    runs: Path

    def commit(self, scenario_why: str) -> str:
        """Change the scenario's purpose, push it, and return the commit."""
        scenario = self.clone / "scenarios" / f"{DAG}.yaml"
        scenario.write_text(re.sub("(?m)^why:.*$", f"why: {scenario_why}", scenario.read_text()))
        git(self.clone, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qam", scenario_why)
        git(self.clone, "push", "-q", "origin", "HEAD:main")
        return git(self.clone, "rev-parse", "HEAD")

    def wait_for(self, commit: str) -> None:
        wait_until(lambda: commit in self.versions(), limit_s=180, every_s=1, what="the DAG's version of the commit")

    def versions(self) -> list[str]:
        with suppress(OSError):
            return [each["bundle_version"] for each in self.rest.ask(f"dags/{DAG}/dagVersions")["dag_versions"]]
        return []


def git(folder: Path, *words: str) -> str:
    """Return the output of git."""
    return subprocess.run(["git", "-C", folder, *words], check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    """An Airflow that does not have the checkout on its path; the triggerer, which loads no bundle, has it."""
    bare, clone, home, port = tmp_path / "bare.git", tmp_path / "clone", tmp_path / "home", free_port()
    git(ROOT, "clone", "-q", "--bare", str(ROOT), str(bare))
    git(ROOT, "push", "-q", str(bare), "+HEAD:refs/heads/main")
    git(ROOT, "clone", "-q", "--branch", "main", str(bare), str(clone))
    bundle = {"repo_url": str(bare), "tracking_ref": "main", "refresh_interval": 5, "prune_dotgit_folder": False}
    of_git = {"name": "plimsoll", "classpath": "airflow.providers.git.bundles.git.GitDagBundle", "kwargs": bundle}
    url = url_of(port)
    own = environment(
        make_home(home),
        AIRFLOW__API__BASE_URL=url,
        AIRFLOW__API__HOST=ADDRESS,
        AIRFLOW__API__PORT=str(port),
        AIRFLOW__CORE__EXECUTION_API_SERVER_URL=f"{url}/execution/",
        AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST=json.dumps([of_git]),
        AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_STORAGE_PATH=str(tmp_path / "bundles"),
        PLIMSOLL_CACHE=str(CACHE),
        PLIMSOLL_RUNS=str(tmp_path / "runs"),
    )
    from_bundle = {name: value for name, value in own.items() if name != "PYTHONPATH"}
    components = {"api-server": from_bundle, "scheduler": from_bundle, "dag-processor": from_bundle, "triggerer": own}
    with (tmp_path / "log").open("w") as log:
        started = [
            subprocess.Popen(airflow(name), env=environment, cwd=tmp_path, stdout=log, stderr=log)
            for name, environment in components.items()
        ]
    try:
        yield Bed(Rest(url), clone, tmp_path / "runs")
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait()


def test_a_run_has_the_version_of_its_commit(bed: Bed) -> None:
    """Each commit that changes the DAG is a version; a run records with the code of its own, and says so."""
    first = bed.commit("The first purpose.")
    bed.wait_for(first)
    conf = {"runtime": "process", "seed": 7}
    bed.rest.ask(f"dags/{DAG}/dagRuns", {"dag_run_id": "a-run", "logical_date": None, "conf": conf})
    second = bed.commit("The second purpose.")

    def ended() -> dict[str, Any] | None:
        with suppress(OSError):
            found: dict[str, Any] = bed.rest.ask(f"dags/{DAG}/dagRuns/a-run")
            return found if found["state"] in ENDED else None
        return None

    dag_run = wait_until(ended, limit_s=600, every_s=1, what="the run to end")
    bed.wait_for(second)
    (manifest,) = bed.runs.glob("*/manifest.json")
    recorded = json.loads(manifest.read_text())

    assert dag_run["state"] == "success"
    assert {each["bundle_version"] for each in dag_run["dag_versions"]} == {first}
    assert (recorded["scenario"]["why"], recorded["plimsoll"]["commit"]) == ("The first purpose.", first)
    assert json.loads(RunFolder(manifest.parent).verdict_file.read_text())["verdict"] == "pass"
