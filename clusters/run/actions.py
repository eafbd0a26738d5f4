"""Perform steps: ``ACTIONS`` has one function per class in ``steps.catalog.STEPS``."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, get_args

from clusters.clients.direct_writes import write_directly
from clusters.clients.nodes import set_rate
from clusters.clients.replica_reader import ReplicaReader
from clusters.faults.copier import KilledCopier
from clusters.faults.disk import DeletedCheckpoint, FailedLogDir, FlippedBit, FullDisk, ReadOnlyDisk, Truncated, Wiped
from clusters.faults.lagging import LagFault
from clusters.faults.members import KilledMember, PausedMember, StoppedMember
from clusters.faults.network import Delayed, LimitedBandwidth, Peer, disconnect_each, lose
from clusters.faults.processes import Killed, Paused, Stopped
from clusters.faults.resources import LimitedCpu, SlowDisk
from clusters.faults.topology import (
    HIGH_WATERMARK,
    Change,
    ChurnLeadership,
    Configured,
    Deleted,
    Reassigned,
    leader_first,
    move_leader,
    throttle,
)
from clusters.kafka.admin import NOT_ELECTED, check_elected, elect_preferred, elect_unclean
from clusters.kafka.features import METADATA_VERSION, finalise_metadata, level_name, metadata_level
from clusters.kafka.servers import PROTOCOL_VERSION
from clusters.kafka.wire import Connection, error_name
from clusters.live.describe import describe
from clusters.live.world import broker_id
from clusters.run import page_cache
from clusters.run.phase import PhaseRun
from clusters.runtimes.nodes import Node
from clusters.runtimes.runtime import Network, available
from clusters.scenario.conditions import Condition
from clusters.scenario.durations import write_limit_s
from clusters.scenario.steps import disks, flow, network, processes, topology
from clusters.scenario.steps.step import Step
from clusters.scenario.targets import Target
from clusters.waiting import wait_until
from history.errors import HarnessError, Refused, WaitTimeout
from history.partition import TopicPartition

LEAD_LIMIT_S = 20.0
ISR_LIMIT_S = 60.0
SEEN_LIMIT_S = 0.5


def _hold(run: PhaseRun, step: flow.Hold) -> None:
    run.hold(step.seconds)


def _set_rate(run: PhaseRun, step: flow.SetRate) -> None:
    load = run.world.scenario.load_name(step.load)
    taken = set_rate(run.world, load, step.rate)
    run.world.events.add("rate_set", phase=run.phase.name, step=step.key, target=load, **taken)


def _wait(run: PhaseRun, step: flow.Wait) -> None:
    run.wait(step.condition, step.limit, step)


def _require(run: PhaseRun, step: flow.Require) -> None:
    run.require(step.condition, step)


def _lag(run: PhaseRun, step: network.Lag) -> None:
    run.inject(LagFault(run.world, run.node(step.node), _partition(run, step.node), step.records, "lag"), step)


def _slow(run: PhaseRun, step: network.Slow) -> None:
    node = run.node(step.node)
    if run.active([node], ("lag",)):
        run.heal_on([node], ("lag",))
    run.inject(LagFault(run.world, node, _partition(run, step.node), None, "slow"), step)
    run.wait(step.until, step.limit, step)


def _partition(run: PhaseRun, target: Target) -> TopicPartition:
    return target.of or run.world.partitions[0]


def _pause(run: PhaseRun, step: processes.Pause) -> None:
    nodes = run.nodes(step.node)
    if run.world.runtime.network is None and (lagging := run.active(nodes, ("lag", "slow"))):
        raise HarnessError(
            f"{lagging[0].nodes[0].name} has {lagging[0].key} active, for which the process runtime pauses and "
            "resumes it, so that it cannot be paused; heal that first, or use RUNTIME=docker."
        )
    run.inject((PausedMember if step.node.of_members else Paused)(run.world, nodes), step)


def _resume(run: PhaseRun, step: processes.Resume) -> None:
    run.heal_on(run.nodes(step.node), step.ends)


def _kill(run: PhaseRun, step: processes.Kill) -> None:
    run.inject((KilledMember if step.node.of_members else Killed)(run.world, run.nodes(step.node)), step)


def _stop(run: PhaseRun, step: processes.Stop) -> None:
    run.inject((StoppedMember if step.node.of_members else Stopped)(run.world, run.nodes(step.node)), step)


def _limit_cpu(run: PhaseRun, step: processes.LimitCpu) -> None:
    limits = available(run.world.runtime.resource_limits, "resource limits")
    run.inject(LimitedCpu(run.world, limits, run.nodes(step.node), step.cpus), step)


def _fill_disk(run: PhaseRun, step: disks.FillDisk) -> None:
    disks_of_nodes = available(run.world.runtime.disks, "disk for each node")
    run.inject(FullDisk(run.world, run.nodes(step.node), disks=disks_of_nodes), step)


def _read_only_disk(run: PhaseRun, step: disks.ReadOnlyDisk) -> None:
    run.inject(ReadOnlyDisk(run.world, run.nodes(step.node)), step)


def _fail_log_dir(run: PhaseRun, step: disks.FailLogDir) -> None:
    run.inject(FailedLogDir(run.world, [run.node(step.node)], partition=step.partition), step)


def _slow_disk(run: PhaseRun, step: disks.SlowDisk) -> None:
    limits = available(run.world.runtime.resource_limits, "resource limits")
    run.inject(SlowDisk(run.world, limits, run.nodes(step.node), step.rate), step)


def _wipe(run: PhaseRun, step: disks.Wipe) -> None:
    for node in run.nodes(step.node):
        run.inject(Wiped(run.world, node), step)


def _truncate(run: PhaseRun, step: disks.Truncate) -> None:
    run.inject(Truncated(run.world, run.node(step.node), step.partition, step.records, step.bytes), step)


def _delete_checkpoint(run: PhaseRun, step: disks.DeleteCheckpoint) -> None:
    run.inject(DeletedCheckpoint(run.world, run.node(step.node), step.what), step)


def _flip_bit(run: PhaseRun, step: disks.FlipBit) -> None:
    run.inject(FlippedBit(run.world, run.node(step.node), step.partition, step.offset), step)


def _start(run: PhaseRun, step: processes.Start) -> None:
    run.heal_on(run.nodes(step.node), step.ends)


def _roll(run: PhaseRun, step: Step, nodes: Sequence[Node], meanwhile: Callable[[Node], None]) -> None:
    for index, node in enumerate(nodes):
        for topic in run.world.scenario.topics if index else ():
            run.wait(Condition(isr_full=topic), ISR_LIMIT_S, step)
        run.restart(Stopped(run.world, [node]), step, meanwhile)


def _restart(run: PhaseRun, step: processes.Restart) -> None:
    if step.node.of_members:
        for node in run.nodes(step.node):
            run.restart(StoppedMember(run.world, [node]), step)
        return
    _roll(run, step, run.nodes(step.node), lambda node: run.world.configure(node, step.settings))


def _bounce(run: PhaseRun, step: processes.Bounce) -> None:
    ended = {"stop": Stopped, "kill": Killed}[step.by]
    for _ in range(step.times):
        run.restart(ended(run.world, run.nodes_now(step.node)), step)


def _crash_loop(run: PhaseRun, step: processes.CrashLoop) -> None:
    for turn in range(step.times):
        if turn:
            threading.Event().wait(step.after)  # as for a process that crashes after its start
        run.restart(Killed(run.world, run.nodes(step.node)), step)


def _kill_copier(run: PhaseRun, step: processes.KillCopier) -> None:
    for _ in range(step.times):
        fault = KilledCopier(run.world)
        run.inject(fault, step)
        run.heal_on(fault.nodes, (fault.key,))


def _upgrade(run: PhaseRun, step: processes.Upgrade) -> None:
    _roll(run, step, run.nodes(step.node), lambda node: run.world.replace_binaries(node, step.kafka))


def _rollback(run: PhaseRun, step: processes.Rollback) -> None:
    _roll(run, step, run.nodes(step.node), lambda node: run.world.replace_binaries(node, None))


def _finalise(run: PhaseRun, step: processes.Finalise) -> None:
    world = run.world
    if world.plan.mode == "kraft":
        level = metadata_level(step.to)
        world.ask(lambda broker: finalise_metadata(broker, level))
        wanted = {METADATA_VERSION: level_name(level)}
    else:
        wanted = {PROTOCOL_VERSION: step.to}
        _roll(run, step, list(world.brokers.values()), lambda node: world.configure(node, wanted))
    features = wait_until(
        lambda: found if wanted.items() <= (found := world.features()).items() else None,
        limit_s=ISR_LIMIT_S,
        what=f"a broker to report {wanted}",
    )
    world.events.add("finalised", phase=run.phase.name, step=step.key, features=features)


def _heal(run: PhaseRun, _step: flow.Heal) -> None:
    run.heal_all()


def _elect(run: PhaseRun, step: topology.Elect) -> None:
    world = run.world
    if step.who == "preferred":
        ask = partial(world.ask, lambda broker: elect_preferred(broker, world.partitions))
        _record_election(run, step, ask, who=step.who)
    else:
        unclean: list[str] = []
        ask = partial(world.ask, lambda broker: _elect_unclean(broker, world.partitions, unclean))
        _record_election(run, step, ask, who=step.who, unclean=unclean)


def _elect_unclean(broker: Connection, partitions: list[TopicPartition], unclean: list[str]) -> None:
    """Elect; add to ``unclean`` the partitions that may have lost records."""
    try:
        answers = elect_unclean(broker, partitions)
    except HarnessError:  # no controller received the request
        raise
    except BaseException:
        unclean.extend(map(str, partitions))  # it may have happened
        raise
    unclean.extend(str(of) for of, answer in answers.items() if error_name(answer.error_code) not in NOT_ELECTED)
    check_elected(answers)


def _record_election(run: PhaseRun, step: Step, elect: Callable[[], object], **told: Any) -> None:
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
        run.world.events.add("elected", phase=run.phase.name, step=step.key, refused=refused, led=led, **told)


def _led(run: PhaseRun) -> dict[str, list[int]]:
    views = run.world.partition_views(run.world.partitions)
    return {str(partition): [view.leader, view.leader_epoch] for partition, view in views.items() if view}


def _describe(run: PhaseRun, step: flow.Describe) -> None:
    run.world.events.add("described", phase=run.phase.name, target=step.topic, **describe(run.world, step.topic))


def _reassign(run: PhaseRun, step: topology.Reassign) -> None:
    run.inject(Reassigned(run.world, step.topic, step.to, step.limit), step)


def _churn_leadership(run: PhaseRun, step: topology.ChurnLeadership) -> None:
    ids = run.world.scenario.cluster.broker_ids
    run.inject(ChurnLeadership(run.world, step.partition, [ids[letter] for letter in step.between], step.times), step)


def _delete_records(run: PhaseRun, step: topology.DeleteRecords) -> None:
    before = HIGH_WATERMARK if isinstance(step.before, str) else step.before
    run.inject(Deleted(run.world, step.partition, before), step)


def _configure(run: PhaseRun, step: topology.Configure) -> None:
    if step.topic is not None:
        change = Change("topic", step.topic, step.set)
    else:
        change = Change("broker", str(run.node(_named(step.broker)).node_id), step.set)
    _configured(run, [change], step)


def _named(target: Target | None) -> Target:
    if target is None:
        raise HarnessError("The step names no broker.")
    return target


def _throttle(run: PhaseRun, step: topology.Throttle) -> None:
    _configured(run, throttle(run.world, run.node(step.node), step.rate), step)


def _configured(run: PhaseRun, changes: list[Change], step: Step) -> None:
    """Change settings, unless an active fault did: its effect and original value would be lost."""
    active = run.active(list(run.world.brokers.values()), ("configure", "throttle"))
    earlier = [change for fault in active if isinstance(fault, Configured) for change in fault.changes]
    taken = {(change.resource, change.name, setting) for change in earlier for setting in change.config}
    for resource, name, config in changes:
        if twice := [setting for setting in config if (resource, name, setting) in taken]:
            raise HarnessError(
                f"{twice[0]} of {resource} {name} is changed by a fault that is active; end that first, with heal: all."
            )
    run.inject(Configured(run.world, changes, step.key), step)


def _drop_cache(run: PhaseRun, step: flow.DropCache) -> None:
    found: dict[str, Any] = page_cache.drop([folder for node in run.world.brokers.values() for folder in node.log_dirs])
    run.world.events.add("cache_dropped", phase=run.phase.name, step=step.key, **found)


def _write(run: PhaseRun, step: flow.Write) -> None:
    node = run.node(step.to)
    write, limit_s = partial(write_directly, run.world, node, step, run.phase.name), write_limit_s(step)
    if step.background:
        stop = threading.Event()
        run.in_background(partial(write, lambda: not stop.is_set()), end=stop.set, limit_s=limit_s)
    else:
        gives_up = time.monotonic() + limit_s
        write(lambda: time.monotonic() < gives_up)


def _read(run: PhaseRun, step: flow.Read) -> None:
    reader = ReplicaReader(run.world, run.node(step.replica), step)
    run.in_background(reader.run, end=reader.stop.set)


def _network(run: PhaseRun) -> Network:
    return available(run.world.runtime.network, "network between its nodes")


def _disconnect(run: PhaseRun, step: network.Disconnect) -> None:
    run.inject(
        disconnect_each(run.world, _network(run), run.nodes(step.node), _peers(run, step.peers), step.direction), step
    )


def _reconnect(run: PhaseRun, step: network.Reconnect) -> None:
    nodes, peers = run.nodes(step.node), _peers(run, step.peers)
    rules = {
        disconnect_each(run.world, _network(run), nodes, peers, direction).rule
        for direction in get_args(network.Direction)
    }
    run.heal_on(nodes, step.ends, lambda fault: getattr(fault, "rule", None) in rules)


def _peers(run: PhaseRun, peers: list[Any]) -> list[Peer]:
    return [node for peer in peers for node in (run.nodes(peer) if isinstance(peer, Target) else [peer])]


def _senders(run: PhaseRun, node: Node, targets: list[Target] | None) -> list[Node]:
    if targets is None:
        return [other for other in run.world.brokers.values() if other != node]
    return [sender for target in targets for sender in run.nodes(target)]


def _check_unlimited(run: PhaseRun, node: Node) -> None:
    """Check that no other limit uses the kernel's one traffic class."""
    if run.active([node], ("limit_bandwidth", "delay", "reorder", "lag", "slow")):
        raise HarnessError(f"The traffic into {node.name} is limited or delayed already; end that first.")


