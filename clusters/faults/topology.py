"""Move replicas and leaders, delete records, and change settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

from clusters.faults import Evidence, Fault
from clusters.faults.phase import PhaseRun, performs
from clusters.kafka import admin
from clusters.kafka.connection import Connection, error_name
from clusters.kafka.views import PartitionView
from clusters.live.servers import broker_id
from clusters.live.world import World
from clusters.runtimes.nodes import Node
from clusters.scenario.scenario import Topic
from clusters.scenario.steps import topology as steps
from clusters.scenario.steps.step import Step
from clusters.waiting import wait_until
from history.errors import HarnessError, Refused, WaitTimeout
from history.partition import TopicPartition
from history.words import some_of

LIMIT_S = 30.0
LEAD_LIMIT_S = 20.0
SEEN_LIMIT_S = 0.5
HIGH_WATERMARK = -1


@dataclass
class Reassigned(Fault):
    """Move a topic's partitions to other brokers; heal moves them back."""

    world: World
    topic: str
    to: list[str]
    limit_s: float
    key: ClassVar[str] = steps.Reassign.key
    _before: dict[TopicPartition, list[int]] = field(default_factory=dict)

    @property
    def nodes(self) -> list[Node]:
        return [self.world.servers.brokers[self.world.scenario.cluster.broker_ids[letter]] for letter in self.to]

    def inject(self) -> None:
        partitions = [partition for partition in self.world.partitions if partition.topic == self.topic]
        self._before = {partition: self.world.replicas(partition) for partition in partitions}
        wanted = Topic(partitions=len(partitions), replicas=self.to).assignment(self.world.scenario.cluster.broker_ids)
        self._move({partition: wanted[partition.partition] for partition in partitions})

    def _move(self, to: Mapping[TopicPartition, list[int]]) -> None:
        self.world.reports.ask(lambda broker: admin.reassign(broker, to))
        self.world.moved |= to

    def verify_injected(self) -> Evidence:
        return self._settled()

    def heal(self) -> None:
        self._move(self._before)

    def verify_cleared(self) -> Evidence:
        found = self._settled()
        for partition in self._before:
            del self.world.moved[partition]
        return found

    def _settled(self) -> Evidence:
        wait_until(
            lambda: not self._moving(),
            limit_s=self.limit_s,
            what=f"{self.topic} to be on its replicas alone",
            last_seen=self._as_seen,
        )
        return {"replicas": {str(partition): self.world.replicas(partition) for partition in self._before}}

    def _as_seen(self) -> str:
        moving = self._moving()
        views = self.world.reports.partition_views(moving)
        seen = {partition: views[partition] or f"no view of {partition}" for partition in moving}
        return some_of([f"wanted on {self.world.replicas(partition)}, {view}" for partition, view in seen.items()])

    def _moving(self) -> list[TopicPartition]:
        views = self.world.reports.partition_views(self._before)
        wanted = {partition: self.world.replicas(partition) for partition in self._before}
        moving = [partition for partition, view in views.items() if not _is_on(view, wanted[partition])]
        return moving or [partition for partition, _ in self.world.reports.missing_replicas(wanted)]


def _is_on(view: PartitionView | None, wanted: list[int]) -> bool:
    return view is not None and view.replicas == wanted and set(view.isr) == set(wanted)


def leader_first(world: World, partition: TopicPartition, number: int) -> list[int]:
    """Return a partition's assignment with the given replica first.

    Raises:
        HarnessError: no metadata shows that replica.
    """
    view = world.reports.partition_view(partition)
    if view is None or number not in view.replicas:
        raise HarnessError(f"Broker {number} has no known replica of {partition} that could lead.")
    return [number, *(other for other in view.replicas if other != number)]


def move_leader(world: World, partition: TopicPartition, order: list[int], limit_s: float) -> None:
    """Reorder a partition's replicas and elect the first one; no data moves.

    Raises:
        HarnessError: it was rejected, or the replica does not lead in time.
    """
    world.reports.ask(lambda broker: admin.reassign(broker, {partition: order}))
    wait_until(
        partial(_leads, world, partition, order),
        limit_s=limit_s,
        every_s=0.02,
        what=f"broker {order[0]} to lead {partition}",
    )


