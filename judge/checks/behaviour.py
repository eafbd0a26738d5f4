"""Cases that violate no guarantee by themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from evidence.partition import PartitionEvidence
from evidence.views import last_views
from judge.checks import elections, watermarks
from judge.checks.findings import Cases

_LAST_KNOWN = "with ELR the last known leader may lead again, without unclean.leader.election.enable (KIP-966)"
_FROM_ELR = "with ELR a replica that left the ISR below min.insync.replicas may still lead (KIP-966)"
_LAX = "up to 3.6 the high watermark advances below min.insync.replicas, from 3.7 it does not (KAFKA-15583)"


class _Behaviour(NamedTuple):
    """A case that concerns no record."""

    explanation: str
    evidence: Mapping[str, Any]
    why: str | None = None


def _cases(anomaly: str, behaviours: Sequence[_Behaviour]) -> Cases:
    def example(place: int) -> dict[str, Any]:
        return {"offset": None, "explanation": behaviours[place].explanation, "evidence": behaviours[place].evidence}

    return Cases(anomaly, np.full(len(behaviours), -1, dtype=np.int64), example, lambda place: behaviours[place].why)


def source_disagreement(of: PartitionEvidence) -> Cases:
    """Return contradictions between two sources (``judge.checks.elections.disagreements``)."""
    views = last_views(of.where, of.views, of.names)
    found = elections.disagreements(of.states, of.lines, views, of.starts)
    return _cases("source_disagreement", [_Behaviour(*each) for each in found])


def behaviour_change(of: PartitionEvidence) -> Cases:
    """Return behaviour that is by design in one version only."""
    return _cases("behaviour_change", list(_changes(of)))


def _changes(of: PartitionEvidence) -> Iterator[_Behaviour]:
    for before, after in pairwise(of.states):
        if elections.last_known_leader(before, after):
            yield _Behaviour(
                f"Broker {after.leader} was elected in epoch {after.leader_epoch} as the last known leader, "
                "with nobody left in ISR and ELR.",
                {"leader": after.leader, "leader_epoch": after.leader_epoch, "position": after.position},
                _LAST_KNOWN,
            )
    for state in elections.led_from_elr(of.states):
        yield _Behaviour(
            f"Broker {state.leader} was elected in epoch {state.leader_epoch} out of the ELR, with nobody left in the "
            "ISR; it was not in the last one.",
            {"leader": state.leader, "leader_epoch": state.leader_epoch, "position": state.position},
            _FROM_ELR,
        )
    moved = watermarks.hw_below_min_isr(of)
    for shown in map(moved.evidence, range(moved.violated_ns.size)):
        yield _Behaviour(
            f"The high watermark went from {shown['from_hw']} to {shown['to_hw']} with ISR {shown['isr']}, below "
            f"min.insync.replicas={shown['effective_min_isr']}.",
            shown,
            _LAX,
        )