def _limit_bandwidth(run: PhaseRun, step: network.LimitBandwidth) -> None:
    node = run.node(step.into)
    _check_unlimited(run, node)
    run.inject(LimitedBandwidth(run.world, _network(run), node, _senders(run, node, step.senders), step.rate), step)


def _delay(run: PhaseRun, step: network.Delay) -> None:
    node = run.node(step.into)
    _check_unlimited(run, node)
    senders = _senders(run, node, step.senders)
    run.inject(Delayed(run.world, _network(run), node, senders, step.by), step)


def _reorder(run: PhaseRun, step: network.Reorder) -> None:
    node = run.node(step.into)
    _check_unlimited(run, node)
    senders = _senders(run, node, step.senders)
    run.inject(Delayed(run.world, _network(run), node, senders, step.by, "reorder", step.percent), step)


def _restore_bandwidth(run: PhaseRun, step: network.RestoreBandwidth) -> None:
    run.heal_on([run.node(step.into)], step.ends)


def _lose(run: PhaseRun, step: network.Lose) -> None:
    node = run.node(step.into)
    run.inject(lose(run.world, _network(run), node, _senders(run, node, step.senders), step.percent), step)


def _transfer_leadership(run: PhaseRun, step: topology.TransferLeadership) -> None:
    world, number = run.world, broker_id(run.node(step.replica))
    partition = _partition(run, step.replica)
    order = leader_first(world, partition, number)
    move = partial(move_leader, world, partition, order, LEAD_LIMIT_S)
    _record_election(run, step, move, target=str(step.replica))


