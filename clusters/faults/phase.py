"""Run one phase: bind targets, inject and heal faults, wait, record."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import import_module
from pkgutil import iter_modules
from threading import Event
from typing import Any, NamedTuple, TypeVar

from clusters import faults
from clusters.clients.nodes import died, member_names, member_node
from clusters.clients.steadiness import Steadiness
from clusters.clients.usage import carry_usage
from clusters.faults import Evidence, Fault
from clusters.kafka.views import PartitionView
from clusters.live.attached import hooked
from clusters.live.capture import capture_offsets
from clusters.live.disk_space import EVERY_S, DiskSpace
from clusters.live.exits import record_exits
from clusters.live.servers import broker_id
from clusters.live.world import World
from clusters.runtimes.nodes import Node
from clusters.scenario.conditions import Condition, OffsetBetween
from clusters.scenario.scenario import Phase
from clusters.scenario.steps.step import Step
from clusters.scenario.targets import Target
from clusters.waiting import wait_until
from history.errors import HarnessError, WaitTimeout
from history.partition import TopicPartition
from history.words import some_of

LEADER_LIMIT_S = 30.0
LOOKED_EVERY_S = 10.0  # it queries Docker for each node
MOST_SEEN = 60
CONTROLLERS = ("controller", "active controller", "controllers")
CAUGHT_UP_RECORDS = 100  # a sampling round spans several ms of traffic


Action = TypeVar("Action", bound=Callable[..., None])
ACTIONS: dict[type[Step], Callable[..., None]] = {}


def performs(*steps: type[Step]) -> Callable[[Action], Action]:
    """Register what performs these steps, given the phase and the step."""

    def register(action: Action) -> Action:
        ACTIONS.update(dict.fromkeys(steps, action))
        return action

    return register


def perform(run: PhaseRun, step: Step) -> None:
    """Perform a step."""
    actions()[type(step)](run, step)


@cache
def actions() -> Mapping[type[Step], Callable[..., None]]:
    """Return all actions: importing a module of this folder registers its own."""
    for module in iter_modules(faults.__path__, f"{faults.__name__}."):
        import_module(module.name)
    return ACTIONS


class _Background(NamedTuple):
    limit_s: float
    work: Future[None]
    end: Callable[[], None]


@dataclass
class PhaseRun:
    """A running phase, with its bound targets and active faults."""

    world: World
    phase: Phase
    _bound: dict[str, list[Node]] = field(default_factory=dict)
    _leaders: dict[TopicPartition, int] = field(default_factory=dict)
    _controller_before: int | None = None
    _active: list[Fault] = field(default_factory=list)
    _background: list[_Background] = field(default_factory=list)
    _looked_s: float = -math.inf

    def run(self) -> None:
        """Perform all steps; always heal what is still active.

        Raises:
            HarnessError: a step could not be performed, or ``check_run`` failed.
        """
        self._leaders = {
            partition: view.leader if view and view.leader >= 0 else self._leader_before(partition)
            for partition, view in self.world.reports.partition_views(self.world.partitions).items()
        }
        if any(condition.controller_changed for step in self.phase.steps for condition in step.conditions):
            self._controller_before = self.world.reports.active_controller()
        try:
            for step in self.phase.steps:
                self.check_run()
                if self.world.guard:
                    self.world.guard.check_topics()
                self._record("step", step, **step.model_dump()[step.key])
                perform(self, step)
        finally:
            with ExitStack() as ending:
                ending.callback(record_exits, self.world)
                ending.callback(self._end_background)
                self.heal_all()

    @cached_property
    def disk_space(self) -> DiskSpace:
        return DiskSpace(self.world.folder)

    def check_run(self) -> None:
        """Check disk space and clients, also during a step; record servers that ended.

        Raises:
            HarnessError: the disk is full, or a client died without a fault.
        """
        self.disk_space.check()
        if self.world.guard:
            self.world.guard.during(faults=not all(fault.is_of_owner for fault in self._active))
        now_s = time.monotonic()
        if now_s - self._looked_s < LOOKED_EVERY_S:
            return
        self._looked_s = now_s
        record_exits(self.world)
        ended = [node.name for fault in self._active if fault.ends_nodes for node in fault.nodes]
        if dead := [node for node in died(self.world) if node.name not in ended]:
            raise HarnessError(f"A client died: {'; '.join(map(self.world.describe_node, dead))}.")

    @cached_property
    def _steadiness(self) -> Steadiness:
        return Steadiness(self.world.folder.work / "streams")

    def hold(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (left_s := deadline - time.monotonic()) > 0:
            self.check_run()
            Event().wait(min(left_s, EVERY_S))

    def in_background(self, work: Callable[[], None], end: Callable[[], None], limit_s: float = 0.0) -> None:
        """Work in parallel to later steps; ``end`` ends it ``limit_s`` after the phase."""
        executor = ThreadPoolExecutor(1)
        self._background.append(_Background(limit_s, executor.submit(work), end))
        executor.shutdown(wait=False)

    def _end_background(self) -> None:
        with ExitStack() as awaiting:
            for task in reversed(self._background):
                awaiting.callback(task.work.result)
            for task in sorted(self._background, key=lambda task: task.limit_s):
                with suppress(WaitTimeout):
                    wait_until(task.work.done, limit_s=task.limit_s, what="the work to end by itself")
                task.end()

    def heal_all(self) -> None:
        with ExitStack() as healing:
            for fault in reversed(_healing_order(self._active)):
                healing.callback(self.heal, fault)

    def nodes(self, target: Target) -> list[Node]:
        name = str(target)
        if name not in self._bound:
            self._bound[name] = self.nodes_now(target)
        return self._bound[name]

    def nodes_now(self, target: Target) -> list[Node]:
        if target.kind == "member":
            names = [f"member-{target.member}"] if target.member else member_names(self.world)
            return [member_node(self.world, name) for name in names]
        return [self.world.servers.node(number) for number in self._resolve(target)]

    def node(self, target: Target) -> Node:
        return self.nodes(target)[0]

    def _resolve(self, target: Target) -> list[int]:
        if target.role in CONTROLLERS:
            return self._controllers(target)
        if target.role == "named":
            return [self.world.scenario.cluster.broker_ids[target.name or ""]]
        if target.of is not None:
            return self._replicas(target.role, target.of)
        everyone = sorted(self.world.servers.brokers)
        if target.role == "random":
            return [random.Random(f"{self.world.plan.seed} {self.phase.name}").choice(everyone)]
        return everyone

    def _replicas(self, role: str, partition: TopicPartition) -> list[int]:
        assigned = self.world.replicas(partition)
        if role == "replicas":
            return assigned
        if role == "preferred leader":
            return assigned[:1]
        leader = self._leader(partition)
        if role == "leader":
            return [leader]
        followers = [number for number in assigned if number != leader]
        if role == "uninvolved broker" and self.world.plan.mode == "zookeeper":  # KRaft's controller is not a broker
            followers = [number for number in followers if number != self._controller()]
        return followers if role == "followers" else followers[-1:]

    def _leader(self, partition: TopicPartition) -> int:
        view = wait_until(
            lambda: found if (found := self.world.reports.partition_view(partition)) and found.leader >= 0 else None,
            limit_s=LEADER_LIMIT_S,
            what=f"a leader of {partition}",
        )
        return view.leader

    def _leader_before(self, partition: TopicPartition) -> int:
        try:
            return self._leader(partition)
        except WaitTimeout:
            return -1

    def _controllers(self, target: Target) -> list[int]:
        if target.role == "controllers":
            return [node.node_id for node in self.world.servers.metadata_nodes if node.node_id is not None]
        return [self._controller()]

    def _controller(self) -> int:
        return wait_until(self.world.reports.active_controller, limit_s=LEADER_LIMIT_S, what="a controller that acts")

    def inject(self, fault: Fault, step: Step) -> None:
        """Inject a fault and verify its effect; heal it in either case."""
        record_exits(self.world)
        self._protect_others(fault)
        self._active.append(fault)
        if fault.ends_nodes == "inject":
            carry_usage(self.world, fault.nodes)
        self._record_fault("inject", fault, asked=str(step))
        fault.inject()
        if fault.ends_nodes:
            for other in self._active:
                other.note_ended(fault.nodes)
        shown = self._prove("injected", fault, "effect_verified", fault.verify_injected)
        capture_offsets(self.world, f"{self.phase.name}: {fault.key} active")
        if not shown and self.world.guard:
            silent = hooked(self.world.servers).heal_others(fault.key, fault.nodes)
            now = f"{some_of([node.name for node in silent])} did not answer" if silent else "every broker answered"
            raise HarnessError(f"The hook {fault.key} had no visible effect on {_names(fault)}; {now}.")

    def note(self, fault: Fault, step: Step) -> None:
        """Record a fault that somebody else has injected."""
        self._active.append(fault)
        self._record_fault("inject", fault, asked=str(step))
        self._prove("injected", fault, "effect_verified", fault.verify_injected)

    def _protect_others(self, fault: Fault) -> None:
        brokers = [broker_id(node) for node in fault.nodes if node.role == "broker"]
        if self.world.guard and brokers:
            self.world.guard.before_fault(brokers, is_first=not self._active)

    def heal(self, fault: Fault) -> None:
        record_exits(self.world)  # earlier exits go under this fault
        self._record_fault("heal", fault)
        if fault.ends_nodes == "heal":
            carry_usage(self.world, fault.nodes)
        fault.heal()  # else retried at the phase's end
        self._active.remove(fault)
        self._prove("healed", fault, "recovery_verified", fault.verify_cleared)
        if fault.ends_nodes:
            for other in self._active:
                other.note_started()

    def _prove(self, kind: str, fault: Fault, name: str, proof: Callable[[], Evidence]) -> bool:
        try:
            detail = {name: True, **proof()}
        except WaitTimeout as error:
            detail = {name: False, "why": str(error)}
        self._record_fault(kind, fault, **detail)
        return bool(detail[name])

    def _record_fault(self, kind: str, fault: Fault, **detail: Any) -> None:
        self.world.events.add(kind, phase=self.phase.name, step=fault.key, target=_names(fault), **detail)

    def active(self, nodes: list[Node]) -> list[Fault]:
        return [fault for fault in self._active if any(node in nodes for node in fault.nodes)]

    def restart(self, fault: Fault, step: Step, meanwhile: Callable[[Node], None] | None = None) -> None:
        """Restart a node, with ``meanwhile`` while it is down; verify both."""
        self.inject(fault, step)
        for node in fault.nodes:
            if meanwhile:
                meanwhile(node)
        self.heal(fault)

    def heal_on(
        self, nodes: list[Node], keys: tuple[str, ...], which: Callable[[Fault], bool] = lambda _: True
    ) -> None:
        """Heal faults of these kinds on these nodes.

        Raises:
            HarnessError: this phase has none, or one covers other nodes.
        """
        found = [fault for fault in self.active(nodes) if fault.key in keys and which(fault)]
        if not found:
            raise HarnessError(f"{nodes[0].name} has no {' or '.join(keys)} active to end.")
        for fault in found:
            _check_whole(fault, nodes)
        for fault in found:
            self.heal(fault)

    def wait(self, condition: Condition, limit_s: float, step: Step) -> None:
        started = time.monotonic()
        seen = ""

        def holds() -> bool:
            nonlocal seen
            self.check_run()
            met, seen = self._check(condition)
            return met

        every_s = 1.0 if condition.steady_state else 0.02  # the load has one figure per second
        try:
            wait_until(holds, limit_s=limit_s, what=str(condition), every_s=every_s, last_seen=lambda: seen)
            kind = "condition_met"
        except WaitTimeout:
            kind = "wait_timed_out"
        waited_ms = round((time.monotonic() - started) * 1000)
        self._record(kind, step, condition=str(condition), waited_ms=waited_ms, limit_s=limit_s, last_seen=seen)

    def require(self, condition: Condition, step: Step) -> None:
        met, seen = self._check(condition)
        why = f"{'holds' if met else 'does not hold'}: {seen}"
        self._record("precondition", step, condition=str(condition), met=met, why=why)

    def _check(self, condition: Condition) -> tuple[bool, str]:
        for name in ("log_end_offset", "high_watermark", "log_start_offset"):
            if wanted := getattr(condition, name):
                return self._check_offset(wanted, name)
        if condition.target:
            return self._check_brokers(condition, condition.target)
        if condition.steady_state:
            return self._steadiness.look()
        if condition.controller_changed:
            now = self.world.reports.active_controller()
            return now not in (None, self._controller_before), f"controller {now}, {self._controller_before} before"
        return self._check_partitions(condition)

    def _check_partitions(self, condition: Condition) -> tuple[bool, str]:
        about = condition.about
        partitions = [partition for partition in self.world.partitions if about in (partition.topic, str(partition))]
        if condition.isr_full:
            return self._all(partitions, lambda view: set(view.isr) == set(view.replicas))
        if condition.leader_changed:
            return self._all(partitions, lambda view: view.leader not in (-1, self._leaders[_partition_of(view)]))
        if condition.balanced:
            return self._all(partitions, lambda view: view.leader == view.replicas[0])
        return self._all(partitions, lambda view: self._is_caught_up(_partition_of(view)))

    def _check_brokers(self, condition: Condition, target: Target) -> tuple[bool, str]:
        numbers = {broker_id(node) for node in self.nodes(target)}
        partitions = [target.of] if target.of else self.world.partitions
        if condition.out_of_isr:
            return self._all(partitions, lambda view: not numbers.intersection(view.isr))
        if condition.in_isr:
            return self._all(partitions, lambda view: numbers.issubset(view.isr))
        return self._all(partitions, lambda view: view.leader in numbers)

    def _check_offset(self, wanted: OffsetBetween, name: str) -> tuple[bool, str]:
        partition = wanted.node.of or self.world.partitions[0]
        samples = {node.name: self.world.reports.sample(broker_id(node), partition) for node in self.nodes(wanted.node)}
        offsets = {node: getattr(sample, name) if sample else None for node, sample in samples.items()}
        seen = (f"{partition} on {node}: {name.replace('_', ' ')} {offset}" for node, offset in offsets.items())
        return all(map(wanted.holds, offsets.values())), "; ".join(seen)

    def _all(self, partitions: list[TopicPartition], holds: Callable[[PartitionView], bool]) -> tuple[bool, str]:
        views = self.world.reports.current_views_of(partitions).values()
        held = [bool(current) and all(map(holds, current)) for current in views]
        # One failing view per partition; failing partitions first.
        seen = [min(current, key=holds, default=None) for current in views]
        if len(seen) > MOST_SEEN:
            seen = [seen[at] for at in sorted(range(len(seen)), key=held.__getitem__)]
        shown = [str(view or "no view") for view in seen[:MOST_SEEN]]
        more = [f"{len(seen) - MOST_SEEN:,} more"] if len(seen) > MOST_SEEN else []
        return all(held), "; ".join([*shown, *more])

    def _is_caught_up(self, partition: TopicPartition) -> bool:
        samples = [self.world.reports.sample(number, partition) for number in self.world.replicas(partition)]
        ends = [sample.log_end_offset for sample in samples if sample and sample.log_end_offset is not None]
        return len(ends) == len(samples) and max(ends) - min(ends) <= CAUGHT_UP_RECORDS

    def _record(self, kind: str, step: Step, **detail: Any) -> None:
        self.world.events.add(kind, phase=self.phase.name, step=step.key, target=_target_of(step), **detail)


def _check_whole(fault: Fault, nodes: list[Node]) -> None:
    """Check that a fault's nodes are healed together: the judge expects one recovery."""
    if any(node not in nodes for node in fault.nodes):
        names = ", ".join(node.name for node in fault.nodes)
        raise HarnessError(
            f"The {fault.key} of {names} is one fault; name all of them to end it, or {fault.key} them one by one."
        )


def _healing_order(active: list[Fault]) -> list[Fault]:
    """Heal first what ended brokers need, then newest first, damaged files last."""
    ended = [node for fault in active if fault.ends_nodes for node in fault.nodes]

    def turn(fault: Fault) -> int:
        return 0 if ended and fault.hinders(ended) else 2 if fault.healed_last else 1

    newest_first = active[::-1]
    return sorted(newest_first, key=turn)


def _names(fault: Fault) -> str:
    return ", ".join(node.name for node in fault.nodes)


def _partition_of(view: PartitionView) -> TopicPartition:
    return TopicPartition(view.topic, view.partition)


def _target_of(step: Step) -> str:
    return next((str(value) for _, value in step if isinstance(value, Target)), "")
