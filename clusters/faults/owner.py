"""Follow an upgrade that a cluster's owner performs, or perform it by the hook ``upgrade``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from clusters.faults import Evidence, Fault
from clusters.faults.phase import PhaseRun, performs
from clusters.kafka.views import ClusterView
from clusters.live.attached import AttachedServers, hooked
from clusters.live.reports import Reports
from clusters.live.servers import broker_id
from clusters.runtimes.nodes import Node
from clusters.scenario.steps.owner import IN_SYNC_S, AwaitUpgrade
from clusters.waiting import wait_until
from history.words import some_of

LOOK_S = 1.0  # a broker is away for longer


@dataclass
class Replaced(Fault):
    """A broker that is away while its Kafka is replaced; without a hook, its owner does that."""

    servers: AttachedServers
    reports: Reports
    node: Node
    key: ClassVar[str] = AwaitUpgrade.key

    @property
    def nodes(self) -> list[Node]:
        return [self.node]

    @property
    def is_of_owner(self) -> bool:
        return not self.servers.has_hook("upgrade")

    def inject(self) -> None:
        if not self.is_of_owner:
            self.servers.run_observed("upgrade", self.node)

    def verify_injected(self) -> Evidence:
        if self.is_of_owner:
            return {"probe": "no other broker lists it"}
        limit_s = self.servers.limit_s("upgrade")
        wait_until(lambda: self.servers.was_silent(self.node), limit_s=limit_s, what=f"{self.node.name} to be away")
        return {"probe": "no answer"}

    def heal(self) -> None:
        """Leave it to the owner or the hook."""

    def verify_cleared(self) -> Evidence:
        limit_s = self.servers.limit_s("upgrade")
        wait_until(self.is_back, limit_s=limit_s, what=f"{self.node.name} to answer and be registered again")
        return {"probe": "answers", "registered": True}

    def is_back(self) -> bool:
        number = broker_id(self.node)
        return self.reports.probe_error(number) is None and self.reports.registered(number)

    def is_away(self, views: Mapping[int, ClusterView | None]) -> bool:
        """Return whether it is silent and not listed by another broker; a silence alone may be this host's network."""
        number = broker_id(self.node)
        others = [view for other, view in views.items() if other != number and view]
        return views.get(number) is None and any(number not in view.brokers for view in others)


@performs(AwaitUpgrade)
def _await_upgrade(run: PhaseRun, step: AwaitUpgrade) -> None:
    servers = hooked(run.world.servers)
    brokers = [Replaced(servers, run.world.reports, node) for node in servers.nodes]
    if not servers.has_hook("upgrade"):
        _follow(run, brokers, step)
    for broker in brokers if servers.has_hook("upgrade") else ():
        run.restart(broker, step)
        run.world.note_start(broker.node)
        _wait_for_replicas(run)
    _wait_for_replicas(run)


def _wait_for_replicas(run: PhaseRun) -> None:
    def is_whole() -> bool:
        run.check_run()
        views = run.world.reports.partition_views(run.world.partitions).values()
        return all(view and set(view.isr) == set(view.replicas) for view in views)

    wait_until(is_whole, limit_s=IN_SYNC_S, every_s=LOOK_S, what="the run's replicas to be in sync again")


def _follow(run: PhaseRun, brokers: list[Replaced], step: AwaitUpgrade) -> None:
    """Wait until each broker has been away and is back."""
    why = f"upgrade the {len(brokers)} brokers now, one after the other; this run waits {step.limit / 60:.0f} min"
    run.world.events.add("owner_asked", phase=run.phase.name, step=step.key, why=why)
    untouched, away = list(brokers), list[Replaced]()

    def is_done() -> bool:
        run.check_run()
        views = run.world.reports.views()
        for broker in [each for each in untouched if each.is_away(views)]:
            run.note(broker, step)
            untouched.remove(broker)
            away.append(broker)
        for broker in [each for each in away if each.is_back()]:
            run.heal(broker)
            run.world.note_start(broker.node)
            away.remove(broker)
        return not untouched and not away

    def last_seen() -> str:
        names = some_of([broker.node.name for broker in untouched or away])
        return f"{names} {'was never away' if untouched else 'did not come back'}"

    wait_until(
        is_done, limit_s=step.limit, every_s=LOOK_S, what="the owner to upgrade all brokers", last_seen=last_seen
    )
