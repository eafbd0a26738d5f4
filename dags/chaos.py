"""One DAG per scenario: its grid is the experiment's timeline.

The run is recorded, collected, torn down, and only then judged; docs/architecture.md says why in that order.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from typing import Any

from airflow.sdk import DAG, Param, TriggerRule, chain

from clusters.jars import DEFAULT
from clusters.scenario import load_scenario, scenario_names
from history.errors import BadInput
from operators.judge import Judge
from operators.publish import Publish
from operators.steps import EndStep, PrepareRun, RunStep, StartCluster, TearDown, Watcher
from operators.timing import phase_limit, task_limit

PARAMS = {
    "kafka": Param(DEFAULT, type="string", description="A version, or a folder or tarball of jars"),
    "runtime": Param("auto", enum=["auto", "docker", "process"]),
    "rate": Param(None, type=["number", "null"], description="Records per second instead of the scenario's"),
    "seed": Param(None, type=["integer", "null"]),
    "subnet": Param(None, type=["string", "null"], description="The run's own network, such as 10.199.7.0/24"),
    "run_dir": Param(None, type=["string", "null"], description="A run folder that is already prepared"),
}


def build(name: str) -> DAG:
    """The DAG of one scenario, given by name or by the path of its file."""
    scenario = load_scenario(name)
    with DAG(
        scenario.name,
        description=scenario.why,
        schedule=None,
        params=PARAMS,
        default_args={"retries": 0},  # a second try would be another experiment
        tags=["chaos"],
    ) as dag:
        resolve = PrepareRun(task_id="resolve", scenario=name, execution_timeout=task_limit("resolve", scenario))
        run: Any = resolve.output  # Airflow puts the path in its place

        def step(
            task_id: str, *arguments: object, call: str = "", kind: type[RunStep] = RunStep, **more: Any
        ) -> RunStep:
            limit = task_limit(task_id, scenario)
            call = call or task_id
            return kind(task_id=task_id, run=run, call=call, arguments=arguments, execution_timeout=limit, **more)

        start_cluster = step("start_cluster", kind=StartCluster)
        create_topics = step("create_topics")
        start_clients = step("start_clients")
        capture_before = step("capture_before", "before", call="capture")  # with load on: an empty topic shows nothing
        phases = [
            RunStep(
                task_id=f"phase_{number}_{re.sub('[^a-z0-9]+', '_', phase.name.lower()).strip('_')}",
                task_display_name=phase.name,
                run=run,
                call="run_phase",
                arguments=(number - 1, phase.name),
                phase=phase.name,
                execution_timeout=phase_limit(phase),
            )
            for number, phase in enumerate(scenario.phases, 1)
        ]
        end = [step("stop_producers"), step("quiesce"), step("drain"), step("capture_after", "after", call="capture")]
        # After a failure the clients still end in order and what there is gets collected, if there is a run at all.
        stop_clients = step("stop_clients", kind=EndStep, trigger_rule=TriggerRule.ALL_DONE_MIN_ONE_SUCCESS)
        collect = step("collect", kind=EndStep, trigger_rule=TriggerRule.ALL_DONE_MIN_ONE_SUCCESS)
        tear_down = step("tear_down", kind=TearDown)
        judge = Judge(
            task_id="judge",
            run=run,
            trigger_rule=TriggerRule.ALL_DONE_MIN_ONE_SUCCESS,
            execution_timeout=task_limit("judge", scenario),
        )
        publish = Publish(
            task_id="publish",
            run=run,
            trigger_rule=TriggerRule.ALL_DONE_MIN_ONE_SUCCESS,
            execution_timeout=task_limit("publish", scenario),
        )
        chain(resolve, start_cluster, create_topics, start_clients, capture_before, *phases, *end, stop_clients)
        chain(stop_clients, collect, tear_down, judge, publish)
        tear_down.as_teardown(setups=[start_cluster, start_clients], on_failure_fail_dagrun=True)
        work = [task for task in dag.tasks if not task.is_setup]  # what follows a failed setup is red, too
        work >> Watcher(task_id="watcher", trigger_rule=TriggerRule.ONE_FAILED)
    return dag


def build_all() -> Iterator[DAG]:
    """Every scenario's; one that cannot be read is left out, because the others may have runs that live."""
    for name in scenario_names():
        try:
            yield build(name)
        except BadInput as error:
            logging.getLogger("plimsoll.dags").warning("Scenario %s has no DAG: %s", name, error)


# A run from the command line needs no other scenario, and should not stumble over one.
_only = os.environ.get("PLIMSOLL_SCENARIO")
for _dag in [build(_only)] if _only else build_all():
    globals()[_dag.dag_id] = _dag
