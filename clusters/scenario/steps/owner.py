"""Steps that leave something to the owner of a cluster."""

from __future__ import annotations

from clusters.scenario.steps.step import Duration, Step
from clusters.scenario.values import LongSeconds
from history.traits import DOWN

IN_SYNC_S = 600.0  # until the replicas of others on a broker have caught up, too


class AwaitUpgrade(Step):
    """Wait until the cluster's owner, or the hook ``upgrade``, has restarted each broker with another Kafka."""

    key = "await_upgrade"
    example = "45m"
    traits = DOWN
    needs = frozenset({"owner"})
    shorthand = "limit"
    limit: LongSeconds

    @property
    def duration(self) -> Duration:
        return Duration.of_wait(self.limit)._replace(longest_s=self.limit + IN_SYNC_S)
