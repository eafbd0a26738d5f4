"""Campaigns on clusters that the product did not start, by the commands."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
import yaml

from clusters.attached.neighbours import under_replicated
from clusters.kafka.connection import Connection
from clusters.kafka.jars import kafka_jars
from clusters.kafka.views import metadata
from clusters.waiting import wait_until
from history import archive
from history.events import read_events
from history.kafka_versions import CLIENT_RELEASES, DEFAULT_RELEASE
from tests.own_cluster import OwnCluster, own_cluster
from tests.own_runs import described, hooks_of, plimsoll, recorded, scenario, shared, verdict_of

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnCluster]:
    """Three brokers with a topic of others."""
    with shared(tmp_path_factory.mktemp("own")) as started:
        yield started


def test_one_cluster_is_compared_with_itself_under_another_load(cluster: OwnCluster, tmp_path: Path) -> None:
    """The page names the cluster; what others wrote is a metric of each run."""
    played = scenario(tmp_path, hold="8s")
    settings = tmp_path / "compare.yaml"
    base = {"cluster": str(described(cluster, tmp_path, user="admin")), "name": "staging"}
    primary = {"latency_p50_ms@load": 0.5}
    asked = {"base": base, "change": {"load": {"linger": "20ms"}}, "scenarios": [str(played)], "primary": primary}
    settings.write_text(yaml.safe_dump(asked | {"pairs": 2, "aa_pairs": 2}))
    process = plimsoll("compare", "--settings", str(settings), "--name", "c1", "--runs", str(tmp_path / "runs"))
    cluster.produce("payments", 500)
    printed, errors = process.communicate(timeout=1200)

    assert process.returncode in (0, 1, 2), errors
    found = json.loads((tmp_path / "site" / "compare" / "c1" / "result.json").read_text())
    assert (found["runs"]["recorded"], found["refusals"]) == (8, []), printed + errors
    assert {run["verdict"] for run in found["runs"]["each"]} == {"pass"}
    assert found["sides"]["base"]["cluster"] == found["sides"]["head"]["cluster"] != ""
    assert found["sides"]["head"]["name"] == "staging with load.linger 20ms"
    (effect,) = [each for each in found["effects"] if each["role"] == "primary"]
    assert effect["head"] is None or effect["head"] > effect["base"], effect  # None: the brokers' CPU is this host's
    rows = archive.read(tmp_path / "archive")
    assert {row["jvm"] for row in rows} == {""}
    assert any("Others wrote records meanwhile" in each for each in found["further"]), found["further"]


def test_the_hook_upgrade_restarts_each_broker(cluster: OwnCluster, tmp_path: Path) -> None:
    """One after the other, and the run passes."""
    file = described(cluster, tmp_path, {"upgrade": "bounce"}, allow=["upgrade"])
    run, why = recorded(file, scenario(tmp_path, {"await_upgrade": "3m"}, {"hold": "2s"}))

    assert (why, verdict_of(run)["verdict"]) == ("", "pass")
    assert hooks_of(run) == [("upgrade", f"broker-{number}") for number in (1, 2, 3)]


def test_a_cluster_that_its_owner_upgrades_is_qualified(tmp_path: Path) -> None:
    """The command says when, the owner replaces a release by the next one broker by broker, and the answer is go."""
    before = next(release for release in CLIENT_RELEASES if release < DEFAULT_RELEASE)
    with own_cluster(tmp_path, before) as cluster:
        (case := tmp_path / "case").mkdir()
        words = ["--cluster", str(described(cluster, case)), "--scenario", str(scenario(case))]
        words += ["--scenarios", str(scenario(case, hold="3s")), "--tries", "1", "--pairs", "0"]
        process = plimsoll("qualify", *words, "--name", "q1", "--runs", str(case / "runs"))
        said: list[str] = []
        for line in process.stdout or ():
            said.append(line)
            if "YOUR TURN" in line:
                Thread(target=_upgrade, args=(cluster,), daemon=True).start()
        errors = process.communicate(timeout=60)[1]

    assert process.returncode == 0, "".join(said) + errors
    found = json.loads((case / "site" / "qualify" / "q1" / "result.json").read_text())
    assert found["verdict"] == "go"
    assert sum("YOUR TURN: upgrade the 3 brokers now" in line for line in said) == 1
    (run,) = [path for path in (case / "runs").iterdir() if _label(path, "question") == "upgrade"]
    away = [event.target for event in read_events(run / "events.jsonl") if event.kind == "inject"]
    assert away == ["broker-1", "broker-2", "broker-3"]


def _label(run: Path, name: str) -> str:
    return str(json.loads((run / "manifest.json").read_text())["labels"][name])


def _upgrade(cluster: OwnCluster) -> None:
    """Replace the binaries as an operator would: stop a broker, start it with the new jars, wait for its replicas."""
    cluster.jars = kafka_jars(DEFAULT_RELEASE)
    for number in cluster.ports:
        cluster.send(number, signal.SIGTERM)
        cluster.processes[number].wait()
        cluster.start_broker(number)
        cluster.wait_for_all()
        wait_until(lambda: _is_whole(cluster), limit_s=60, what="every replica to be in its ISR", ignoring=(OSError,))


def _is_whole(cluster: OwnCluster) -> bool:
    port = next(iter(cluster.ports.values()))
    with Connection("localhost", port, 5.0) as connection:
        return not under_replicated(metadata(connection, None).partitions)
