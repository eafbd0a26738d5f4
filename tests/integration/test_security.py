"""A secured cluster: access, the cost of a killed leader, and the places without secrets."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil
import pyarrow.parquet as pq
import pytest

from campaigns.places import Places
from campaigns.site import publish
from clusters.kafka.access import Access
from clusters.kafka.connection import Connection, transport_error_name
from clusters.kafka.properties import read_properties, render
from clusters.kafka.views import metadata
from clusters.live.reports import WORLD
from clusters.live.world import World
from clusters.run.leftovers import hold_lease
from clusters.run.prepare import prepare
from clusters.run.recorder import perform, salvage
from clusters.run.stages import stages
from clusters.runtimes.process import processes_of
from history.folder import RunFolder
from spark.submit import judge

pytestmark = [pytest.mark.cluster, pytest.mark.pipeline]

SECURED = """
name: secured_failover
why: A leader is killed, and everybody talks by TLS and logs in.
cluster: {brokers: 3, session_timeout: 6s, security: {tls: mutual, sasl: SCRAM-SHA-512}}
topics: {orders: {partitions: 1, replicas: [A, B, C], config: {min.insync.replicas: 2}}}
load: {topic: orders, rate: 300/s}
phases:
  - leader dies:
      - kill: leader of orders-0
      - wait: {for: {leader_changed: orders}, limit: 30s}
      - start: leader of orders-0
      - wait: {for: {isr_full: orders}, limit: 60s}
"""


class Recorded(NamedTuple):
    """A recorded run: its secrets, each stranger's error, and its nodes' command lines and environments."""

    run: Path
    secrets: list[str]
    refusals: dict[str, str | None]
    nodes: set[str]


def recorded(where: Path) -> Recorded:
    """Record the run, with each stage in turn."""
    scenario = where / "secured.yaml"
    scenario.write_text(SECURED)
    run = prepare(str(scenario), kafka="3.9.1", runtime="process", runs=where / "runs", lease="process")
    with World.open(run) as world, hold_lease(run):
        first, *others = [stage for stage in stages(world.scenario) if stage.role in ("start", "setup", "work")]
        try:
            perform(run, first)
            folder = run / "work" / "security"
            secrets = [(folder / "password").read_text(), *keys(folder)]
            refusals = {name: error(world, access) for name, access in strangers(world, where).items()}
            nodes = {*told_to_nodes(run)}
            for stage in others:
                perform(run, stage)
                nodes |= {*told_to_nodes(run)}
        finally:
            salvage(run)
    return Recorded(run, secrets, refusals, nodes)


def test_a_secured_run_passes_and_keeps_no_secret(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A run with SCRAM over mutual TLS rejects strangers, has every check judged, and leaks no secret.

    No file, page, archive row, output or log (a task's log in Airflow) has a secret, nor a node's command line or
    environment.
    """
    caplog.set_level(logging.INFO)
    run, secrets, refusals, nodes = recorded(tmp_path)
    code = judge([run])
    publish(run)
    printed = [*capfd.readouterr(), caplog.text]

    assert refusals["a friend"] is None
    assert [name for name, refusal in refusals.items() if refusal is None] == ["a friend"]
    assert code == 0, [
        file.read_text()[-8_000:] for file in (run / "verdict/verdict.json", run / "clients/producer.log")
    ] + printed
    verdict = json.loads((run / "verdict" / "verdict.json").read_text())
    unknown = [name for name, found in verdict["invariants"].items() if found["verdict"] == "unknown"]
    assert unknown == []
    assert len(secrets) > 8
    places = Places.beside(run.parent)
    files = [file for place in (run, places.archive, places.site) for file in place.rglob("*") if file.is_file()]
    assert [str(file.relative_to(tmp_path)) for file in files if any_in(secrets, file)] == []
    assert {run / "report" / "index.html", places.archive / f"{run.name}.parquet"} <= {*files}
    assert [text for text in (*nodes, *printed) if any(secret in text for secret in secrets)] == []
    assert {"broker-1", "producer"} <= nodes  # their names, in their environments
    assert f"run: {run}" in printed[0]  # by the judge
    there = f"/{RunFolder(run).work.name}/security:password}}"
    assert any_in([there], RunFolder(run).manifest)  # the search sees what is there


def keys(folder: Path) -> Iterator[str]:
    """Yield every line of every private key."""
    for file in folder.glob("*.pem"):
        key = file.read_text().partition("-----BEGIN PRIVATE KEY-----\n")[2].partition("-----END")[0]
        yield from key.splitlines()


def told_to_nodes(run: Path) -> Iterator[str]:
    """Yield the arguments and environments of a run's nodes that do not end meanwhile."""
    for process in processes_of(run):
        with suppress(psutil.Error):
            yield from (*process.cmdline(), *process.environ().values())


def any_in(texts: list[str], file: Path) -> bool:
    """Return whether a file, or any column of a table, contains one of the texts."""
    content = str(pq.read_table(file).to_pylist()).encode() if file.suffix == ".parquet" else file.read_bytes()
    return any(text.encode() in content for text in texts)


def strangers(world: World, empty: Path) -> dict[str, Access | None]:
    """Return a valid access, and others that lack one part of it each."""
    friend = world.access(WORLD)
    assert friend is not None
    settings = read_properties(friend.path)
    password = f"${{directory:{friend.path.parent}:password}}"
    others = {
        "without a certificate": {name: text for name, text in settings.items() if "keystore" not in name},
        "without a log-in": settings | {"security.protocol": "SSL"},
        "with a wrong password": {name: text.replace(password, "guessed") for name, text in settings.items()},
    }
    found = {"a friend": friend, "plaintext": None}
    for number, (name, changed) in enumerate(others.items()):
        file = empty / f"stranger-{number}.properties"
        file.write_text(render(changed))
        found[name] = Access(file)
    return found


def error(world: World, access: Access | None) -> str | None:
    """Return the error that every listener of a broker answers, None if access is granted."""
    broker = world.servers.brokers[1]
    told = set()
    for listener in ("CLIENT", "REPLICATION", "PROBE"):
        with Connection(*broker.endpoints[listener], 5.0, access=access) as connection:
            try:
                metadata(connection, [])
            except OSError as refused:
                told.add(transport_error_name(refused))
            else:
                told.add(None)
    (found,) = told
    return found
