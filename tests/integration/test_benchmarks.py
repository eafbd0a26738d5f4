"""Additions of benchmarks to a run on real brokers: resource limits, another rate, counters, broker metrics."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow.parquet as pq
import pytest

from clusters.live.world import World
from clusters.run import experiment
from clusters.runtimes.runtime import available
from history.events import Event, read_events
from history.folder import RunFolder

pytestmark = [pytest.mark.cluster, pytest.mark.docker]

SCENARIO = """
name: benchmark_for_tests
why: Small brokers that tell of themselves, of which one is killed.
cluster:
  brokers: 3
  session_timeout: 6s
  jvm: production
  metrics: true
  resource_limits: {cpus: 0.5, network: 2MB/s}
topics:
  orders: {partitions: 1, replicas: [A, B, C], config: {min.insync.replicas: 2}}
load: {topic: orders, rate: 100/s, engine: confluent-kafka}
phases:
  - killed:
      - set_rate: 400/s
      - hold: 2s
      - kill: B
      - start: B
      - wait: {for: {isr_full: orders}, limit: 60s}
      - elect: preferred
      - require: {steady_state: true}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunFolder]:
    """A run after its one phase, with its cluster still running."""
    scenario = tmp_path_factory.mktemp("scenario") / "benchmark.yaml"
    scenario.write_text(SCENARIO)
    folder = experiment.prepare(
        str(scenario), kafka="3.9.1", runtime="docker", runs=tmp_path_factory.mktemp("runs"), lease="process"
    )
    with experiment.hold_lease(folder):
        try:
            experiment.start_cluster(folder)
            experiment.create_topics(folder)
            experiment.start_clients(folder)
            experiment.run_phase(folder, 0)
            experiment.stop_producers(folder)
            yield RunFolder(folder)
        finally:
            experiment.tear_down(folder)


def _events(run: RunFolder, kind: str) -> list[Event]:
    return [event for event in read_events(run.events) if event.kind == kind]


def test_the_kernel_holds_every_broker_to_its_resource_limits(run: RunFolder) -> None:
    """Every broker has its limits from start to end of the load, also after a restart; then the quota is lifted."""
    given = [event for event in _events(run, "resource_limits") if event.detail["when"] == "given"]
    ended = [event for event in _events(run, "resource_limits") if event.detail["when"] != "given"]

    assert [event.target for event in given] == ["broker-1", "broker-2", "broker-3", "broker-2"]
    assert {event.detail["kernel"]["cpu_quota"] for event in [*given, *ended]} == {"10000 20000"}
    assert all("htb 1:1 root rate 16Mbit" in event.detail["kernel"]["network"] for event in [*given, *ended])
    assert sum(event.detail["kernel"]["cpu_throttled_periods"] for event in ended) > 0
    with World.open(run.path) as world:
        limits = available(world.runtime.resource_limits, "resource limits")
        assert "10000" not in limits.in_effect(world.servers.brokers[1])["cpu_quota"]


def test_another_rate_holds_within_the_run(run: RunFolder) -> None:
    """The producer records when another rate starts, and its preferred leaders lead again at the end."""
    (offered,) = _events(run, "rate_set")
    (elected,) = _events(run, "elected")

    assert offered.detail["rate_per_s"] == 400
    assert offered.detail["from_ns"] < offered.t_ns
    assert elected.detail["refused"] is None


def test_whether_it_is_steady_is_read_off_what_producers_record(run: RunFolder) -> None:
    """The steady state is derived from the producers' records; after a kill and a short time it is not reached."""
    (looked,) = _events(run, "precondition")

    assert looked.detail["met"] is False
    assert "s more of load are needed" in looked.detail["why"] or "no steady state: " in looked.detail["why"]


def test_what_was_used_grows_through_a_restart(run: RunFolder) -> None:
    """Each broker's counters of CPU time, bytes and requests continue after a kill and a restart."""
    rows = pq.read_table(run.table("usage")).to_pylist()
    values = {(row["label"], row["source"], row["name"]): row["value"] for row in rows}

    for broker in ("broker-1", "broker-2", "broker-3"):
        for name in ("cpu_ns", "network_out_bytes", "disk_write_bytes", "request_count{FetchFollower}", "gc_count"):
            assert values["killed", broker, name] >= values["killed: start", broker, name], name
        assert values["killed", broker, "memory_peak_bytes"] > 100_000_000
    assert values["killed", "broker-1", "request_total_ms{Produce}"] > 0
    assert values["killed", "host", "busy_ns"] > values["killed: start", "host", "busy_ns"]
