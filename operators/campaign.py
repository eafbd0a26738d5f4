"""Wrap calls of ``campaigns.rounds`` and ``campaigns.runner`` in the steps of ``operators.campaign_dag``.

Functions import heavy modules, because Airflow parses this file often.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from contextlib import AbstractContextManager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import psutil
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.providers.standard.triggers.external_task import DagStateTrigger
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, DagRunTriggerException

from clusters.paths import runs_folder
from history.errors import BadInput, HarnessError
from history.events import errors_of, stage_events
from history.folder import RunFolder
from operators.assets import CAMPAIGNS
from operators.hooks import ConnectedOperator, cluster_named
from operators.links import CampaignPage, campaign_page
from operators.steps import asked_params
from service.api import ACTIVE
from service.processes import kill_descendants
from service.stages import ANY_SCENARIO, RESOLVE, dag_of

if TYPE_CHECKING:
    from airflow.sdk import Context

    from campaigns.campaign import Campaign, CampaignFolder, Item
    from campaigns.places import Places


NEXT = "next_round"  # a task
COMMANDS = "PLIMSOLL_COMMANDS"  # a folder of scripts
_LOOK_S = 3


def places(context: Context) -> Places:
    """Return the folders of runs, archive and pages that the DAG run names, or this Airflow's."""
    from campaigns.places import Places

    return Places.beside(Path(context["params"].get("runs") or runs_folder()))


