"""A DAG per scenario, and one for any other; docs/dev/architecture.md explains why a run is judged after teardown."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, BaseOperator, Param, TriggerRule, chain, get_parsing_context
from airflow.sdk.configuration import conf

from clusters.run.stages import AFTER, BEFORE, Stage, stages
from clusters.scenario.scenario import load_scenario, scenario_names
from history.errors import BadInput
from history.kafka_versions import CLIENT_RELEASES, DEFAULT_RELEASE
from history.product import version
from operators.assets import PUBLISHED
from operators.dag_settings import deadline, default_args, retries
from operators.judge import Judge
from operators.publish import Publish, Upload
from operators.scenario_doc import ANY_DOC, display_name, doc_of, tags
from operators.steps import ListPhases, PrepareRun, RunPhase, RunStep, StartCluster, TearDown, watch
from service.stages import ANY_SCENARIO, JUDGE, PUBLISH, RESOLVE, UPLOAD, UPLOAD_TO, recording_queue

SCENARIOS = "PLIMSOLL_SCENARIOS"
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
    "cluster": Param(
        None,
        type=["null", "string"],
        title="Cluster",
        description="Of somebody else: a connection of type kafka, or a cluster file's absolute path; empty: a new one",
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
    "runs": Param(
        None,
        type=["null", "string"],
        title="Folder of runs",
        section="Rarely needed",
        description="Where the run's folder is made; empty: where this Airflow's runs are",
    ),
    "changes": Param(
        None,
        type=["null", "object"],
        title="Changes",
        section="Rarely needed",
        description="A JSON merge patch (RFC 7396) on the scenario",
    ),
    "labels": Param(
        None, type=["null", "object"], title="Labels", section="Rarely needed", description="Kept with the results"
    ),
    "at_once": Param(
        None,
        type=["null", "integer"],
        minimum=1,
        title="At once",
        section="Rarely needed",
        description="How many runs the host may have meanwhile, this one included; 1: a benchmark; empty: one per core",
    ),
    "upload": Param(
        os.environ.get(UPLOAD_TO),
        type=["null", "string"],
        title="Upload",
        section="Rarely needed",
        description="A URL in an object store, such as s3://bucket/plimsoll, to which the run is uploaded",
    ),
    "judge": Param(
        default=True,
        type="boolean",
        title="Judge",
        section="Rarely needed",
        description="Off: a campaign judges its runs together",
    ),
    "run_dir": Param(
        None,
        type=["null", "string"],
        title="Prepared run folder",
        section="Rarely needed",
        description="The folder of a run that is prepared already; `make run` uses it",
    ),
}
SCENARIO = Param(
    None, type=["null", "object"], title="Scenario", description="A scenario's content, as its file has it, in JSON"
)
_LIMIT = timedelta(hours=1)  # until a step knows its run's scenario
_AGAIN_AFTER = timedelta(seconds=5)


def build(name: str) -> DAG:
    """Build a scenario's DAG, given by name or file."""
    scenario = load_scenario(name)
    with _scenario_dag(
        scenario.name,
        dag_display_name=display_name(scenario),
        description=scenario.why,
        doc_md=doc_of(scenario),
        params=PARAMS,
        tags=[*tags(scenario), version()],
    ) as dag:
        resolve = _repeatable(PrepareRun, RESOLVE, scenario=name)
        _arrange(dag, resolve, [_task(stage, resolve.output) for stage in stages(scenario)])
    return dag


def build_any() -> DAG:
    """Build the DAG of scenarios that have none; it maps a task over a run's phases."""
    with _scenario_dag(
        ANY_SCENARIO,
        dag_display_name="Any scenario",
        description="A scenario that has no DAG of its own.",
        doc_md=ANY_DOC,
        params={"scenario": SCENARIO, **PARAMS},
        tags=["scenario", version()],
    ) as dag:
        resolve = _repeatable(PrepareRun, RESOLVE)
        run: Any = resolve.output
        phases = ListPhases(task_id="phases", run=run)
        phase = RunPhase.partial(
            task_id="phase", run=run, map_index_template="{{ task.phase }}", max_active_tis_per_dagrun=1
        ).expand(phase=phases.output)
        before, after = ([_task(stage, run) for stage in part] for part in (BEFORE, AFTER))
        _arrange(dag, resolve, [*before, phases, phase, *after])
    return dag


def _scenario_dag(dag_id: str, **settings: Any) -> DAG:
    defaults = {**default_args(), "execution_timeout": _LIMIT}
    return DAG(dag_id, schedule=None, default_args=defaults, deadline=deadline(), **settings)


def _task(stage: Stage, run: Any) -> RunStep:
    kind = {"start": StartCluster, "teardown": TearDown}.get(stage.role, RunStep)
    name = stage.phase or stage.name
    return kind(task_id=stage.name, task_display_name=name, run=run, stage=stage, trigger_rule=_rule(stage))


def _repeatable(kind: type[BaseOperator], stage: Stage, **settings: Any) -> BaseOperator:
    return kind(
        task_id=stage.name,
        execution_timeout=timedelta(seconds=stage.limit_s),
        trigger_rule=_rule(stage),
        retries=retries(),
        retry_delay=_AGAIN_AFTER,
        **settings,
    )


def _rule(stage: Stage) -> TriggerRule:
    """Collect and judge even after a failure."""
    return TriggerRule.ALL_DONE_MIN_ONE_SUCCESS if stage.role == "end" else TriggerRule.ALL_SUCCESS


def _arrange(dag: DAG, resolve: BaseOperator, recording: Sequence[Any]) -> None:
    """Judge after the recording, which ends with its teardown, if needed on another host."""
    uploads = [_repeatable(Upload, UPLOAD, run=resolve.output)] if recording_queue() else []
    after = {"run": [resolve, *uploads][-1].output, "queue": conf.get("operators", "default_queue")}
    judge, publish = _repeatable(Judge, JUDGE, **after), _repeatable(Publish, PUBLISH, outlets=[PUBLISHED], **after)
    chain(resolve, *recording, *uploads, judge, publish)
    setups = [task for task in recording if isinstance(task, RunStep) and task.stage.role in ("start", "setup")]
    recording[-1].as_teardown(setups=setups, on_failure_fail_dagrun=True)
    watched = [task for task in dag.tasks if not task.is_setup]  # failed setups fail their successors, too
    watch(watched, last=[publish])


def scenarios() -> dict[str, str]:
    """Map DAGs to the shipped scenarios, and to the files in the folder ``PLIMSOLL_SCENARIOS``."""
    folder = os.environ.get(SCENARIOS)
    files = map(str, sorted(Path(folder).glob("*.yaml"))) if folder else ()
    return dict(map(_named, files)) | {name: name for name in scenario_names()}


def _named(file: str) -> tuple[str, str]:
    with suppress(BadInput):  # reported when its DAG is built
        return load_scenario(file).name, file
    return file, file


def build_all() -> Iterator[DAG]:
    """Skip unreadable scenarios, because others may have live runs."""
    yield build_any()
    for source in scenarios().values():
        try:
            yield build(source)
        except BadInput as error:
            logging.getLogger("plimsoll.dags").warning("Scenario %s has no DAG: %s", source, error)


def build_wanted(dag_id: str | None) -> Iterator[DAG]:
    """Build all DAGs, or for a task its own alone: a run must not fail over another scenario."""
    if dag_id is None:
        yield from build_all()
    else:
        yield build_any() if dag_id == ANY_SCENARIO else build(scenarios().get(dag_id, dag_id))


for _dag in build_wanted(get_parsing_context().dag_id):
    globals()[_dag.dag_id] = _dag
