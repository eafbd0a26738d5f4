"""Perform the steps without faults: wait, observe, write and read."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import Any

from clusters.clients.direct_writes import write_directly
from clusters.clients.nodes import set_rate
from clusters.clients.replica_reader import ReplicaReader
from clusters.faults.phase import PhaseRun, performs
from clusters.live.describe import describe
from clusters.runtimes import page_cache
from clusters.scenario.steps import flow as steps


@performs(steps.Hold)
def _hold(run: PhaseRun, step: steps.Hold) -> None:
    run.hold(step.seconds)


@performs(steps.SetRate)
def _set_rate(run: PhaseRun, step: steps.SetRate) -> None:
    load = run.world.scenario.load_name(step.load)
    taken = set_rate(run.world, load, step.rate)
    run.world.events.add("rate_set", phase=run.phase.name, step=step.key, target=load, **taken)


@performs(steps.Wait)
def _wait(run: PhaseRun, step: steps.Wait) -> None:
    run.wait(step.condition, step.limit, step)


@performs(steps.Require)
def _require(run: PhaseRun, step: steps.Require) -> None:
    run.require(step.condition, step)


@performs(steps.Heal)
def _heal(run: PhaseRun, _step: steps.Heal) -> None:
    run.heal_all()


@performs(steps.Describe)
def _describe(run: PhaseRun, step: steps.Describe) -> None:
    run.world.events.add("described", phase=run.phase.name, target=step.topic, **describe(run.world, step.topic))


@performs(steps.DropCache)
def _drop_cache(run: PhaseRun, step: steps.DropCache) -> None:
    found: dict[str, Any] = page_cache.drop(
        [folder for node in run.world.servers.brokers.values() for folder in node.log_dirs]
    )
    run.world.events.add("cache_dropped", phase=run.phase.name, step=step.key, **found)


@performs(steps.Write)
def _write(run: PhaseRun, step: steps.Write) -> None:
    node = run.node(step.to)
    write, limit_s = partial(write_directly, run.world, node, step, run.phase.name), step.limit_s
    if step.background:
        stop = threading.Event()
        run.in_background(partial(write, lambda: not stop.is_set()), end=stop.set, limit_s=limit_s)
    else:
        gives_up = time.monotonic() + limit_s
        write(lambda: time.monotonic() < gives_up)


@performs(steps.Read)
def _read(run: PhaseRun, step: steps.Read) -> None:
    reader = ReplicaReader(run.world, run.node(step.replica), step)
    run.in_background(reader.run, end=reader.stop.set)