class CampaignStep(ConnectedOperator):
    """Perform a step of a planned campaign.

    :param campaign: its folder
    """

    template_fields: tuple[str, ...] = ("campaign",)

    def __init__(self, *, campaign: str | None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.campaign = campaign

    @property
    def folder(self) -> CampaignFolder:
        from campaigns.campaign import CampaignFolder

        if self.campaign is None:
            raise AirflowSkipException("Skipped, because no campaign was planned.")
        return CampaignFolder(Path(self.campaign))

    def stage(self) -> AbstractContextManager[None]:
        """Record when this step begins and ends, for the progress display."""
        return stage_events(self.folder.stages, self.task_id)

    def on_kill(self) -> NoReturn:
        kill_descendants(psutil.Process())  # a Spark driver outlives its spark-submit
        # Airflow continues after this; only an exception ends the task, so that a run is collected and torn down.
        raise HarnessError(f"Task {self.task_id} was stopped before it completed.")


class PlanCampaign(ConnectedOperator):
    """Plan the runs; return the campaign's folder.

    :param kind: its name (``campaigns.kinds``)
    """

    def __init__(self, *, kind: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kind = kind

    def execute(self, context: Context) -> str:
        from campaigns import kinds, rounds, runner
        from campaigns.campaign import CampaignFolder

        params = asked_params(context)
        prepared, number = params.pop("campaign", None), params.pop("round", 1)
        if prepared is not None:
            folder = CampaignFolder(Path(prepared))
            if folder.read_plan().kind != self.kind:
                raise BadInput(f"{prepared} is not a campaign of kind {self.kind}; leave campaign empty to plan one.")
            if number == 1:
                rounds.begin(folder)
            return str(folder.path)
        name, seed, upload_to, *_ = (params.pop(key, None) for key in ("name", "seed", "upload", "runs", "at_once"))
        name = name or f"{context['dag_run'].run_after:%Y%m%d-%H%M%S}"  # the same if the task is cleared
        kind, patch = kinds.of(self.kind), params.pop("settings", None) or {}
        for given in (params, patch):
            _take_commands(kind.commands, given)
        settings = kind.settings(params, patch=patch)
        where = {"places": places(context), "upload_to": upload_to, "cluster_named": cluster_named}
        folder = runner.plan(self.kind, settings, name=name, seed=seed, **where)
        return str(folder.path)


def _take_commands(names: Sequence[str], given: dict[str, Any]) -> None:
    """Replace names of commands by files of the host: who may trigger a DAG may not run a shell.

    Raises:
        BadInput: the folder ``PLIMSOLL_COMMANDS`` has no such file.
    """
    for name in names:
        part, _, key = name.rpartition(".")
        settings = given.get(part) if part else given
        if isinstance(settings, dict) and (command := settings.get(key)):
            settings[key] = f"bash {shlex.quote(str(_command_file(name, str(command))))}"


def _command_file(name: str, command: str) -> Path:
    folder = os.environ.get(COMMANDS, "")
    file = Path(folder, command)
    if not folder or file.name != command or not file.is_file():
        raise BadInput(
            f"{name}={command:.80} is no file of the folder of commands, {folder or 'which is not set'}; set "
            f"{COMMANDS} to a folder of this host, put a script there, and give its name."
        )
    return file


class ListItems(CampaignStep):
    """Return the names of the items to record now; check the disk space first.

    :param at_once_only: of a mixed kind only those beside which others may run
    """

    def __init__(self, *, at_once_only: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.at_once_only = at_once_only

    def execute(self, context: Context) -> list[str]:
        from campaigns import recording, rounds

        with self.stage():
            pending = rounds.pending(self.folder, places(context))
            items = [item for item in pending if item.at_once or not self.at_once_only]
            recording.check_room(self.folder.path.name, items, places(context))
            return rounds.begin_round(self.folder, items)


class RecordItem(CampaignStep, TriggerDagRunOperator):
    """Trigger the DAG of an item's scenario, and wait for it without a worker; return the new run folder, if any.

    A retry follows if the run broke before its first fault.

    :param item: its name
    :param at_once: how many runs the host may have meanwhile; empty: its default
    """

    template_fields = ("campaign", "at_once")

    def __init__(self, *, item: str, at_once: int | str, **kwargs: Any) -> None:
        super().__init__(
            trigger_dag_id="",
            wait_for_completion=True,
            deferrable=True,
            poke_interval=_LOOK_S,
            fail_when_dag_is_paused=True,
            **kwargs,
        )
        self.item = item
        self.at_once = at_once

    def execute(self, context: Context) -> None:
        from campaigns import rounds

        folder, item, task = self.folder, self._item(context), context["ti"]
        if not rounds.outstanding(folder, [item], places(context)):
            self.log.info("%s has its run", item.name)
            return
        self.trigger_dag_id, self.conf = request(item, folder.read_plan(), places(context), self.at_once)
        # Clearing a task raises max_tries.
        is_retry, before = task.try_number > task.max_tries - (self.retries or 0) + 1, ""
        for number in count(1):
            self.trigger_run_id = rounds.item_run_id(folder, item.name, number)
            if not task.get_dr_count(self.trigger_dag_id, run_ids=[self.trigger_run_id]):
                break
            before = self.trigger_run_id
            if task.get_dagrun_state(self.trigger_dag_id, before) in ACTIVE:
                self._wait()  # this task was cleared or killed
        if is_retry and before and _had_fault(_run_of(task, self.trigger_dag_id, before)):
            raise AirflowFailException(f"{before} had a fault, and another try would be another experiment.")
        self.log.info("%s: %s on %s, in DAG run %s", item.name, item.scenario, item.runs_on, self.trigger_run_id)
        try:
            super().execute(context)
        except DagRunTriggerException:
            rounds.begin_item(folder, item)
            raise

    def _wait(self) -> None:
        states = [*self.allowed_states, *self.failed_states]
        trigger = DagStateTrigger(self.trigger_dag_id, states, [str(self.trigger_run_id)], poll_interval=_LOOK_S)
        self.defer(trigger=trigger, method_name="execute_complete")

    def execute_complete(self, context: Context, event: tuple[str, dict[str, Any]]) -> str:
        from campaigns import rounds, upload

        folder, item, task = self.folder, self._item(context), context["ti"]
        self.trigger_dag_id, [run_id] = event[1]["dag_id"], event[1]["run_ids"]
        run = _run_of(task, self.trigger_dag_id, run_id)
        errors = errors_of(run) if run else []
        if run and run.is_sealed and not errors:
            rounds.end_item(folder, item)
            upload.upload(folder, [run.path])
            return str(run.path)
        why = next(iter(errors), f"DAG run {run_id} ended before a run was collected; its log shows why.")
        rounds.end_item(folder, item, why)
        raise AirflowFailException(why) if _had_fault(run) else HarnessError(why)

    def _item(self, context: Context) -> Item:
        from campaigns import rounds

        context["item"] = self.item  # type: ignore[typeddict-unknown-key]  # the grid shows this
        return rounds.item_of(self.folder, self.item)


def _run_of(task: Any, dag_id: str, run_id: str) -> RunFolder | None:
    """Return the run folder of a DAG run, if it made one."""
    path = task.xcom_pull(dag_id=dag_id, run_id=run_id, task_ids=RESOLVE.name)
    return RunFolder(Path(path)) if path else None


def _had_fault(run: RunFolder | None) -> bool:
    from campaigns import recording

    return run is not None and recording.had_fault(run.path)


def request(item: Item, campaign: Campaign, found: Places, at_once: int | str) -> tuple[str, dict[str, Any]]:
    """Return the DAG of an item's run, and its parameters."""
    from campaigns import recording
    from clusters.scenario.scenario import file_of, load_scenario
    from history.yaml_files import read_mapping

    dag_id = dag_of(load_scenario(item.scenario, item.changes))
    named = {} if dag_id != ANY_SCENARIO else {"scenario": read_mapping(file_of(item.scenario), what="The scenario")}
    made_by = {"kafka": item.kafka, "runtime": recording.runtime_of(campaign)}
    return dag_id, named | {
        **({"cluster": item.cluster} if item.cluster else made_by),
        "seed": item.seed,
        "changes": item.changes,
        "labels": {**item.labels, "campaign": campaign.campaign_id, "item": item.name},
        "runs": str(found.runs),
        "at_once": int(at_once) if at_once else None,
        "judge": False,
    }


class JudgeItems(CampaignStep):
    """Judge, publish and archive recorded runs; return the run ids."""

    def execute(self, context: Context) -> list[str]:
        from campaigns import runner

        with self.stage():
            judged = runner.judge_recorded(self.folder, places(context))
        self.log.info("judged: %s", ", ".join(judged) or "nothing new")
        return judged


class NextRound(TriggerDagRunOperator):
    """Trigger this DAG again if the results make more runs necessary, else skip.

    :param campaign: its folder
    """

    template_fields = ("campaign",)

    def __init__(self, *, campaign: str, **kwargs: Any) -> None:
        super().__init__(trigger_dag_id="", reset_dag_run=True, **kwargs)
        self.campaign = campaign

    def execute(self, context: Context) -> None:
        from campaigns import rounds
        from campaigns.campaign import CampaignFolder

        folder = CampaignFolder(Path(self.campaign))
        with stage_events(folder.stages, self.task_id):
            items = rounds.decide(folder, places(context))
        if not items:
            raise AirflowSkipException("The results make no more runs necessary.")
        self.log.info("next: %s", ", ".join(item.name for item in items))
        asked = asked_params(context)
        number = asked["round"] + 1
        self.trigger_dag_id = context["dag"].dag_id
        first = context["run_id"].removesuffix(rounds.dag_run_id("", number - 1))
        self.trigger_run_id = rounds.dag_run_id(first, number)
        kept = {name: asked[name] for name in ("runs", "at_once") if name in asked}
        self.conf = {"campaign": str(folder.path), "round": number, **kept}
        super().execute(context)

    def on_kill(self) -> None:
        kill_descendants(psutil.Process())  # a bisection's command


class Conclude(CampaignStep):
    """Write result, page and index, unless another round follows; fail if the state is fail."""

    operator_extra_links = (CampaignPage(),)

    def execute(self, context: Context) -> str:
        from campaigns import runner

        states = context["ti"].get_task_states(dag_id=context["dag"].dag_id, run_ids=[context["run_id"]])
        if states[context["run_id"]].get(NEXT) == "success":
            raise AirflowSkipException("Another round follows; its end has the result.")
        with self.stage():
            result = runner.conclude(self.folder, places(context))
        about = {"campaign": result.campaign_id, "state": result.state, "page": str(self.folder.page)}
        context["outlet_events"][CAMPAIGNS].extra.update(about)
        self.log.info("%s", result.sentence)
        self.log.info("page: %s", campaign_page(self.folder.path) or self.folder.page)
        if result.state == "fail":
            raise AirflowFailException(f"{result.sentence} See {self.folder.page}.")
        return str(self.folder.page)


class WriteIndex(BaseOperator):
    """Write the index of all runs and campaigns; return its path."""

    def execute(self, context: Context) -> str:
        from campaigns.site import write_index

        return str(write_index(places(context)))
