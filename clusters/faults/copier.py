"""Kill the copier and start it again."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from clusters.clients.nodes import COPIER, client_node, has_ended, is_ready
from clusters.faults import Evidence, Fault
from clusters.faults.phase import PhaseRun, performs
from clusters.live.world import World
from clusters.runtimes.nodes import Node
from clusters.scenario.steps.processes import KillCopier
from clusters.waiting import wait_until

LIMIT_S = 60.0


@dataclass
class KilledCopier(Fault):
    """Kill the copier (SIGKILL), possibly within a transaction."""

    world: World
    key: ClassVar[str] = KillCopier.key

    @property
    def nodes(self) -> list[Node]:
        return [client_node(self.world, COPIER)]

    def inject(self) -> None:
        self.world.runtime.kill(COPIER, "SIGKILL")

    def verify_injected(self) -> Evidence:
        wait_until(partial(has_ended, self.world, COPIER), limit_s=LIMIT_S, what="the copier to end")
        return {"process": "ended"}

    def heal(self) -> None:
        (self.world.folder.clients / f"{COPIER}.json").unlink(missing_ok=True)  # the killed process wrote it
        self.world.start(client_node(self.world, COPIER))

    def verify_cleared(self) -> Evidence:
        wait_until(partial(is_ready, self.world, COPIER), limit_s=LIMIT_S, what="the copier to copy again")
        return {"copies": True}


@performs(KillCopier)
def _kill_copier(run: PhaseRun, step: KillCopier) -> None:
    for _ in range(step.times):
        fault = KilledCopier(run.world)
        run.inject(fault, step)
        run.heal_on(fault.nodes, (fault.key,))
