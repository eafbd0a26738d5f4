"""Possible effects of a step on its target nodes. Steps declare them and the manifest stores them, so judge and pages
need no fault names.
"""

from __future__ import annotations

from enum import StrEnum


class Trait(StrEnum):
    """A possible effect that matters for reading the records."""

    STOPS_PROCESS = "stops_process"  # the process ends or is paused
    SILENCES_PROBE = "silences_probe"  # may miss probes; disconnections do not block the probe's port
    UNREACHABLE = "unreachable"  # other nodes cannot reach it
    MAY_BE_UNREACHABLE = "may_be_unreachable"  # intermittently
    MAY_MOVE_LEADER = "may_move_leader"  # a partition may lose its leader, or clients and followers its connection
    HOLDS_BACK_FOLLOWER = "holds_back_follower"  # a follower may stay out of the ISR
    MOVES_REPLICAS = "moves_replicas"  # the assignment changes
    NEW_LOG = "new_log"  # a replica's log differs from what its broker wrote
    LOSES_RECORDS = "loses_records"  # records disappear from a disk
    RECOVERY_EXPECTED = "recovery_expected"  # degraded until healed: recovery is measured
    NEEDS_LOAD = "needs_load"  # no effect without load
    BETWEEN_NODES = "between_nodes"  # acts between nodes; can be healed whatever else is active


DOWN = frozenset(
    {
        Trait.STOPS_PROCESS,
        Trait.SILENCES_PROBE,
        Trait.UNREACHABLE,
        Trait.MAY_MOVE_LEADER,
        Trait.RECOVERY_EXPECTED,
    }
)  # a broker that exits, is stopped, or is paused
SLOWED = frozenset(
    {
        Trait.SILENCES_PROBE,
        Trait.MAY_BE_UNREACHABLE,
        Trait.MAY_MOVE_LEADER,
        Trait.RECOVERY_EXPECTED,
        Trait.NEEDS_LOAD,
    }
)  # too little CPU or disk