def _leads(world: World, partition: TopicPartition, order: list[int]) -> bool:
    """Return whether the first of these replicas _leads; elect it if not."""
    seen = world.reports.partition_view(partition)
    if seen and seen.leader != order[0] and seen.replicas == order:
        world.reports.ask(lambda broker: admin.elect_preferred(broker, [partition]))
    return seen is not None and (seen.leader, seen.replicas) == (order[0], order)


@dataclass
class ChurnLeadership(Fault):
    """Move leadership back and forth; heal restores the assignment."""

    world: World
    partition: TopicPartition
    between: list[int]
    times: int
    key: ClassVar[str] = steps.ChurnLeadership.key
    _before: PartitionView | None = None
    _led: list[int] = field(default_factory=list)
    _failure: HarnessError | None = None

    @property
    def nodes(self) -> list[Node]:
        return [self.world.servers.brokers[number] for number in self.between]

    def inject(self) -> None:
        self._before = self._view()
        start = 1 if self._before.leader == self.between[0] else 0
        try:
            for turn in range(start, start + self.times):
                to = self.between[turn % len(self.between)]
                move_leader(self.world, self.partition, leader_first(self.world, self.partition, to), LIMIT_S)
                self._led.append(to)
        except HarnessError as error:
            self._failure = error

    def _view(self) -> PartitionView:
        return wait_until(
            lambda: self.world.reports.partition_view(self.partition),
            limit_s=LIMIT_S,
            what=f"a view of {self.partition}",
        )

    def verify_injected(self) -> Evidence:
        if self._failure:
            raise WaitTimeout(str(self._failure))
        epochs = [self._before.leader_epoch if self._before else 0, self._view().leader_epoch]
        if epochs[1] < epochs[0] + self.times:
            raise WaitTimeout(f"{self.times} moves raised the leader epoch only from {epochs[0]} to {epochs[1]} only.")
        return {"led": self._led, "epochs": epochs}

    def heal(self) -> None:
        if self._before:
            order = self._before.replicas
            self.world.reports.ask(lambda broker: admin.reassign(broker, {self.partition: order}))

    def verify_cleared(self) -> Evidence:
        if self._before is None:
            return {}
        order = self._before.replicas
        wait_until(
            partial(_leads, self.world, self.partition, order),
            limit_s=LIMIT_S,
            what=f"broker {order[0]} to lead {self.partition} again",
            ignoring=(HarnessError, OSError),  # the replica may not be in sync yet
        )
        return {"leader": order[0], "replicas": order}


@dataclass
class Deleted(Fault):
    """Delete the records below an offset; heal does nothing."""

    world: World
    partition: TopicPartition
    before: int
    key: ClassVar[str] = steps.DeleteRecords.key
    _log_start: int = 0

    @property
    def nodes(self) -> list[Node]:
        return [self.world.servers.brokers[number] for number in self.world.replicas(self.partition)]

    def inject(self) -> None:
        view = self.world.reports.partition_view(self.partition)
        leader = self.world.servers.brokers.get(view.leader) if view else None
        if leader is None:
            raise HarnessError(f"{self.partition} has no leader that could delete its records; wait for one first.")
        with self.world.reports.connect(leader, "PROBE") as connection:
            self._log_start = admin.delete_records(connection, self.partition, self.before)

    def verify_injected(self) -> Evidence:
        return {"partition": str(self.partition), "deleted_before": self._log_start, "log_starts": self._shared()}

    def heal(self) -> None:
        """Do nothing."""

    def verify_cleared(self) -> Evidence:
        return {"log_starts": self._shared()}

    def _shared(self) -> dict[str, int]:
        return wait_until(
            self._log_starts,
            limit_s=LIMIT_S,
            what=f"every replica in sync of {self.partition} to start at {self._log_start}",
        )

    def _log_starts(self) -> dict[str, int] | None:
        view = self.world.reports.partition_view(self.partition)
        samples = {number: self.world.reports.sample(number, self.partition) for number in (view.isr if view else ())}
        starts = {str(n): s.log_start_offset for n, s in samples.items() if s and s.log_start_offset is not None}
        whole = bool(samples) and len(starts) == len(samples)
        return starts if whole and min(starts.values()) >= self._log_start else None


