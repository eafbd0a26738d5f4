"""Plans of runs, on clusters that are made and on those of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters.attached.cluster_file import ClusterFile
from clusters.live.plan import AttachedBroker, AttachedCluster, Plan, read_plan
from clusters.runtimes.ports import Endpoint
from history.errors import EvidenceError, HarnessError
from history.folder import RunFolder
from tests.clusters.fakes import A_JAVA, plan_of, scenario

MADE = plan_of(scenario([{"hold": 1}]))
ATTACHED = Plan(
    scenario=MADE.scenario,
    java=A_JAVA,
    seed=7,
    cluster=AttachedCluster(
        cluster_id="kMqF",
        scenario_digest="d",
        mode="kraft",
        brokers={1: AttachedBroker(host="b-1", port=9092, rack="r", settings={"broker.id": "1"})},
        id_prefix="plimsoll-5a3e-",
        description=ClusterFile(bootstrap=[Endpoint("b-1", 9092)]),
    ),
)


@pytest.mark.parametrize("plan", [MADE, ATTACHED])
def test_a_plan_survives_its_file(tmp_path: Path, plan: Plan) -> None:
    """A plan that is read from its file is equal to the one that was written."""
    folder = RunFolder(tmp_path)
    folder.work.mkdir()
    plan.write(folder)

    assert read_plan(folder) == plan


def test_a_cluster_is_made_or_attached() -> None:
    """A made cluster runs where it was asked to; clients of another cluster are local processes."""
    assert (MADE.runtime, MADE.mode, MADE.made.build.version, MADE.attached) == ("process", "kraft", "3.9.1", None)

    assert (ATTACHED.runtime, ATTACHED.mode, ATTACHED.kafka_version) == ("process", "kraft", "unknown")
    assert ATTACHED.attached
    with pytest.raises(HarnessError, match="The cluster kMqF is not started by Plimsoll"):
        _ = ATTACHED.made


@pytest.mark.parametrize("text", [None, "{", '{"cluster": {"kind": "other"}}'])
def test_a_folder_without_a_plan_is_no_run(tmp_path: Path, text: str | None) -> None:
    """A folder whose plan is missing or unreadable is rejected."""
    folder = RunFolder(tmp_path)
    folder.work.mkdir()
    if text:
        (folder.work / "plan.json").write_text(text)

    with pytest.raises(EvidenceError, match="is no run that is under way; start a new one with `make run`"):
        read_plan(folder)
