"""Wrap each stage of a run in an Airflow step; tasks share only the run folder's path."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseOperator

from clusters.paths import runs_folder
from clusters.run.stages import TEAR_DOWN, Stage
from history.errors import BadInput, HarnessError, PlimsollError
from history.folder import RunFolder
from operators.connections import ConnectedOperator
from operators.progress import logged
from spark.connection import spark_connection

if TYPE_CHECKING:
    from airflow.sdk import Context


def asked_params(context: Context) -> dict[str, Any]:
    """Return a DAG run's parameters; Airflow accepts any name.

    Raises:
        BadInput: the DAG has no such parameter.
    """
    params, known = dict(context["params"]), context["dag"].params
    for name in params:
        if name not in known:
            raise BadInput(f"{context['dag'].dag_id} has no parameter {name!r}; known: {', '.join(known)}.")
    return params


class PrepareRun(ConnectedOperator):
    """Check all input and make the run folder; return its path.

    :param scenario: a scenario's name, or the path of its file
    """

    template_fields = ("scenario",)

    def __init__(self, *, scenario: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.scenario = scenario

    def execute(self, context: Context) -> str:
        from clusters.run import experiment  # heavy for DAG parsing

        params = asked_params(context)
        spark_connection(os.environ)  # reject a wrong one before recording
        prepared = params.pop("run_dir", None)
        if prepared is None:
            run = experiment.prepare(self.scenario, runs=runs_folder(), **params)
            self.log.info("run: %s", run)
            return str(run)
        folder = RunFolder(Path(prepared))
        if folder.is_sealed or not folder.work.is_dir():
            raise BadInput(f"run_dir {prepared} is not a prepared run folder; leave run_dir empty for a new one.")
        return str(folder.path)


class RunStep(ConnectedOperator):
    """Perform one stage of an active run.

    :param run: the run folder
    """

    template_fields = ("run",)

    def __init__(self, *, run: str, stage: Stage, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run = run
        self.stage = stage

    def execute(self, context: Context) -> None:  # noqa: ARG002  # Airflow's signature
        from clusters.run.recorder import perform  # heavy for DAG parsing

        with logged(self.stage, RunFolder(Path(self.run)), self.log.info):
            perform(Path(self.run), self.stage)

    def on_kill(self) -> NoReturn:
        # Airflow continues after this; only an exception ends the call and is recorded.
        raise HarnessError(f"Task {self.task_id} was stopped before it completed.")


class StartCluster(RunStep):
    """Start the cluster; remove it if only a part starts, because no teardown follows a failed setup.

    A second start is rejected. If this DAG run was cleared, its first cluster is removed, because no teardown follows;
    another DAG run's cluster stays.
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
    """Remove everything of the run; fail if it was not collected.

    Marking a run as failed skips its other tasks.
    """

    def execute(self, context: Context) -> None:
        super().execute(context)
        folder = RunFolder(Path(self.run))
        if not folder.is_sealed:
            raise HarnessError(
                f"Run {folder.run_id} ended before it was collected. Its cluster was removed; "
                f"`make judge RUN={folder.path}` shows what was recorded."
            )


class Reap(ConnectedOperator):
    """Remove leftovers of expired runs; return their run ids."""

    def execute(self, context: Context) -> list[str]:  # noqa: ARG002  # Airflow's signature
        from clusters.run import experiment  # heavy for DAG parsing

        return experiment.reap()


class Watcher(BaseOperator):
    """Fail if any task failed, or if the DAG run ended before its last task.

    Only teardowns run after a DAG run is marked as failed, so this is one.

    :param last: the id of the DAG's last productive task
    """

    def __init__(self, *, last: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.last = last

    def execute(self, context: Context) -> None:
        run_id = context["run_id"]
        states = context["ti"].get_task_states(dag_id=context["dag"].dag_id, run_ids=[run_id])[run_id]
        if failed := sorted(name for name, state in states.items() if state == "failed"):
            raise PlimsollError(f"Failed tasks: {', '.join(failed)}; the log of the first shows the reason.")
        if states.get(self.last) != "success":
            raise PlimsollError(f"This run ended before its task {self.last}; it may have been marked as failed.")


def watch(tasks: Sequence[Any], last: BaseOperator) -> None:
    """Add a watcher after these tasks; ``last`` is the last productive one."""
    tasks >> Watcher(task_id="watcher", last=last.task_id).as_teardown(on_failure_fail_dagrun=True)
