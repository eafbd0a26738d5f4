"""What a step of a scenario may do to the nodes that it is aimed at. Each step declares its own; a run's manifest holds
them, so that judge and pages know a fault without knowing its name.
"""

from __future__ import annotations

from enum import StrEnum


class Trait(StrEnum):
    """One thing that must be known of a step to read what was recorded under it."""

    STOPS_PROCESS = "stops_process"  # the process ends or is paused
    SILENCES_PROBE = "silences_probe"  # the broker need not answer the probe, whose port no disconnection closes
    UNREACHABLE = "unreachable"  # other nodes cannot reach it
    MAY_BE_UNREACHABLE = "may_be_unreachable"  # now and then
    MAY_MOVE_LEADER = (
        "may_move_leader"  # a partition may lose its leader, or its clients and followers lose sight of it
    )
    HOLDS_BACK_FOLLOWER = "holds_back_follower"  # a follower may stay out of the ISR for as long as it lasts
    MOVES_REPLICAS = "moves_replicas"  # the assignment changes
    NEW_LOG = "new_log"  # a replica's log is not what its broker wrote
    LOSES_RECORDS = "loses_records"  # records that were on a disk are not there any more
    RECOVERY_EXPECTED = "recovery_expected"  # something is out of order until it is healed: recovery is measured
    NEEDS_LOAD = "needs_load"  # nothing comes of it without a load
    BETWEEN_NODES = "between_nodes"  # it stands between nodes and can be healed whatever else is active


DOWN = frozenset(
    {
        Trait.STOPS_PROCESS,
        Trait.SILENCES_PROBE,
        Trait.UNREACHABLE,
        Trait.MAY_MOVE_LEADER,
        Trait.RECOVERY_EXPECTED,
    }
)  # of a broker whose process is ended, paused, or ends by itself
SLOWED = frozenset(
    {
        Trait.SILENCES_PROBE,
        Trait.MAY_BE_UNREACHABLE,
        Trait.MAY_MOVE_LEADER,
        Trait.RECOVERY_EXPECTED,
        Trait.NEEDS_LOAD,
    }
)  # of a broker that runs with too little CPU or disk
