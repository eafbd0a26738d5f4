"""Pause, end, restart or replace nodes: brokers, controllers and members of the group."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from clusters.faults.members import KilledMember, PausedMember, StoppedMember
from clusters.faults.phase import PhaseRun, performs
from clusters.faults.processes import Ended, Killed, Paused, Stopped
from clusters.kafka.features import METADATA_VERSION, finalise_metadata, level_name, metadata_level
from clusters.kafka.servers import PROTOCOL_VERSION
from clusters.live.servers import Software
from clusters.runtimes.nodes import Node
from clusters.runtimes.runtime import available
from clusters.scenario.conditions import Condition
from clusters.scenario.steps import processes as steps
from clusters.scenario.steps.step import Step
from clusters.waiting import wait_until
from history.errors import HarnessError

LIMIT_S = 60.0
_OF_SERVERS: dict[str, type[Ended]] = {fault.key: fault for fault in (Killed, Stopped)}
_OF_MEMBERS: dict[str, type[Ended]] = {fault.key: fault for fault in (KilledMember, StoppedMember)}


@performs(steps.Pause)
def _pause(run: PhaseRun, step: steps.Pause) -> None:
    nodes = run.nodes(step.node)
    lagging = [fault for fault in run.active(nodes) if fault.throttles_fetches]
    if run.world.runtime.network is None and lagging:
        raise HarnessError(
            f"{lagging[0].nodes[0].name} has {lagging[0].key} active, for which the process runtime pauses and "
            "resumes it, so that it cannot be paused; heal that first, or use --runtime=docker."
        )
    run.inject((PausedMember if step.node.kind == "member" else Paused)(run.world, nodes), step)


@performs(steps.Kill, steps.Stop)
def _end(run: PhaseRun, step: steps.Kill | steps.Stop) -> None:
    faults = _OF_MEMBERS if step.node.kind == "member" else _OF_SERVERS
    run.inject(faults[step.key](run.world, run.nodes(step.node)), step)


@performs(steps.Resume, steps.Start)
def _begin(run: PhaseRun, step: steps.Resume | steps.Start) -> None:
    run.heal_on(run.nodes(step.node), step.ends)


@performs(steps.Restart)
def _restart(run: PhaseRun, step: steps.Restart) -> None:
    if step.node.kind == "member":
        for node in run.nodes(step.node):
            run.restart(StoppedMember(run.world, [node]), step)
        return
    change = (lambda node: _software(run).configure(node, step.settings)) if step.settings else None
    _roll(run, step, run.nodes(step.node), change)


@performs(steps.Bounce)
def _bounce(run: PhaseRun, step: steps.Bounce) -> None:
    for _ in range(step.times):
        run.restart(_OF_SERVERS[step.by](run.world, run.nodes_now(step.node)), step)


@performs(steps.CrashLoop)
def _crash_loop(run: PhaseRun, step: steps.CrashLoop) -> None:
    for turn in range(step.times):
        if turn:
            threading.Event().wait(step.after)  # as for a process that crashes after its start
        run.restart(Killed(run.world, run.nodes(step.node)), step)


@performs(steps.Upgrade, steps.Rollback)
def _upgrade(run: PhaseRun, step: steps.Upgrade | steps.Rollback) -> None:
    _roll(run, step, run.nodes(step.node), lambda node: _software(run).replace_binaries(node, step.kafka))


@performs(steps.Finalise)
def _finalise(run: PhaseRun, step: steps.Finalise) -> None:
    world = run.world
    if world.plan.mode == "kraft":
        level = metadata_level(step.to)
        world.reports.ask(lambda broker: finalise_metadata(broker, level))
        wanted = {METADATA_VERSION: level_name(level)}
    else:
        wanted = {PROTOCOL_VERSION: step.to}
        _roll(run, step, list(world.servers.brokers.values()), lambda node: _software(run).configure(node, wanted))
    features = wait_until(
        lambda: found if wanted.items() <= (found := world.reports.features()).items() else None,
        limit_s=LIMIT_S,
        what=f"a broker to report {wanted}",
    )
    world.events.add("finalised", phase=run.phase.name, step=step.key, features=features)


def _software(run: PhaseRun) -> Software:
    return available(run.world.servers.software, "files of its servers")


def _roll(run: PhaseRun, step: Step, nodes: Sequence[Node], meanwhile: Callable[[Node], None] | None) -> None:
    for index, node in enumerate(nodes):
        for topic in run.world.scenario.topics if index else ():
            run.wait(Condition(isr_full=topic), LIMIT_S, step)
        run.restart(Stopped(run.world, [node]), step, meanwhile)
