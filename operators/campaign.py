"""Airflow steps of a campaign, each a few lines around one call of ``campaigns.recording`` or
``campaigns.runner``.

A run of a campaign is one task: its own grid would be the fifteen tasks of a scenario's DAG times dozens of runs.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import psutil
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from clusters.paths import runs_folder
from history.errors import BadInput, HarnessError
from history.events import stage_events
from operators.connections import ConnectedOperator
from operators.processes import kill_descendants
from operators.steps import asked_params

if TYPE_CHECKING:
    from airflow.sdk import Context

    from campaigns.campaign import CampaignFolder
    from campaigns.places import Places


def places() -> Places:
    """Where this Airflow's runs, archive and pages are."""
    from campaigns.places import Places  # heavy: not while a DAG file is parsed

    return Places.beside(runs_folder())


class CampaignStep(ConnectedOperator):
    """A step that knows its campaign by the folder's path.

    :param campaign: the campaign's folder
    """

    template_fields: tuple[str, ...] = ("campaign",)

    def __init__(self, *, campaign: str | None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.campaign = campaign

    @property
    def folder(self) -> CampaignFolder:
        from campaigns.campaign import CampaignFolder  # heavy: not while a DAG file is parsed

        if self.campaign is None:
            raise AirflowSkipException("There is no plan, so that there is nothing to go on with.")
        return CampaignFolder(Path(self.campaign))

    def stage(self, item: str = "") -> AbstractContextManager[None]:
        """Let whoever follows the campaign know when this step begins and ends."""
        return stage_events(self.folder.stages, self.task_id, item)

    def on_kill(self) -> NoReturn:
        kill_descendants(psutil.Process())  # a Spark driver outlives its spark-submit; nobody else does
        # Airflow runs on after this; only an exception ends the task, and lets a run be collected and torn down.
        raise HarnessError(f"Task {self.task_id} was told to stop before it was done.")


class PlanCampaign(ConnectedOperator):
    """Fix what will be run; returns the campaign's folder.

    :param kind: its name (``campaigns.kinds``)
    """

    def __init__(self, *, kind: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kind = kind

    def execute(self, context: Context) -> str:
        from campaigns import kinds, runner  # heavy: not while a DAG file is parsed
        from campaigns.campaign import CampaignFolder

        params = asked_params(context)
        prepared = params.pop("campaign", None)
        if prepared is not None:
            folder = CampaignFolder(Path(prepared))
            if folder.read_plan().kind != self.kind:
                raise BadInput(f"{prepared} is no campaign of kind {self.kind}; leave campaign empty to plan one.")
            return str(folder.path)
        name, seed, upload_to = (params.pop(key, None) for key in ("name", "seed", "upload"))
        settings = kinds.of(self.kind).settings(params, patch=params.pop("settings", None))
        folder = runner.plan(self.kind, settings, name=name, seed=seed, places=places(), upload_to=upload_to)
        return str(folder.path)


class CountItems(CampaignStep):
    """A number for each item that is neither recorded nor archived yet; none where the disk has no room for them.

    :param follow_up: of the runs that the first results made necessary, instead of the plan
    """

    def __init__(self, *, follow_up: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.follow_up = follow_up

    def execute(self, context: Context) -> list[int]:  # noqa: ARG002  # Airflow's signature
        from campaigns import recording  # heavy: not while a DAG file is parsed

        with self.stage():
            items = recording.items_of(self.folder, places(), more=self.follow_up)
            left = recording.outstanding(self.folder, items, places())
            recording.check_room(self.folder.path.name, left, places())
            return list(range(len(left)))


class RecordItem(CampaignStep):
    """Record the run whose turn it is while nothing else loads this host, and upload it where that was asked for;
    returns its folder.

    Airflow starts mapped tasks in any order, and the order of a campaign's runs is part of its plan: so that each takes
    whichever run comes next, whatever its own number.

    :param number: which of the mapped tasks this is
    :param follow_up: of the runs that the first results made necessary, instead of the plan
    """

    def __init__(self, *, number: int, follow_up: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.number = number
        self.follow_up = follow_up

    def execute(self, context: Context) -> str | None:
        from campaigns import recording, upload  # heavy: not while a DAG file is parsed

        items = recording.items_of(self.folder, places(), more=self.follow_up)
        item = recording.next_item(self.folder, items, places())
        # What the grid shows; without it a task that finds nothing left, as one that is tried again may, fails.
        context["item"] = item.name if item else "nothing left"  # type: ignore[typeddict-unknown-key]
        if item is None:
            return None
        self.log.info("recording %s: %s on Kafka %s", item.name, item.scenario, item.kafka)
        with self.stage(item.name):
            run = recording.record_item(self.folder, item, places())
            upload.upload(self.folder, [run], places())
        self.log.info("run: %s", run)
        return str(run)


class JudgeItems(CampaignStep):
    """Judge, publish and archive what was recorded; returns the run ids."""

    def execute(self, context: Context) -> list[str]:  # noqa: ARG002  # Airflow's signature
        from campaigns import runner  # heavy: not while a DAG file is parsed

        with self.stage():
            judged = runner.judge_recorded(self.folder, places())
        self.log.info("judged: %s", ", ".join(judged) or "nothing new")
        return judged


class Conclude(CampaignStep):
    """Write the result, its page and the index; red where the result's state is fail."""

    def execute(self, context: Context) -> str:  # noqa: ARG002  # Airflow's signature
        from campaigns import runner  # heavy: not while a DAG file is parsed

        with self.stage():
            result = runner.conclude(self.folder, places())
        self.log.info("%s", result.sentence)
        self.log.info("page: %s", self.folder.page)
        if result.state == "fail":
            raise AirflowFailException(f"{result.sentence} See {self.folder.page}.")
        return str(self.folder.page)


class WriteIndex(BaseOperator):
    """Write the page over all runs and campaigns anew; returns its path."""

    def execute(self, context: Context) -> str:  # noqa: ARG002  # Airflow's signature
        from campaigns.site import write_index  # heavy: not while a DAG file is parsed

        return str(write_index(places()))
