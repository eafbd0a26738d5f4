"""Airflow steps, each a few lines around one stage of a run.

A step knows its run by the folder's path; nothing else passes between tasks.
"""

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
    """What a DAG run was asked for; Airflow itself takes any name.

    Raises:
        BadInput: a name is none of the DAG's parameters.
    """
    params, known = dict(context["params"]), context["dag"].params
    for name in params:
        if name not in known:
            raise BadInput(f"{context['dag'].dag_id} has no parameter {name!r}; known: {', '.join(known)}.")
    return params


class PrepareRun(ConnectedOperator):
    """Check everything that was asked for and make the run folder; returns its path.

    :param scenario: a scenario's name, or the path of its file
    """

    template_fields = ("scenario",)

    def __init__(self, *, scenario: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.scenario = scenario

    def execute(self, context: Context) -> str:
        from clusters.run import experiment  # heavy: not while a DAG file is parsed

        params = asked_params(context)
        spark_connection(os.environ)  # refused before anything is recorded for it
        prepared = params.pop("run_dir", None)
        if prepared is None:
            run = experiment.prepare(self.scenario, runs=runs_folder(), **params)
            self.log.info("run: %s", run)
            return str(run)
        folder = RunFolder(Path(prepared))
        if folder.is_sealed or not folder.work.is_dir():
            raise BadInput(f"run_dir {prepared} is no prepared run folder; leave run_dir empty to have one made.")
        return str(folder.path)


class RunStep(ConnectedOperator):
    """One stage of a run that lives.

    :param run: the run folder
    :param stage: what to perform
    """

    template_fields = ("run",)

    def __init__(self, *, run: str, stage: Stage, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run = run
        self.stage = stage

    def execute(self, context: Context) -> None:  # noqa: ARG002  # Airflow's signature
        from clusters.run.recorder import perform  # heavy: not while a DAG file is parsed

        with logged(self.stage, RunFolder(Path(self.run)), self.log.info):
            perform(Path(self.run), self.stage)

    def on_kill(self) -> NoReturn:
        # Airflow runs on after this; only an exception ends the call, and lets it be recorded.
        raise HarnessError(f"Task {self.task_id} was told to stop before it was done.")


class StartCluster(RunStep):
    """Start the cluster; clean up if it comes up only half, because no teardown follows a setup that failed.

    A second time it is refused, and the cluster that this DAG run started before is removed: it was cleared, also along
    with a task that runs, and the teardown will not follow. That of another DAG run is left alone.
    """

    def execute(self, context: Context) -> None:
        from clusters.run import experiment, recorder  # heavy: not while a DAG file is parsed

        run = Path(self.run)
        starter, this = RunFolder(run).work / "dag_run", context.get("run_id", "")
        try:
            experiment.check_unstarted(run)
        except HarnessError:
            if starter.is_file() and starter.read_text() == this:
                recorder.perform(run, TEAR_DOWN)
            raise
        with suppress(OSError):  # a full disk is the start's to tell
            starter.write_text(this)
        try:
            super().execute(context)
        except BaseException:
            recorder.salvage(run)
            raise


class TearDown(RunStep):
    """Remove everything of the run; red where the run was ended before it was collected, as by marking it as failed:
    what is left of its tasks is skipped then, and nothing else would be red.
    """

    def execute(self, context: Context) -> None:
        super().execute(context)
        folder = RunFolder(Path(self.run))
        if not folder.is_sealed:
            raise HarnessError(
                f"Run {folder.run_id} was ended before it was collected. Its cluster is gone; "
                f"`make judge RUN={folder.path}` tells what its record holds."
            )


class Reap(ConnectedOperator):
    """Remove what expired runs left behind; returns their run ids."""

    def execute(self, context: Context) -> list[str]:  # noqa: ARG002  # Airflow's signature
        from clusters.run import experiment  # heavy: not while a DAG file is parsed

        return experiment.reap()


class Watcher(BaseOperator):
    """Red when any task of the DAG run is, or when it was ended before its last one: the watcher's own state alone says
    how a DAG run ended.

    It is a teardown: where somebody marks the DAG run as failed, only those are not skipped.

    :param last: the id of the task that ends what the DAG run is for
    """

    def __init__(self, *, last: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.last = last

    def execute(self, context: Context) -> None:
        run_id = context["run_id"]
        states = context["ti"].get_task_states(dag_id=context["dag"].dag_id, run_ids=[run_id])[run_id]
        if failed := sorted(name for name, state in states.items() if state == "failed"):
            raise PlimsollError(f"Of this run failed: {', '.join(failed)}; the log of the first one says why.")
        if states.get(self.last) != "success":
            raise PlimsollError(f"This run was ended before its task {self.last}, as by marking it as failed.")


def watch(tasks: Sequence[Any], last: BaseOperator) -> None:
    """Let a DAG's watcher come after these tasks, of which ``last`` ends what the DAG is for."""
    tasks >> Watcher(task_id="watcher", last=last.task_id).as_teardown(on_failure_fail_dagrun=True)
