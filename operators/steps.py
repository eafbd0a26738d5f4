"""Airflow steps, each a few lines around one call of ``clusters.experiment``.

A step knows its run by the folder's path; nothing else passes between tasks.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseOperator

from clusters.paths import runs_folder
from history.errors import BadInput, HarnessError, PlimsollError
from history.events import recorded
from history.folder import RunFolder
from spark.connection import spark_master

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


class PrepareRun(BaseOperator):
    """Check everything that was asked for and make the run folder; returns its path.

    :param scenario: a scenario's name, or the path of its file
    """

    template_fields = ("scenario",)

    def __init__(self, *, scenario: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.scenario = scenario

    def execute(self, context: Context) -> str:
        from clusters import experiment  # heavy: not while a DAG file is parsed

        params = asked_params(context)
        spark_master(os.environ)  # refused before anything is recorded for it
        prepared = params.pop("run_dir", None)
        if prepared is None:
            return str(experiment.prepare(self.scenario, runs=runs_folder(), **params))
        folder = RunFolder(Path(prepared))
        _refuse_if_sealed(folder, self.task_id)
        if not folder.work.is_dir():
            raise BadInput(f"run_dir {prepared} is no prepared run folder; leave run_dir empty to have one made.")
        return str(folder.path)


class RunStep(BaseOperator):
    """One call on a run that lives, alone; refused once the run is collected.

    :param run: the run folder
    :param call: the function of ``clusters.experiment``
    :param arguments: what it takes after the run
    :param phase: the phase's name, for the run's events
    """

    template_fields = ("run",)
    wait_s = 5.0  # for a task before that is about to end

    def __init__(
        self, *, run: str, call: str, arguments: Sequence[object] = (), phase: str = "", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.run = run
        self.call = call
        self.arguments = arguments
        self.phase = phase

    def execute(self, context: Context) -> None:  # noqa: ARG002  # Airflow's signature
        from clusters.leftovers import hold_step  # heavy: not while a DAG file is parsed

        folder = RunFolder(Path(self.run))
        _refuse_if_sealed(folder, self.task_id)
        with recorded(folder.path, self.call, self.phase), hold_step(folder.path, self.wait_s):
            self.step(folder.path)

    def step(self, run: Path) -> None:
        from clusters import experiment  # heavy: not while a DAG file is parsed

        getattr(experiment, self.call)(run, *self.arguments)

    def on_kill(self) -> NoReturn:
        # Airflow runs on after this; only an exception ends the call, and lets it be recorded.
        raise HarnessError(f"Task {self.task_id} was told to stop before it was done.")


class StartCluster(RunStep):
    """Start the cluster; clean up if it comes up only half, because no teardown follows a setup that failed."""

    def step(self, run: Path) -> None:
        from clusters import experiment  # heavy: not while a DAG file is parsed

        experiment.check_unstarted(run)  # what lives is not to be cleaned up
        try:
            with recorded(run, self.call):
                super().step(run)
        except BaseException:
            experiment.salvage(run)
            raise


class EndStep(RunStep):
    """One call that must also come after a failure; there is nothing left to do once the run is collected.

    A phase that was given up may still be healing; it is waited for.
    """

    wait_s = 120.0

    def execute(self, context: Context) -> None:
        if not RunFolder(Path(self.run)).is_sealed:
            super().execute(context)


class TearDown(RunStep):
    """Remove everything that the run started, whether or not it was collected."""

    def execute(self, context: Context) -> None:  # noqa: ARG002  # Airflow's signature
        with recorded(Path(self.run), self.call):
            self.step(Path(self.run))


class Reap(BaseOperator):
    """Remove what expired runs left behind; returns their run ids."""

    def execute(self, context: Context) -> list[str]:  # noqa: ARG002  # Airflow's signature
        from clusters import experiment  # heavy: not while a DAG file is parsed

        return experiment.reap()


class Watcher(BaseOperator):
    """Red when any task is: a last task that always runs would otherwise turn a failed run green."""

    def execute(self, context: Context) -> NoReturn:  # noqa: ARG002  # Airflow's signature
        raise PlimsollError("A task of this run failed; the red task before this one says why.")


def _refuse_if_sealed(folder: RunFolder, task_id: str) -> None:
    if folder.is_sealed:
        raise HarnessError(
            f"Run {folder.run_id} was collected and its cluster is gone, so {task_id} cannot run in it again; "
            "trigger the DAG anew, which starts a new run."
        )
