"""Runs on clusters that the product did not start, through the commands, as a person would."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import ACLOperation

from history.events import read_events
from history.exit_codes import BAD_INPUT
from history.folder import RunFolder
from history.kafka_versions import CLIENT_RELEASES
from tests.own_cluster import OwnCluster, own_cluster
from tests.own_runs import (
    KILL_LEADER,
    OTHERS,
    OWN,
    cleaned,
    described,
    on,
    recorded,
    result,
    scenario,
    shared,
    verdict_of,
)

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnCluster]:
    """Three brokers with a topic of others."""
    with shared(tmp_path_factory.mktemp("own")) as started:
        yield started


def test_a_leader_is_killed_by_a_hook_and_the_run_passes(cluster: OwnCluster, tmp_path: Path) -> None:
    """The verdict names its evidence; the topics and their registry entries are gone afterwards."""
    file, played = described(cluster, tmp_path), scenario(tmp_path, *KILL_LEADER, hold="3s")
    code, facts, errors = result("run", str(played), "--cluster", str(file), "--runs", str(tmp_path / "runs"))
    assert (code, facts.get("verdict")) == (0, "pass"), errors + str(facts)
    assert "from clients and the offsets of every replica" in facts["sentence"]
    run = RunFolder(Path(facts["run"]))
    kinds = {(event.kind, event.detail.get("effect_verified")) for event in read_events(run.events)}
    assert ("injected", True) in kinds
    assert cluster.topics() == OTHERS
    assert cleaned(file) == []


def test_a_broker_that_comes_back_by_itself_passes(cluster: OwnCluster, tmp_path: Path) -> None:
    """No hook starts it; the verdict says that somebody else did."""
    file = described(cluster, tmp_path, {"kill": "bounce"}, down="restarts_itself")
    leader = "leader of orders-0"
    run, why = recorded(file, scenario(tmp_path, {"kill": leader}, {"hold": "2s"}, {"start": leader}))
    verdict = verdict_of(run)
    assert (why, verdict["verdict"]) == ("", "pass"), verdict
    assert any("came back by itself" in reason for reason in verdict["reasons"]), verdict["reasons"]
    assert cluster.topics() == OTHERS


@pytest.mark.slow
def test_a_leader_is_killed_in_zookeeper_mode(tmp_path: Path) -> None:
    """The oldest release, without security."""
    with own_cluster(tmp_path, CLIENT_RELEASES[-1]) as cluster:
        (case := tmp_path / "case").mkdir()
        run, why = recorded(described(cluster, case), scenario(case, *KILL_LEADER))
        verdict = verdict_of(run)
        assert (why, verdict["verdict"]) == ("", "pass"), verdict
        assert cluster.topics() == {"plimsoll-registry"}


def test_a_password_in_the_environment_is_in_no_run_folder(
    cluster: OwnCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients get it from their environment; the user is in a file."""
    file = described(cluster, tmp_path)
    client = tmp_path / "client.properties"
    (tmp_path / "names").write_text("user=ann\n")
    client.write_text(
        client.read_text().replace("ann-secret", "${env:ANN_PASSWORD}").replace('"ann"', '"${file:names:user}"')
    )
    monkeypatch.setenv("ANN_PASSWORD", "ann-secret")
    run, why = recorded(file, scenario(tmp_path))
    assert (why, verdict_of(run)["verdict"]) == ("", "pass")
    assert [path for path in run.path.rglob("*") if path.is_file() and b"ann-secret" in path.read_bytes()] == []


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("right", [right for right in OWN if right != "DESCRIBE"])
def test_a_missing_right_is_named_with_the_command_that_grants_it(
    cluster: OwnCluster, tmp_path: Path, right: str
) -> None:
    """Nothing remains of the topics; READ implies DESCRIBE."""
    prefix = f"no-{right.lower().replace('_', '-')}-"
    for operation in OWN:
        if operation != right:
            cluster.allow("ann", ACLOperation[operation], prefix, prefixed=True)
    file = described(cluster, tmp_path, topics={"prefix": prefix})
    _, why = recorded(file, scenario(tmp_path))
    assert "kafka-acls.sh" in why
    assert f"--operation {right.title().replace('_', '')} " in why
    assert f"--resource-pattern-type prefixed --topic {prefix}" in why
    assert {topic for topic in cluster.topics() if topic.startswith(prefix)} <= {f"{prefix}registry"}


def refused(file: Path, played: Path) -> str:
    """Return the sentence with which a run and a dry run are refused; nothing is written."""
    outcomes = [on(file, played, *options) for options in ((), ("--dry-run",))]
    assert [outcome.code for outcome in outcomes] == [BAD_INPUT, BAD_INPUT], outcomes
    assert outcomes[0].error == outcomes[1].error
    assert not list((file.parent / "runs").glob("*"))
    return outcomes[0].error


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ({"bootstrap": ["localhost:1"]}, "The cluster cannot be reached. localhost:"),
        ({"hooks": {}, "allow": []}, "has the step kill, which needs kill, start; add hooks.kill, hooks.start to "),
        ({"allow": []}, "does not permit the fault kill: name it under allow."),
        ({"caps": {"duration": "1s"}}, "above caps.duration of 1 s"),
    ],
)
def test_what_the_cluster_file_lacks_is_named(
    cluster: OwnCluster, tmp_path: Path, entries: dict[str, Any], says: str
) -> None:
    """A run and a dry run end with the same sentence."""
    assert says in refused(described(cluster, tmp_path, **entries), scenario(tmp_path, *KILL_LEADER))
    assert cluster.topics() >= OTHERS - {"plimsoll-registry"}


def test_a_step_that_no_hook_performs_is_refused(cluster: OwnCluster, tmp_path: Path) -> None:
    """No hook reads a broker's files."""
    sentence = refused(described(cluster, tmp_path), scenario(tmp_path, {"lag": {"node": "C", "records": 9}}))
    assert "has the step lag, which needs files; no hook provides that" in sentence


def test_a_wrong_password_is_refused(cluster: OwnCluster, tmp_path: Path) -> None:
    """The sentence says which broker rejects the login."""
    file = described(cluster, tmp_path)
    wrong = cluster.login("ann", "wrong")
    (tmp_path / "client.properties").write_text("".join(f"{name}={value}\n" for name, value in wrong.items()))
    assert "rejects the login" in refused(file, scenario(tmp_path))
