"""Known bugs: provoking scenario, affected versions, and the finding that shows each (``shown_as``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clusters.scenario.scenario import load_scenario
from history.kafka_versions import Mode, affected, usual_mode


@dataclass(frozen=True)
class Bug:
    """``bad`` and ``good`` are versions with and without it (None: none in this mode); changes patch the scenario."""

    issue: str
    title: str
    scenario: str
    bad: str
    good: str | None
    shown_as: Sequence[str]
    bad_changes: Mapping[str, Any] = field(default_factory=dict)
    good_changes: Mapping[str, Any] = field(default_factory=dict)
    variant: str = ""

    @property
    def name(self) -> str:
        return "-".join(filter(None, [self.issue.lower(), self.variant]))

    @property
    def by_setting(self) -> bool:
        return self.bad_changes != self.good_changes

    def affects(self, kafka: str, mode: Mode | None = None) -> bool:
        """Check that a version has the bug, by default in the recipe's mode."""
        told: Mode | None = mode or load_scenario(self.scenario, self.bad_changes).cluster.mode
        return affected(self.issue, kafka, told or usual_mode(kafka))


_ZOOKEEPER = {"cluster": {"mode": "zookeeper"}}

BUGS = (
    Bug(
        issue="KAFKA-13091",
        title="after the ISR shrank, the high watermark does not advance until the next append",
        scenario="isr_shrinks_at_rest",
        bad="3.0.2",
        good="3.1.2",
        shown_as=("I10",),
    ),
    Bug(
        issue="KAFKA-13141",
        title="a leader counts records below a diverging follower's fetch offset as replicated to it",
        scenario="kafka_13141",
        bad="2.8.0",
        good="2.8.2",
        shown_as=("I7", "I8", "I15"),
    ),
    Bug(
        issue="KAFKA-14704",
        title="a former leader adopts the new high watermark before it truncates its diverging log",
        scenario="kafka_14704",
        bad="3.4.0",
        good="3.4.1",
        shown_as=("I2", "I6", "I16"),
    ),
    Bug(
        issue="KAFKA-15583",
        title="the high watermark advances below min.insync.replicas (changed by design in 3.7)",
        scenario="kafka_15583",
        bad="3.6.2",
        good="3.7.2",
        shown_as=("behaviour_change",),
    ),
    Bug(
        issue="KAFKA-18723",
        title="a follower appends records of a new leader epoch from a response of the old epoch",
        scenario="kafka_18723",
        bad="3.9.0",
        good="3.9.1",
        shown_as=("I12", "I13", "I14"),
    ),
    Bug(
        issue="KAFKA-18991",
        title="a follower truncates committed records because of a response of an earlier leader epoch",
        scenario="kafka_18991",
        bad="3.9.0",
        good="3.9.1",
        shown_as=("I6", "I8", "I15"),
    ),
    Bug(
        issue="KIP-966",
        title="with eligible leader replicas, not only the last in-sync replica may lead (by design, from 4.0)",
        scenario="last_in_sync_stops",
        bad="4.3.0",
        good="4.3.0",
        shown_as=("behaviour_change",),
        bad_changes={"cluster": {"elr": True}},
        good_changes={"cluster": {"elr": False}},
    ),
    Bug(
        issue="HW-WAITS",
        title="the high watermark keeps waiting for a replica that has left the ISR (no issue is known)",
        scenario="fenced_yet_awaited",
        bad="3.6.0",
        good="3.5.2",
        shown_as=("I10",),
    ),
    Bug(
        issue="HW-WAITS",
        variant="zookeeper",
        title="with ZooKeeper, the high watermark keeps waiting for a replica that has left the ISR",
        scenario="expired_yet_awaited",
        bad="3.5.2",
        good=None,
        shown_as=("I10",),
        bad_changes=_ZOOKEEPER,
        good_changes=_ZOOKEEPER,
    ),
    Bug(
        issue="STALE-HW",
        title="a follower that truncated learns the high watermark only with the next record (no issue is known)",
        scenario="stale_high_watermark",
        bad="3.4.1",
        good="3.4.0",
        shown_as=("I10",),
    ),
    Bug(
        issue="STALE-ISR",
        title="a controller takes its own write, whose response was lost, for another broker's (a form of KAFKA-1382)",
        scenario="stale_isr",
        bad="3.9.1",
        good="3.9.1",
        shown_as=("I38",),
        bad_changes={"cluster": {"session_timeout": "6s"}},
        good_changes={"cluster": {"session_timeout": "18s"}},  # outlasts the disconnection
    ),
)
