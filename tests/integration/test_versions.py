"""Every minor line of Kafka once, in each mode that it has: it starts, acknowledges, and ends with HW = LEO."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from clusters.kafka.servers import ELR, PROTOCOL_VERSION
from clusters.run import experiment
from clusters.run.recorder import record
from history.events import read_events
from history.folder import RunFolder
from history.kafka_versions import CLIENT_RELEASES, DEFAULT_RELEASE, FEATURES, Version
from history.manifest import read_manifest
from history.tables import RECORDED

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

STEADY = """
name: steady_for_tests
why: A short steady load.
cluster: {brokers: 3%s}
topics: {orders: {partitions: 1, replicas: [A, B, C], config: {min.insync.replicas: 2}}}
load: {topic: orders, rate: 200/s}
phases:
  - steady: [{hold: 2s}]
"""
NEWEST_FIRST = (DEFAULT_RELEASE, *CLIENT_RELEASES)


def cells(release: str) -> list[str]:
    """The settings of the clusters that a version can have."""
    version = Version.parse(release)
    found = ["mode: zookeeper"] if version in FEATURES["zookeeper"] else []
    if version in FEATURES["elr"]:
        return [*found, "mode: kraft, elr: false", "mode: kraft, elr: true"]
    return [*found, "mode: kraft"] if version in FEATURES["kraft"] else found


CELLS = [(release, cluster) for release in NEWEST_FIRST for cluster in cells(release)]


@pytest.mark.parametrize(("kafka", "cluster"), CELLS)
def test_every_line_starts_and_keeps_what_it_acknowledges(tmp_path: Path, kafka: str, cluster: str) -> None:
    """The brokers report their version and features; all records are acknowledged; in the end HW = LEO everywhere."""
    scenario = tmp_path / "steady.yaml"
    scenario.write_text(STEADY % f", {cluster}")
    run = experiment.prepare(str(scenario), kafka=kafka, runs=tmp_path / "runs", lease="process", seed=1)
    record(run)

    folder = RunFolder(run)
    manifest = read_manifest(folder.manifest)
    assert (manifest.kafka_version, manifest.mode) == (kafka, cluster.partition(",")[0].removeprefix("mode: "))
    minor = kafka.rpartition(".")[0]
    finalised = PROTOCOL_VERSION if manifest.mode == "zookeeper" else "metadata.version"
    assert manifest.features[finalised].startswith(f"{minor}-IV")
    assert manifest.features.get(ELR, "0") == ("1" if "elr: true" in cluster else "0")
    for node in manifest.brokers:
        log = (folder.brokers / node.name / "server.log").read_text()
        assert set(re.findall(r"Kafka version: (\S+)", log)) == {kafka}

    sends = pq.read_table(folder.table("sends"), schema=RECORDED["sends"])
    outcomes = Counter(sends["outcome"].to_pylist())  # fail: due as the load ended, and never sent
    assert outcomes["ok"] > 300
    assert outcomes.keys() <= {"ok", "fail"}
    assert [event.kind for event in read_events(folder.events) if event.step == "quiesce"] == ["quiesced"]
    ends = pq.read_table(folder.table("offsets"), schema=RECORDED["offsets"])
    ends = ends.filter(pc.equal(ends["capture"], "after")).to_pylist()
    assert {(end["high_watermark"], end["log_end_offset"]) for end in ends} == {(outcomes["ok"], outcomes["ok"])}
    assert len(ends) == 3
