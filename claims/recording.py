"""A run's evidence and findings, as the judge has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from claims.answer import Case, Evidence
from evidence.facts import BrokerStop, Row
from evidence.gather import gather
from evidence.partition import PartitionEvidence
from evidence.run import Run, open_folder
from history.events import Event
from history.folder import RunFolder
from history.partition import TopicPartition
from judge.checks.premises import Premises
from judge.run import judge_run, one_by_one, partition_facts, run_facts

SECOND_NS = 1_000_000_000


@dataclass(frozen=True)
class Recording:
    """A run, its partitions with a dated history, and its judged tables."""

    run: Run
    partitions: Mapping[TopicPartition, PartitionEvidence]
    invariants: Sequence[Row] = ()
    anomalies: Sequence[Row] = ()

    @property
    def all(self) -> list[PartitionEvidence]:
        return list(self.partitions.values())

    @property
    def described(self) -> list[Event]:
        return [event for event in self.run.events if event.kind == "described"]

    def faults(self, step: str) -> Iterator[BrokerStop]:
        """Yield a step's faults from effect to healing, or else the last event."""
        for span in self.run.faults:
            if span.step == step and "injected" in span.events:
                until_ns = span.at_ns("heal", self.run.events[-1].t_ns)
                for name in span.nodes:
                    broker_id = int(name.removeprefix("broker-"))
                    yield BrokerStop(broker_id, span.from_ns, span.at_ns("injected"), until_ns)


def open_recording(path: Path) -> Recording:
    """Read and judge a collected run folder.

    Raises:
        EvidenceError: it is no run, unreadable, or differs from its seal.
    """
    folder = RunFolder(path)
    folder.require_intact()
    run = open_folder(folder)
    premises, tables = Premises(run), judge_run(run, one_by_one).tables
    known = run_facts(premises)
    dated = [facts for facts in partition_facts(premises) if facts.dated and facts.dated[0].partition_epoch == 0]
    return Recording(
        run,
        {facts.where: gather(known, facts).evidence for facts in dated},
        tables["invariants"].to_pylist(),
        tables["anomalies"].to_pylist(),
    )


def checks(invariant: str, recording: Recording) -> Iterator[Case]:
    """Yield an invariant's violations, and the checks that held."""
    for row in (row for row in recording.invariants if row["invariant"] == invariant):
        if row["violations"]:
            yield Case(False, [Evidence("verdict/invariants/", None, row["reason"])], row["violations"])
        if row["checked"] > row["violations"]:
            yield Case(True, [Evidence("verdict/invariants/", None, row["title"])], row["checked"] - row["violations"])


def cases(anomalies: Sequence[str], recording: Recording, *, hold: bool = False) -> Iterator[Case]:
    """Yield anomalies, as counterexamples unless they ``hold``."""
    for row in recording.anomalies:
        if row["anomaly"] in anomalies:
            yield Case(hold, [Evidence("verdict/anomalies/", None, row["explanation"])])
