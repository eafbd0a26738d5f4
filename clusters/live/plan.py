"""A run's plan: the resolved request, and a cluster that Plimsoll makes or that somebody else runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from clusters.attached.cluster_file import ClusterFile
from clusters.kafka.builds import Build
from clusters.scenario.scenario import Scenario
from history.errors import EvidenceError, HarnessError
from history.folder import RunFolder, write_atomically
from history.java import Java
from history.kafka_versions import Mode

PLAN = "plan.json"  # in work/


class _Planned(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class MadeCluster(_Planned):
    """A cluster that Plimsoll starts; ``builds`` are upgrade targets by their name in the scenario."""

    kind: Literal["made"] = "made"
    kafka_version: str
    jars: Path
    origin: str | None = None
    builds: dict[str, Build] = Field(default_factory=dict)
    agent: Path | None = None
    mode: Mode
    runtime: Literal["docker", "process"]
    subnet: str | None = None

    @property
    def build(self) -> Build:
        """Return the build that every server has at first."""
        return Build(version=self.kafka_version, jars=self.jars, origin=self.origin)


class AttachedBroker(_Planned):
    """A broker that somebody else runs, at the address that clients use."""

    host: str
    port: int
    rack: str | None = None
    settings: dict[str, str] = Field(default_factory=dict)


class AttachedCluster(_Planned):
    """A cluster that somebody else runs.

    ``scenario_digest`` is that of the scenario as written. ``id_prefix`` precedes ids of clients, groups and
    transactions.
    """

    kind: Literal["attached"] = "attached"
    cluster_id: str
    scenario_digest: str
    mode: Mode
    kafka_version: str = "unknown"
    brokers: dict[int, AttachedBroker]
    id_prefix: str
    description: ClusterFile


class Plan(_Planned):
    """The resolved request for a run; ``clients`` maps a load to the release of its VerifiableProducer."""

    scenario: Scenario
    java: Java
    clients: dict[str, Build] = Field(default_factory=dict)
    seed: int
    labels: dict[str, str] = Field(default_factory=dict)
    cluster: Annotated[MadeCluster | AttachedCluster, Field(discriminator="kind")]

    @property
    def mode(self) -> Mode:
        return self.cluster.mode

    @property
    def kafka_version(self) -> str:
        return self.cluster.kafka_version

    @property
    def runtime(self) -> Literal["docker", "process"]:
        return self.cluster.runtime if isinstance(self.cluster, MadeCluster) else "process"

    @property
    def id_prefix(self) -> str:
        return self.attached.id_prefix if self.attached else ""

    @property
    def made(self) -> MadeCluster:
        """Return the cluster; raise HarnessError if somebody else runs it."""
        if isinstance(self.cluster, MadeCluster):
            return self.cluster
        raise HarnessError(f"The cluster {self.cluster.cluster_id} is not started by Plimsoll.")

    @property
    def attached(self) -> AttachedCluster | None:
        return self.cluster if isinstance(self.cluster, AttachedCluster) else None

    @property
    def foreign(self) -> AttachedCluster:
        """Return the cluster; raise HarnessError if Plimsoll starts it."""
        if isinstance(self.cluster, AttachedCluster):
            return self.cluster
        raise HarnessError("The run's cluster is Plimsoll's own.")

    def write(self, folder: RunFolder) -> None:
        write_atomically(folder.work / PLAN, self.model_dump_json(indent=1))


def read_plan(folder: RunFolder) -> Plan:
    """Return a run's plan; raise EvidenceError if the run is over, or its plan cannot be read."""
    try:
        return Plan.model_validate_json((folder.work / PLAN).read_text())
    except (OSError, ValidationError) as error:
        raise EvidenceError(f"{folder.path} is no run that is under way; start a new one with `make run`.") from error
