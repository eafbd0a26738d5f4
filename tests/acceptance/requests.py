"""Count on the wire what commands send to a cluster of others, for docs/own-cluster-safety.md; takes four minutes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import yaml

from clusters.run.leftovers import end_lease
from clusters.waiting import wait_until
from history.events import Event, read_events
from history.kafka_versions import DEFAULT_RELEASE
from tests.own_cluster import OwnCluster, free_port, own_cluster
from tests.rows import DATA, ROOT, Row, today, write
from tests.wire_proxy import CONSUMER, Request, WireProxy, wire_proxy

RESULTS = DATA / "requests.json"
BROKERS = 3
WATCHED_S, EDGE_S, LIMIT_S = 30, 5, 400
DEBUGGING = -2
READER = "plimsoll-watch"
SECOND_NS = 1_000_000_000
RUN_TOKEN = re.compile(r"^plimsoll-[0-9a-f]{4}-")
SCENARIO: dict[str, Any] = {
    "name": "counted",
    "why": "Count the requests of a run.",
    "cluster": {"brokers": BROKERS},
    "topics": {"orders": {"partitions": 3, "replicas": ["A", "B", "C"], "config": {"min.insync.replicas": 2}}},
    "load": {"topic": "orders", "rate": 200, "record_bytes": 200},
    "phases": [
        {"load": [{"hold": "20s"}]},
        {
            "fault": [
                {"kill": "leader of orders-0"},
                {"wait": {"for": {"leader_changed": "orders"}, "limit": "30s"}},
                {"start": "leader of orders-0"},
                {"wait": {"for": {"isr_full": "orders"}, "limit": "60s"}},
            ]
        },
    ],
}


class Counted(NamedTuple):
    """Brokers behind proxies, and the file that describes them."""

    cluster: OwnCluster
    proxy: WireProxy
    file: Path
    folder: Path

    def command(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command on the cluster, whose requests alone are noted from now on."""
        self.proxy.requests.clear()
        line = [str(ROOT / "plimsoll"), *arguments, "--cluster", str(self.file), "--json"]
        return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)

    def requests(self, *arguments: str) -> list[Request]:
        """Return what a command has sent, which ended with success."""
        process = self.command(*arguments)
        printed, said = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 0, printed[-2000:] + said
        return self._noted()

    def _noted(self) -> list[Request]:
        assert not self.proxy.errors, self.proxy.errors
        return list(self.proxy.requests)

    def watch(self, seconds: int) -> list[Request]:
        """Return the requests of a watch of a topic."""
        runs = str(self.folder / "watched")
        return self.requests("watch", "orders", "--seconds", str(seconds), "--runs", runs)


@contextmanager
def counted_cluster(folder: Path) -> Iterator[Counted]:
    """Start brokers with a topic behind proxies."""
    ports = {number: free_port() for number in range(1, BROKERS + 1)}
    with (
        wire_proxy(ports) as proxy,
        own_cluster(folder, DEFAULT_RELEASE, ports=ports, advertised=proxy.ports) as cluster,
    ):
        cluster.create_topic("orders", 3)
        cluster.produce("orders", 300)
        hooks = {
            name: {"run": [sys.executable, str(ROOT / "tests" / "hook.py"), str(folder), name, "{broker}"]}
            for name in ("kill", "start")
        }
        file = folder / "mine.yaml"
        file.write_text(yaml.safe_dump({"bootstrap": cluster.bootstrap, "hooks": hooks, "allow": ["kill"]}))
        yield Counted(cluster, proxy, file, folder)


# --- the three commands ------------------------------------------------------------------------


def _run(counted: Counted, name: str) -> tuple[str, ...]:
    (counted.folder / "counted.yaml").write_text(yaml.safe_dump(SCENARIO))
    return "run", str(counted.folder / "counted.yaml"), "--runs", str(counted.folder / name)


def _events(counted: Counted, name: str) -> list[Event]:
    return [event for path in (counted.folder / name).glob("*/events.jsonl") for event in read_events(path)]


def _load_phase(events: Iterable[Event]) -> tuple[int, int]:
    times = {event.kind: event.t_ns for event in events if event.phase == "load"}
    return times["phase_started"] + EDGE_S * SECOND_NS, times["phase_ended"]


def _crash(counted: Counted) -> None:
    """Kill a run during its first phase, with its tasks and clients."""
    process = counted.command(*_run(counted, "crashed"))
    began = ("phase_started", "load")
    wait_until(
        lambda: any((event.kind, event.phase) == began for event in _events(counted, "crashed")),
        limit_s=LIMIT_S,
        what="the first phase",
    )
    command = psutil.Process(process.pid)
    tree = [command, *command.children(recursive=True)]
    for each in tree:
        each.kill()
    psutil.wait_procs(tree)
    for run in (counted.folder / "crashed").iterdir():
        end_lease(run)  # else it is spared for half an hour


# --- rows --------------------------------------------------------------------------------------


def sent(request: Request) -> tuple[str, str]:
    """Return a request's name and client id, without the digits of its run."""
    return request.name, RUN_TOKEN.sub("plimsoll-…-", request.client_id or "")


def rows(command: str, requests: Sequence[Request], steady: tuple[int, int] | None = None) -> list[Row]:
    """Return a row for each request and client id; rates are those between two times."""
    began, ended = steady or (0, 0)
    counts = Counter(map(sent, requests))
    within = Counter(sent(request) for request in requests if began <= request.at_ns < ended)
    broker_seconds = BROKERS * (ended - began) / SECOND_NS
    return [
        {
            "command": command,
            "request": name,
            "client_id": client_id,
            "count": count,
            "per_s_and_broker": round(within[name, client_id] / broker_seconds, 2) if steady else None,
            "date": today(),
        }
        for (name, client_id), count in sorted(counts.items())
    ]


def replica_ids(requests: Iterable[Request]) -> set[int]:
    """Return the ids of brokers that requests carry in place of a consumer's."""
    return {each.replica_id for each in requests if each.replica_id is not None} - {CONSUMER, DEBUGGING}


def record(folder: Path) -> list[Row]:
    """Return the rows of all commands."""
    with counted_cluster(folder) as counted:
        watched = counted.watch(WATCHED_S)
        times = [request.at_ns for request in watched]
        ran = counted.requests(*_run(counted, "ran"))
        steady = _load_phase(_events(counted, "ran"))
        _crash(counted)
        both = counted.requests("clean")
        cleaned = [each for each in both if each.client_id == READER]  # clients of the killed run go on for a while
        assert counted.cluster.topics() == {"orders", "plimsoll-registry"}
    assert not replica_ids([*watched, *ran, *cleaned])
    around = EDGE_S * SECOND_NS
    return [
        *rows("watch", watched, (min(times) + around, max(times) - around)),
        *rows("run", ran, steady),
        *rows("clean", cleaned),
    ]


def main(_: Sequence[str]) -> int:
    """Record all rows anew."""
    with tempfile.TemporaryDirectory(prefix="plimsoll-requests-") as folder:
        found = record(Path(folder))
    write(RESULTS, found)
    print(json.dumps(Counter(row["command"] for row in found)))
    return 0
