"""Possible effects of steps, declared there, so judge and pages need no fault names."""

from __future__ import annotations

from enum import StrEnum


class Trait(StrEnum):
    """A possible effect on a step's target nodes."""

    STOPS_PROCESS = "stops_process"  # ends or pauses it
    SILENCES_PROBE = "silences_probe"  # may miss probes
    UNREACHABLE = "unreachable"  # for other nodes
    MAY_BE_UNREACHABLE = "may_be_unreachable"  # intermittently
    MAY_MOVE_LEADER = "may_move_leader"  # a partition may lose its leader, or clients and followers their connection
    HOLDS_BACK_FOLLOWER = "holds_back_follower"  # may stay out of the ISR
    MOVES_REPLICAS = "moves_replicas"
    NEW_LOG = "new_log"  # differs from what its broker wrote
    LOSES_RECORDS = "loses_records"
    RECOVERY_EXPECTED = "recovery_expected"  # degraded until healed
    NEEDS_LOAD = "needs_load"  # no effect without load
    BETWEEN_NODES = "between_nodes"  # can be healed whatever else is active


DOWN = frozenset(
    {
        Trait.STOPS_PROCESS,
        Trait.SILENCES_PROBE,
        Trait.UNREACHABLE,
        Trait.MAY_MOVE_LEADER,
        Trait.RECOVERY_EXPECTED,
    }
)  # a broker exits, stops or pauses
SLOWED = frozenset(
    {
        Trait.SILENCES_PROBE,
        Trait.MAY_BE_UNREACHABLE,
        Trait.MAY_MOVE_LEADER,
        Trait.RECOVERY_EXPECTED,
        Trait.NEEDS_LOAD,
    }
)  # too little CPU or disk