ACTIONS: dict[type[Step], Callable[[PhaseRun, Any], None]] = {
    flow.Hold: _hold,
    flow.SetRate: _set_rate,
    flow.Wait: _wait,
    flow.Require: _require,
    network.Lag: _lag,
    network.Slow: _slow,
    processes.Pause: _pause,
    processes.Resume: _resume,
    processes.Kill: _kill,
    processes.Stop: _stop,
    processes.LimitCpu: _limit_cpu,
    disks.FillDisk: _fill_disk,
    disks.ReadOnlyDisk: _read_only_disk,
    disks.FailLogDir: _fail_log_dir,
    disks.SlowDisk: _slow_disk,
    disks.Wipe: _wipe,
    disks.Truncate: _truncate,
    disks.DeleteCheckpoint: _delete_checkpoint,
    disks.FlipBit: _flip_bit,
    processes.Start: _start,
    processes.Restart: _restart,
    processes.Bounce: _bounce,
    processes.CrashLoop: _crash_loop,
    processes.Upgrade: _upgrade,
    processes.KillCopier: _kill_copier,
    processes.Rollback: _rollback,
    processes.Finalise: _finalise,
    flow.Heal: _heal,
    topology.Elect: _elect,
    flow.Describe: _describe,
    topology.Reassign: _reassign,
    topology.ChurnLeadership: _churn_leadership,
    topology.DeleteRecords: _delete_records,
    topology.Configure: _configure,
    topology.Throttle: _throttle,
    flow.DropCache: _drop_cache,
    flow.Write: _write,
    network.Disconnect: _disconnect,
    network.Reconnect: _reconnect,
    network.LimitBandwidth: _limit_bandwidth,
    network.RestoreBandwidth: _restore_bandwidth,
    network.Delay: _delay,
    network.Reorder: _reorder,
    network.Lose: _lose,
    topology.TransferLeadership: _transfer_leadership,
    flow.Read: _read,
}


def perform(run: PhaseRun, step: Step) -> None:
    """Perform a step."""
    ACTIONS[type(step)](run, step)
