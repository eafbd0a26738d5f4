"""What each step does. ``ACTIONS`` has one function for each class of step in ``clusters.story``."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from clusters import page_cache, story
from clusters.admin import elect_preferred
from clusters.capture import write_directly
from clusters.client_nodes import offer
from clusters.faults.lagging import LagFault
from clusters.faults.processes import Killed, Paused, Stopped
from clusters.partition import TopicPartition
from history.errors import HarnessError

if TYPE_CHECKING:
    from clusters.steps import PhaseRun


def _hold(_run: PhaseRun, step: story.Hold) -> None:
    threading.Event().wait(step.seconds)  # the experiment's own time, during which the load runs on


def _offer(run: PhaseRun, step: story.Offer) -> None:
    run.world.events.add("offered", phase=run.phase.name, step=step.key, **offer(run.world, step.rate))


def _wait(run: PhaseRun, step: story.Wait) -> None:
    run.wait(step.condition, step.limit, step)


def _window(run: PhaseRun, step: story.Window) -> None:
    run.window(step.condition, step)


def _lag(run: PhaseRun, step: story.Lag) -> None:
    run.inject(LagFault(run.world, run.node(step.node), _partition(run, step.node), step.records, "lag"), step)


def _slow(run: PhaseRun, step: story.Slow) -> None:
    node = run.node(step.node)
    if run.in_force([node], ("lag",)):
        run.heal_on([node], ("lag",))
    run.inject(LagFault(run.world, node, _partition(run, step.node), None, "slow"), step)
    run.wait(step.until, step.limit, step)


def _partition(run: PhaseRun, target: story.Target) -> TopicPartition:
    return target.of or run.world.partitions[0]


def _pause(run: PhaseRun, step: story.Pause) -> None:
    run.inject(Paused(run.world, run.nodes(step.node)), step)


def _resume(run: PhaseRun, step: story.Resume) -> None:
    run.heal_on(run.nodes(step.node), ("pause",))


def _kill(run: PhaseRun, step: story.Kill) -> None:
    run.inject(Killed(run.world, run.nodes(step.node)), step)


def _stop(run: PhaseRun, step: story.Stop) -> None:
    run.inject(Stopped(run.world, run.nodes(step.node)), step)


def _start(run: PhaseRun, step: story.Start) -> None:
    run.heal_on(run.nodes(step.node), ("kill", "stop"))


def _heal(run: PhaseRun, _step: story.Heal) -> None:
    run.heal_all()


def _elect(run: PhaseRun, step: story.Elect) -> None:
    """A preferred replica that is not in sync cannot lead; that is recorded, and the phase goes on."""
    answering = next((number for number in run.world.brokers if run.world.view_of(number)), None)
    if answering is None:
        raise HarnessError("No broker answers that could be asked for an election.")
    try:
        elect_preferred(run.world.connection(answering), run.world.partitions)
        refused = None
    except (HarnessError, OSError) as error:
        refused = str(error)
    run.world.events.add("elected", phase=run.phase.name, step=step.key, refused=refused)


def _drop_cache(run: PhaseRun, step: story.DropCache) -> None:
    found: dict[str, Any] = page_cache.drop([node.folder / "data" for node in run.world.brokers.values()])
    run.world.events.add("cache_dropped", phase=run.phase.name, step=step.key, **found)


def _write(run: PhaseRun, step: story.Write) -> None:
    write_directly(run.world, run.node(step.to), step, run.phase.name)


ACTIONS: dict[type[story.Step], Callable[[PhaseRun, Any], None]] = {
    story.Hold: _hold,
    story.Offer: _offer,
    story.Wait: _wait,
    story.Window: _window,
    story.Lag: _lag,
    story.Slow: _slow,
    story.Pause: _pause,
    story.Resume: _resume,
    story.Kill: _kill,
    story.Stop: _stop,
    story.Start: _start,
    story.Heal: _heal,
    story.Elect: _elect,
    story.DropCache: _drop_cache,
    story.Write: _write,
}
