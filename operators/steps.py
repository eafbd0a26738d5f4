"""Wrap each stage of a run in an Airflow step; tasks share only the run folder's path."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from clusters.paths import runs_folder
from clusters.run.stages import COLLECT, STOP_CLIENTS, TEAR_DOWN, Stage, stages
from history.access import variables
from history.errors import BadInput, EvidenceError, HarnessError, PlimsollError
from history.events import read_events
from history.folder import RunFolder
from operators.hooks import ConnectedOperator, DockerHook, ObjectStoreHook, SparkHook, cluster_named
from operators.host import HostTrigger
from service.progress import logged
from service.stages import QUEUE, RESOLVE, recording_queue
from spark.connection import spark_connection

if TYPE_CHECKING:
    from airflow.sdk import Context

    from clusters.scenario.scenario import Scenario


def asked_params(context: Context) -> dict[str, Any]:
    """Return a DAG run's parameters; raise BadInput if the DAG lacks one, since Airflow accepts any name."""
    params, known = dict(context["params"]), context["dag"].params
    for name in params:
        if name not in known:
            raise BadInput(f"{context['dag'].dag_id} has no parameter {name!r}; known: {', '.join(known)}.")
    return params


class PrepareRun(ConnectedOperator):
    """Check all input, make the run folder, and wait for the host without a worker; return the folder's path.

    :param scenario: a scenario's name, or the path of its file; None: the parameter ``scenario``
    """

    template_fields = ("scenario",)
    hooks = (SparkHook, DockerHook, ObjectStoreHook)

    def __init__(self, *, scenario: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.scenario = scenario

    def execute(self, context: Context) -> str:
        try:
            params = asked_params(context)
            at_once = params.pop("at_once")
            run = self._prepared(params)
        except BadInput as error:
            raise AirflowFailException(str(error)) from error  # a retry would not help
        self.log.info("run: %s", run)
        context["ti"].xcom_push("return_value", str(run))  # the watcher needs it, whatever happens
        return self._admitted(run, at_once, context["run_id"])

    def admitted(self, context: Context, event: str) -> str:
        return self._admitted(Path(event), context["params"]["at_once"], context["run_id"])  # by this host

    def _admitted(self, run: Path, at_once: int | None, name: str) -> str:
        from clusters.run.host import AT_ONCE, admit  # heavy for DAG parsing

        at_once = at_once or AT_ONCE
        if why := admit(run, at_once, name):
            self.log.info("%s", why)
            self.defer(trigger=HostTrigger(run=str(run), at_once=at_once, name=name), method_name="admitted")
        return str(run)

    def _prepared(self, params: dict[str, Any]) -> Path:
        from clusters.run import experiment  # heavy for DAG parsing

        spark_connection(variables())  # reject a wrong one before recording
        prepared, runs, content, judge, url = (
            params.pop(name, None) for name in ("run_dir", "runs", "scenario", "judge", "upload")
        )
        if judge:  # a campaign uploads its runs
            _check_upload(url)
        if prepared is not None:
            folder = RunFolder(Path(prepared))
            if folder.is_sealed or not folder.work.is_dir():
                raise BadInput(f"run_dir {prepared} is not a prepared run folder; leave run_dir empty for a new one.")
            return folder.path
        scenario: str | Mapping[str, Any] | None = self.scenario or content
        if not scenario:
            raise BadInput("No scenario was given; set the parameter scenario, or run_dir.")
        if name := params.get("cluster"):
            params["cluster"] = cluster_named(name)
        return experiment.prepare(scenario, runs=Path(runs) if runs else runs_folder(), **params)


def _check_upload(url: str | None) -> None:
    from campaigns.upload import check  # heavy for DAG parsing

    if url:
        check(url)
    elif recording_queue():
        raise BadInput(
            f"The parameter upload is empty, but {QUEUE} is set, so another host may judge the run; set it to a URL in "
            "an object store, such as s3://bucket/plimsoll."
        )


class RunStep(ConnectedOperator):
    """Perform one stage of an active run, within the limit of the run's own scenario.

    :param run: the run folder
    """

    template_fields: tuple[str, ...] = ("run",)
    hooks = (DockerHook,)

    def __init__(self, *, run: str, stage: Stage, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run = run
        self.stage = stage

    def pre_execute(self, context: Context) -> None:
        super().pre_execute(context)
        if not self.folder.path.is_dir():
            raise BadInput(
                f"{self.run} is not on this host, {platform.node()}; all recording tasks of a run need the same host."
            )
        with suppress(EvidenceError):  # the stage says what is wrong with the plan
            scenario = scenario_of(self.folder)
            own = {stage.name: stage for stage in stages(scenario)}
            self.stage = own.get(self.stage.name, self.stage)
            self.execution_timeout = self.limit(scenario)

    def limit(self, scenario: Scenario) -> timedelta:
        return self.stage.limit(scenario)

    @property
    def folder(self) -> RunFolder:
        return RunFolder(Path(self.run))

    def execute(self, context: Context) -> None:  # noqa: ARG002  # Airflow's signature
        from clusters.run.recorder import perform  # heavy for DAG parsing

        with logged(self.stage, self.folder, self.log.info):
            perform(self.folder.path, self.stage)

    def on_kill(self) -> NoReturn:
        # Airflow continues after this; only an exception ends the call and is recorded.
        raise HarnessError(f"Task {self.task_id} was stopped before it completed.")


def scenario_of(folder: RunFolder) -> Scenario:
    """Return an active run's scenario."""
    from clusters.live.plan import read_plan  # heavy for DAG parsing

    return read_plan(folder).scenario


def phases_of(run: str) -> list[str]:
    """Return the names of its phases' stages."""
    return [stage.name for stage in stages(scenario_of(RunFolder(Path(run)))) if stage.phase]


class ListPhases(BaseOperator):
    """List the run's phases.

    :param run: the run folder
    """

    template_fields = ("run",)

    def __init__(self, *, run: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run = run

    def execute(self, context: Context) -> list[str]:  # noqa: ARG002  # Airflow's signature
        return phases_of(self.run)


class RunPhase(RunStep):
    """Run a phase, unless the phase before it failed.

    :param phase: the name of its stage
    """

    def __init__(self, *, phase: str, **kwargs: Any) -> None:
        super().__init__(stage=Stage(phase, phase, 0.0), **kwargs)
        self.phase = phase

    def execute(self, context: Context) -> None:
        phases = phases_of(self.run)
        for before in phases[: phases.index(self.phase)][-1:]:
            ended = [event for event in read_events(self.folder.stages) if event.kind == "stage_ended"]
            if {event.step: event.detail["state"] for event in ended}.get(before) != "success":
                raise AirflowSkipException(f"{self.phase} does not run, because {before} did not succeed.")
        super().execute(context)


class StartCluster(RunStep):
    """Start the cluster; remove it if only a part starts, because no teardown follows a failed setup.

    A second start is rejected. If this DAG run was cleared, its first cluster is removed; another DAG run's stays.
    """

    def execute(self, context: Context) -> None:
        from clusters.run import experiment, recorder  # heavy for DAG parsing

        run = Path(self.run)
        starter, this = RunFolder(run).work / "dag_run", context.get("run_id", "")
        try:
            experiment.check_unstarted(run)
        except HarnessError:
            if starter.is_file() and starter.read_text() == this:
                recorder.perform(run, TEAR_DOWN)
            raise
        with suppress(OSError):  # the start reports a full disk
            starter.write_text(this)
        try:
            super().execute(context)
        except BaseException:
            recorder.salvage(run)
            raise


class TearDown(RunStep):
    """Remove everything of the run; if it was not collected, collect it first, and fail.

    Marking a run as failed skips its other tasks.
    """

    def limit(self, scenario: Scenario) -> timedelta:
        return sum((stage.limit(scenario) for stage in (STOP_CLIENTS, COLLECT)), super().limit(scenario))

    def execute(self, context: Context) -> None:
        from clusters.run import recorder  # heavy for DAG parsing

        if self.folder.is_sealed:
            super().execute(context)
            return
        with logged(self.stage, self.folder, self.log.info):
            recorder.salvage(self.folder.path)
        did = "It was collected now" if self.folder.is_sealed else "Nothing was recorded"
        raise HarnessError(
            f"Run {self.folder.run_id} ended before it was collected. {did}, and its cluster was removed; "
            f"`make judge RUN={self.folder.path}` shows what was recorded."
        )


class Reap(ConnectedOperator):
    """Remove leftovers of expired runs; return their run ids."""

    hooks = (DockerHook,)

    def execute(self, context: Context) -> list[str]:  # noqa: ARG002  # Airflow's signature
        from clusters.run import experiment  # heavy for DAG parsing

        return experiment.reap()


class Watcher(BaseOperator):
    """Fail if any task failed, or if the DAG run ended before its last task.

    Only teardowns run after a DAG run is marked as failed, so this is one.

    :param last: the ids of the tasks with which a complete run may end
    """

    def __init__(self, *, last: Sequence[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.last = last

    def execute(self, context: Context) -> None:
        from clusters.run.host import leave  # heavy for DAG parsing

        run_id = context["run_id"]
        if run := context["ti"].xcom_pull(task_ids=RESOLVE.name):
            leave(Path(run))
        states = context["ti"].get_task_states(dag_id=context["dag"].dag_id, run_ids=[run_id])[run_id]
        if failed := sorted(name for name, state in states.items() if state == "failed"):
            raise PlimsollError(f"Failed tasks: {', '.join(failed)}; the log of the first shows the reason.")
        if not any(states.get(last) == "success" for last in self.last):
            raise PlimsollError(f"This run ended before its task {self.last[0]}; it may have been marked as failed.")


def watch(tasks: Sequence[Any], last: Sequence[BaseOperator]) -> None:
    """Add a watcher after these tasks; a complete run ends with one of ``last``."""
    tasks >> Watcher(task_id="watcher", last=[each.task_id for each in last]).as_teardown(on_failure_fail_dagrun=True)