class Change(NamedTuple):
    """Hold dynamic settings of a topic, or of a broker id."""

    resource: Literal["topic", "broker"]
    name: str
    config: Mapping[str, str]


@dataclass
class Configured(Fault):
    """Change dynamic settings; heal restores them."""

    world: World
    changes: list[Change]
    key: str
    _before: list[dict[str, str | None]] = field(default_factory=list)

    @property
    def nodes(self) -> list[Node]:
        named = [int(change.name) for change in self.changes if change.resource == "broker"]
        return [self.world.servers.brokers[number] for number in named or self.world.servers.brokers]

    def inject(self) -> None:
        for change in self.changes:
            self._before.append(self._effective(self._witnesses(change)[0], change))
            self._alter(change, change.config)

    def _alter(self, change: Change, config: Mapping[str, str | None]) -> None:
        if change.resource == "topic":
            self.world.reports.ask(lambda broker: admin.alter_config(broker, "topic", change.name, config))
            return
        node = self.world.servers.brokers[int(change.name)]
        with self.world.reports.connect(node, "PROBE") as itself:
            admin.alter_config(itself, "broker", change.name, config)

    def _witnesses(self, change: Change) -> list[int]:
        """Return the brokers to query: the broker itself, for a topic all."""
        if change.resource == "broker":
            return [int(change.name)]
        answering = [number for number, view in self.world.reports.views().items() if view]
        if not answering:
            raise HarnessError(f"No broker answers to apply {dict(change.config)}; start one first.")
        return answering

    def _effective(self, number: int, change: Change) -> dict[str, str | None]:
        try:
            settings = admin.describe_config(
                self.world.reports.connection(number), change.resource, change.name, list(change.config)
            )
        except OSError:
            return {}
        return {name: next(iter(by_source.values()), None) for name, by_source in settings.items()}

    def verify_injected(self) -> Evidence:
        for change in self.changes:
            self._await(change, dict(change.config))
        return {"set": [[change.resource, change.name, dict(change.config)] for change in self.changes]}

    def _await(self, change: Change, wanted: dict[str, str | None]) -> None:
        wait_until(
            lambda: all(self._effective(number, change) == wanted for number in self._witnesses(change)),
            limit_s=LIMIT_S,
            what=f"{change.resource} {change.name} to have {wanted} everywhere",
            last_seen=lambda: str({number: self._effective(number, change) for number in self._witnesses(change)}),
        )

    def heal(self) -> None:
        """Restore a topic's settings; delete a broker's, whose static values then apply."""
        for change, _ in zip(self.changes, self._before, strict=False):
            own = self.world.scenario.topics[change.name].config if change.resource == "topic" else {}
            self._alter(change, {name: own.get(name) for name in change.config})

    def verify_cleared(self) -> Evidence:
        made = list(zip(self.changes, self._before, strict=False))
        for change, before in made:
            self._await(change, before)
        return {"set": [[*change[:2], before] for change, before in made]}


def throttle(world: World, node: Node, bytes_per_s: float) -> list[Change]:
    """Return the settings that limit an out-of-sync follower's replication (KIP-73)."""
    replicas = {
        topic: ",".join(f"{p.partition}:{node.node_id}" for p in world.partitions if p.topic == topic)
        for topic in world.scenario.topics
    }
    rate = Change("broker", str(node.node_id), {"follower.replication.throttled.rate": str(int(bytes_per_s))})
    throttled = [
        Change("topic", topic, {"follower.replication.throttled.replicas": named}) for topic, named in replicas.items()
    ]
    return [rate, *throttled]


@performs(steps.Reassign)
def _reassign(run: PhaseRun, step: steps.Reassign) -> None:
    run.inject(Reassigned(run.world, step.topic, step.to, step.limit), step)


