"""A DAG per scenario; docs/dev/architecture.md explains why a run is judged after teardown."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Any

from airflow.sdk import DAG, Param, TriggerRule, chain

from clusters.run.stages import TEAR_DOWN, Stage, stages
from clusters.scenario.scenario import Scenario, load_scenario, scenario_names
from history.errors import BadInput
from history.kafka_versions import CLIENT_RELEASES, DEFAULT_RELEASE
from operators.judge import Judge
from operators.publish import Publish
from operators.scenario_doc import display_name, doc_of, tags
from operators.stages import JUDGE, PUBLISH, RESOLVE
from operators.steps import PrepareRun, RunStep, StartCluster, TearDown, watch

KAFKA = [DEFAULT_RELEASE, *CLIENT_RELEASES]
PARAMS = {
    "kafka": Param(
        DEFAULT_RELEASE,
        type="string",
        title="Kafka",
        examples=KAFKA,
        description="A released version from 2.8.0 on; or a folder, a tarball or an image of your own build",
    ),
    "runtime": Param(
        "auto",
        type="string",
        title="Runtime",
        enum=["auto", "docker", "process"],
        values_display={
            "auto": "auto: Docker where a daemon answers, else processes",
            "docker": "docker: a container for each node; all faults",
            "process": "process: local processes; no network and resource faults",
        },
        description="Where brokers and clients run",
    ),
    "rate": Param(
        None,
        type=["null", "number"],
        title="Rate",
        exclusiveMinimum=0,
        description="Records per second; empty: the scenario's own",
    ),
    "seed": Param(
        None, type=["null", "integer"], title="Seed", description="Of random targets; empty: a new one for each run"
    ),
    "subnet": Param(
        None,
        type=["null", "string"],
        title="Subnet",
        section="Rarely needed",
        description="The run's own network, such as 10.199.7.0/24; empty: a free one",
    ),
    "run_dir": Param(
        None,
        type=["null", "string"],
        title="Prepared run folder",
        section="Rarely needed",
        description="The folder of a run that is prepared already; `make run` uses it",
    ),
}


def build(name: str) -> DAG:
    """Build a scenario's DAG, given by name or file."""
    scenario = load_scenario(name)
    with DAG(
        scenario.name,
        dag_display_name=display_name(scenario),
        description=scenario.why,
        doc_md=doc_of(scenario),
        schedule=None,
        params=PARAMS,
        default_args={"owner": "plimsoll", "retries": 0},  # a retry would be another experiment
        tags=tags(scenario),
    ) as dag:
        resolve = PrepareRun(task_id=RESOLVE.name, scenario=name, execution_timeout=RESOLVE.limit(scenario))
        run: Any = resolve.output
        recording = {stage: _task(stage, run, scenario) for stage in stages(scenario)}
        judge = Judge(task_id=JUDGE.name, run=run, **_settings(JUDGE, scenario))
        publish = Publish(task_id=PUBLISH.name, run=run, **_settings(PUBLISH, scenario))
        chain(resolve, *recording.values(), judge, publish)
        setups = [task for stage, task in recording.items() if stage.role in ("start", "setup")]
        recording[TEAR_DOWN].as_teardown(setups=setups, on_failure_fail_dagrun=True)
        watched = [task for task in dag.tasks if not task.is_setup]  # failed setups fail their successors, too
        watch(watched, last=publish)
    return dag


def _task(stage: Stage, run: Any, scenario: Scenario) -> RunStep:
    kind = {"start": StartCluster, "teardown": TearDown}.get(stage.role, RunStep)
    name = stage.phase or stage.name
    return kind(task_id=stage.name, task_display_name=name, run=run, stage=stage, **_settings(stage, scenario))


def _settings(stage: Stage, scenario: Scenario) -> dict[str, Any]:
    """Collect and judge even after a failure."""
    rule = TriggerRule.ALL_DONE_MIN_ONE_SUCCESS if stage.role == "end" else TriggerRule.ALL_SUCCESS
    return {"execution_timeout": stage.limit(scenario), "trigger_rule": rule}


def build_all() -> Iterator[DAG]:
    """Skip unreadable scenarios, because others may have live runs."""
    for name in scenario_names():
        try:
            yield build(name)
        except BadInput as error:
            logging.getLogger("plimsoll.dags").warning("Scenario %s has no DAG: %s", name, error)


# a run must not fail over another scenario
_only = os.environ.get("PLIMSOLL_SCENARIO")
for _dag in [build(_only)] if _only else build_all():
    globals()[_dag.dag_id] = _dag
