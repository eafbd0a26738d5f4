"""What every campaign's DAG is: plan, record, judge, what follows from it, conclude."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Asset, BaseNotifier, Param, TriggerRule, chain

from campaigns.campaign import Kind
from operators.airflow_home import BENCHMARK_POOL
from operators.campaign import Conclude, CountItems, JudgeItems, PlanCampaign, RecordItem
from operators.steps import Watcher

ARCHIVE = Asset(name="archive", uri="plimsoll://archive")  # the page over everything is written when it grows
_RUN_LIMIT = timedelta(hours=6)  # its phases have limits of their own; a soak may hold the host for hours before it
_JUDGE_LIMIT = timedelta(hours=4)
_SHORT = timedelta(minutes=10)


PARAMS = {
    "settings": Param({}, type="object", description="A merge patch on the settings; docs/ has a page on each kind"),
    "name": Param(None, type=["string", "null"], description="A campaign that is there already goes on"),
    "seed": Param(None, type=["integer", "null"]),
    "campaign": Param(None, type=["string", "null"], description="The folder of one that is planned already"),
}


def campaign_dag(
    kind: Kind,
    description: str,
    params: Mapping[str, Param] | None = None,
    tell: Sequence[BaseNotifier] = (),
    **schedule: Any,
) -> DAG:
    """The DAG of a kind of campaign; ``tell`` are notified of its result, red or green, and where it cannot be planned.

    Runs go one after the other, also under a scheduler: they share one pool with one slot. A run that broke leaves its
    task red, and the campaign goes on without it.
    """
    with DAG(
        kind,
        description=description,
        params={**(params or {}), **PARAMS},
        max_active_runs=1,
        default_args={"retries": 0},  # what is missing is recorded when the campaign is taken up again
        tags=["campaign"],
        **schedule,
    ) as dag:
        _tasks(kind, tell)
    return dag


def _tasks(kind: Kind, tell: Sequence[BaseNotifier]) -> None:
    plan = PlanCampaign(task_id="plan", kind=kind, execution_timeout=_SHORT, on_failure_callback=list(tell))
    campaign: Any = plan.output  # Airflow puts the path in its place
    first = _round(campaign, "", follow_up=False)
    second = _round(campaign, "_follow_up", follow_up=True)
    conclude = Conclude(
        task_id="conclude",
        campaign=campaign,
        trigger_rule=TriggerRule.ALL_DONE,
        execution_timeout=_SHORT,
        outlets=[ARCHIVE],
        on_success_callback=list(tell),
        on_failure_callback=list(tell),
    )
    chain(plan, first[0])
    chain(first[-1], second[0])
    chain(second[-1], conclude)
    [*first, *second, conclude] >> Watcher(task_id="watcher", trigger_rule=TriggerRule.ONE_FAILED)


def _round(campaign: Any, ending: str, *, follow_up: bool) -> list[Any]:
    """List, record and judge; each goes on whatever became of the one before, if there is a plan."""
    always = TriggerRule.ALL_DONE  # the rule that asks for one success is skipped with any skipped task before it
    items = CountItems(
        task_id=f"items{ending}",
        campaign=campaign,
        follow_up=follow_up,
        trigger_rule=always if follow_up else TriggerRule.ALL_SUCCESS,
        execution_timeout=_SHORT,
    )
    record = RecordItem.partial(
        task_id=f"record{ending}",
        campaign=campaign,
        follow_up=follow_up,
        map_index_template="{{ item }}",
        pool=BENCHMARK_POOL,
        max_active_tis_per_dagrun=1,
        execution_timeout=_RUN_LIMIT,
    ).expand(number=items.output)
    judge = JudgeItems(
        task_id=f"judge{ending}",
        campaign=campaign,
        trigger_rule=always,
        execution_timeout=_JUDGE_LIMIT,
        outlets=[ARCHIVE],
    )
    chain(record, judge)
    return [items, record, judge]
