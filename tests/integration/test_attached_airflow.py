"""Runs on a cluster that an Airflow connection describes, triggered as a DAG with parameters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from clusters.waiting import wait_until
from history.events import read_events
from history.folder import RunFolder
from service.airflow import own_home, used
from service.api import ACTIVE, Airflow
from service.stages import ANY_SCENARIO, RESOLVE
from tests.own_cluster import OwnCluster
from tests.own_runs import KILL_LEADER, OTHERS, described, scenario, shared

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnCluster]:
    """Three brokers with a topic of others."""
    with shared(tmp_path_factory.mktemp("own")) as started:
        yield started


def connection(cluster: OwnCluster, folder: Path, password: str) -> str:
    """Return a connection with librdkafka's settings and the hooks of a cluster file."""
    entries = yaml.safe_load(described(cluster, folder).read_text())
    del entries["client"]
    entries["bootstrap.servers"] = ",".join(entries.pop("bootstrap"))
    extra = {**entries, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "SCRAM-SHA-512"}
    return json.dumps({"conn_type": "kafka", "login": "ann", "password": password, "extra": extra})


def end_of(airflow: Airflow, named: str, folder: Path) -> str:
    """Trigger a run on the cluster of this name, and return its last state."""
    played = yaml.safe_load(scenario(folder, *KILL_LEADER, hold="3s").read_text())
    with airflow.unpaused(ANY_SCENARIO):
        conf = {"scenario": played, "cluster": named, "runs": str(folder / "runs")}
        airflow.trigger(ANY_SCENARIO, conf, named)

        def last() -> str:
            state = airflow.state(ANY_SCENARIO, named)
            return "" if state in ACTIVE else state

        return str(wait_until(last, limit_s=500, what=f"the run on {named} to end"))


def test_a_connection_describes_the_cluster_of_a_run(
    cluster: OwnCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hook kills a leader and the run passes; a wrong connection is refused. No file has a password."""
    (case := tmp_path / "case").mkdir()
    monkeypatch.setenv("AIRFLOW_CONN_STAGING", connection(cluster, case, "ann-secret"))
    monkeypatch.setenv("AIRFLOW_CONN_WRONG", connection(cluster, case, "another-secret"))
    monkeypatch.setenv("PLIMSOLL_SERVICE", str(tmp_path / "airflow"))
    with used(print) as address:
        airflow = Airflow(address)
        airflow.check(ANY_SCENARIO)
        for named, sentence in (
            ("production", "The connection production is not defined; name one of type kafka, or an absolute path."),
            ("wrong", "rejects the login"),
        ):
            assert end_of(airflow, named, tmp_path) == "failed"
            assert sentence in log_of(airflow, named)
            assert not (tmp_path / "runs").exists()
        assert end_of(airflow, "staging", tmp_path) == "success", airflow.tasks(ANY_SCENARIO, "staging")

    (run,) = (tmp_path / "runs").iterdir()
    assert json.loads(RunFolder(run).verdict_file.read_text())["verdict"] == "pass"
    kinds = {(event.kind, event.detail.get("effect_verified")) for event in read_events(RunFolder(run).events)}
    assert ("injected", True) in kinds
    assert cluster.topics() == OTHERS
    files = [file for part in (run, own_home() / "logs") for file in part.rglob("*") if file.is_file()]
    assert [file for file in files if b"-secret" in file.read_bytes()] == []


def log_of(airflow: Airflow, run_id: str) -> str:
    """Return the log of the task that checks the request."""
    folder = Path(airflow.log(ANY_SCENARIO, run_id)) / f"task_id={RESOLVE.name}"
    return "".join(file.read_text() for file in sorted(folder.rglob("*.log")))
