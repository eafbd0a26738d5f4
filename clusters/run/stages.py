"""The stages of a run in order.

Keep imports light: a DAG file is parsed repeatedly. Judging and pages follow in ``service.stages``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal

from clusters.scenario.durations import (
    MAX_DRAIN_S,
    answers_s,
    catch_up_s,
    expected_phase_s,
    longest_phase_s,
    open_transaction_s,
    settle_s,
)
from clusters.scenario.scenario import Scenario
from history.readers import patience_s

_WORK_WAITS_S = 5.0  # for a previous task that is about to end
_END_WAITS_S = 120.0  # for an abandoned phase to heal


def _last_reads_s(scenario: Scenario) -> float:
    return answers_s(scenario) + max(catch_up_s(scenario) - patience_s(), 0.0)


def _nothing(_: Scenario) -> float:
    return 0.0


@dataclass(frozen=True)
class Stage:
    """A stage: a task of the DAG, and a call of ``clusters.run.experiment``.

    ``teardown`` removes what ``start`` and ``setup`` make; a failure skips ``work``, but not ``end``. ``expected_s`` is
    for two cores with cached jars. The limit is ``limit_s`` plus ``waits_s``.
    """

    name: str
    text: str
    expected_s: float
    limit_s: float = 300.0
    call: str = ""  # default: the name
    arguments: tuple[object, ...] = ()  # after the run's folder
    role: Literal["start", "setup", "work", "end", "teardown"] = "work"
    phase: str = ""
    waits_s: Callable[[Scenario], float] = _nothing

    @property
    def function(self) -> str:
        return self.call or self.name

    @property
    def step_wait_s(self) -> float:
        return _END_WAITS_S if self.role in ("end", "teardown") else _WORK_WAITS_S

    def limit(self, scenario: Scenario) -> timedelta:
        return timedelta(seconds=self.limit_s + self.waits_s(scenario))


_CAPTURING = "capturing every replica's offsets"
BEFORE = (  # the phases
    Stage("start_cluster", "starting the cluster", 12.0, 900.0, role="start"),
    Stage("create_topics", "creating the topics", 2.0),
    Stage("start_clients", "starting the clients", 4.0, role="setup"),
    Stage("capture_before", _CAPTURING, 1.0, call="capture", arguments=("before",)),  # an empty topic shows nothing
)
_READ = (
    Stage("stop_producers", "stopping the producers", 2.0, waits_s=answers_s),
    Stage("quiesce", "waiting for the replicas to come to rest", 3.0, waits_s=open_transaction_s),
    Stage("drain", "reading every record again", 5.0, MAX_DRAIN_S + 300.0),
    Stage("capture_after", _CAPTURING, 1.0, call="capture", arguments=("after",)),
)
STOP_CLIENTS = Stage("stop_clients", "stopping the clients", 2.0, role="end", waits_s=_last_reads_s)
COLLECT = Stage("collect", "collecting logs, segments and checkpoints", 5.0, 900.0, role="end")
TEAR_DOWN = Stage("tear_down", "removing everything that was started", 4.0, role="teardown")
AFTER = (*_READ, STOP_CLIENTS, COLLECT, TEAR_DOWN)


def stages(scenario: Scenario) -> tuple[Stage, ...]:
    """Return the stages of recording a scenario."""
    stop = replace(STOP_CLIENTS, expected_s=STOP_CLIENTS.expected_s + settle_s(scenario))
    start, *before = BEFORE
    if scenario.cluster.ids:
        start = replace(start, text="checking the cluster", expected_s=1.0)
    return (start, *before, *_phases(scenario), *_READ, stop, COLLECT, TEAR_DOWN)


def _phases(scenario: Scenario) -> list[Stage]:
    return [
        Stage(
            f"phase_{number}_{re.sub('[^a-z0-9]+', '_', phase.name.lower()).strip('_')}",
            f"phase {number}/{len(scenario.phases)} {phase.name}",
            expected_phase_s(phase),
            longest_phase_s(phase),
            call="run_phase",
            arguments=(number - 1, phase.name),
            phase=phase.name,
        )
        for number, phase in enumerate(scenario.phases, 1)
    ]


def expected_s(scenario: Scenario) -> float:
    """Return the expected seconds to record a scenario."""
    return sum(stage.expected_s for stage in stages(scenario))