@performs(steps.ChurnLeadership)
def _churn_leadership(run: PhaseRun, step: steps.ChurnLeadership) -> None:
    ids = run.world.scenario.cluster.broker_ids
    run.inject(ChurnLeadership(run.world, step.partition, [ids[letter] for letter in step.between], step.times), step)


@performs(steps.DeleteRecords)
def _delete_records(run: PhaseRun, step: steps.DeleteRecords) -> None:
    before = HIGH_WATERMARK if isinstance(step.before, str) else step.before
    run.inject(Deleted(run.world, step.partition, before), step)


@performs(steps.Configure)
def _configure(run: PhaseRun, step: steps.Configure) -> None:
    if step.broker:
        change = Change("broker", str(run.node(step.broker).node_id), step.set)
    else:
        change = Change("topic", step.topic or "", step.set)
    _configured(run, [change], step)


@performs(steps.Throttle)
def _throttle(run: PhaseRun, step: steps.Throttle) -> None:
    _configured(run, throttle(run.world, run.node(step.node), step.rate), step)


def _configured(run: PhaseRun, changes: list[Change], step: Step) -> None:
    """Change settings, unless an active fault did: its effect and original value would be lost."""
    active = run.active(list(run.world.servers.brokers.values()))
    earlier = [change for fault in active if isinstance(fault, Configured) for change in fault.changes]
    taken = {(change.resource, change.name, setting) for change in earlier for setting in change.config}
    for resource, name, config in changes:
        if twice := [setting for setting in config if (resource, name, setting) in taken]:
            raise HarnessError(
                f"{twice[0]} of {resource} {name} is changed by a fault that is active; end that first, with heal: all."
            )
    run.inject(Configured(run.world, changes, step.key), step)


@performs(steps.Elect)
def _elect(run: PhaseRun, step: steps.Elect) -> None:
    world = run.world
    if step.who == "preferred":
        ask = partial(world.reports.ask, lambda broker: admin.elect_preferred(broker, world.partitions))
        _record_election(run, step, ask, who=step.who)
    else:
        unclean: list[str] = []
        ask = partial(world.reports.ask, lambda broker: _elect_unclean(broker, world.partitions, unclean))
        _record_election(run, step, ask, who=step.who, unclean=unclean)


def _elect_unclean(broker: Connection, partitions: list[TopicPartition], unclean: list[str]) -> None:
    """Elect; add to ``unclean`` the partitions that may have lost records."""
    try:
        answers = admin.elect_unclean(broker, partitions)
    except HarnessError:  # no controller received the request
        raise
    except BaseException:
        unclean.extend(map(str, partitions))  # it may have happened
        raise
    unclean.extend(str(of) for of, answer in answers.items() if error_name(answer.error_code) not in admin.NOT_ELECTED)
    admin.check_elected(answers)


@performs(steps.TransferLeadership)
def _transfer_leadership(run: PhaseRun, step: steps.TransferLeadership) -> None:
    world, number = run.world, broker_id(run.node(step.replica))
    partition = step.replica.of or run.world.partitions[0]
    order = leader_first(world, partition, number)
    move = partial(move_leader, world, partition, order, LEAD_LIMIT_S)
    _record_election(run, step, move, target=str(step.replica))


def _record_election(run: PhaseRun, step: Step, elect: Callable[[], object], **detail: Any) -> None:
    """Record the leaders before and after: the answer does not show a change."""
    before, refused = _led(run), None
    try:
        elect()
        with suppress(WaitTimeout):  # the elected replica may have led before
            wait_until(lambda: _led(run) != before, limit_s=SEEN_LIMIT_S, what="another leader or epoch")
    except (Refused, WaitTimeout) as error:
        refused = str(error)
    except BaseException as error:
        refused = str(error)  # it may have happened
        raise
    finally:
        led = {"before": before, "after": _led(run)}
        run.world.events.add("elected", phase=run.phase.name, step=step.key, refused=refused, led=led, **detail)


def _led(run: PhaseRun) -> dict[str, list[int]]:
    views = run.world.reports.partition_views(run.world.partitions)
    return {str(partition): [view.leader, view.leader_epoch] for partition, view in views.items() if view}
