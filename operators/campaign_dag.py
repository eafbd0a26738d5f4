"""The DAG of a campaign: plan, record, judge, follow up, conclude."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Asset, BaseNotifier, Param, TriggerRule, chain

from campaigns.kinds import UPLOAD, Kind, Option
from operators.airflow_home import BENCHMARK_POOL
from operators.campaign import Conclude, CountItems, JudgeItems, PlanCampaign, RecordItem
from operators.steps import watch

ARCHIVE = Asset(name="archive", uri="plimsoll://archive")  # triggers the index page
_RUN_LIMIT = timedelta(hours=6)  # phases have their own limits; a soak may occupy the host for hours before
_JUDGE_LIMIT = timedelta(hours=4)
_SHORT = timedelta(minutes=10)


DOC = """\
**Why:** {kind.why}

**Phases:** {kind.phases}

**Expected result:** {kind.expected}

**How to read it:** {kind.reading} The task `conclude` is red if the result is `fail`.

On the command line: `plimsoll {kind.command} --help`. More: `{kind.docs_page}`.
"""


def _param(json_type: str, title: str, description: str, **more: Any) -> Param:
    """Return an optional field; if it is empty, the settings apply."""
    return Param(None, type=[json_type, "null"], title=title, description_md=description, **more)


def _param_of(option: Option) -> Param:
    default = f" Default: `{option.default}`." if option.default else ""
    enum = {"enum": [*option.choices, None]} if option.choices else {"examples": [option.example]}
    json_type = "integer" if option.type is int else "string"
    description = f"{option.words}. Example: `{option.example}`.{default}"
    return _param(json_type, option.name.replace("_", " ").capitalize(), description, **enum)


COMMON = {
    "settings": Param(
        {}, type="object", title="Settings", description_md="A merge patch (RFC 7396) on the settings file."
    ),
    "name": _param("string", "Name", "The campaign's name. An unfinished campaign of this name is resumed."),
    "seed": _param("integer", "Seed", "Seed of all random choices; default: a random one."),
    "campaign": _param("string", "Campaign folder", "The folder of a planned campaign, to resume it."),
    UPLOAD.name: _param_of(UPLOAD),
}


def params_of(kind: Kind) -> dict[str, Param]:
    """Return a kind's form, from its declaration."""
    return {option.name: _param_of(option) for option in kind.form} | COMMON


def campaign_dag(kind: Kind, tell: Sequence[BaseNotifier] = (), schedule: Any = None, **more: Any) -> DAG:
    """Return a kind's DAG; it notifies ``tell`` of its result, and if planning fails.

    A pool with one slot serialises runs. A broken run fails its task, and the campaign continues.
    """
    with DAG(
        kind.name,
        dag_display_name=kind.title,
        description=f"{kind.help}.",
        doc_md=DOC.format(kind=kind),
        params=params_of(kind),
        max_active_runs=1,
        default_args={
            "owner": "plimsoll",
            "retries": 0,  # resuming the campaign records missing items
        },
        tags=["campaign", "benchmark" if kind.benchmark else "correctness"],
        schedule=schedule,
        **more,
    ) as dag:
        _tasks(kind.name, tell)
    return dag


def _tasks(kind: str, tell: Sequence[BaseNotifier]) -> None:
    plan = PlanCampaign(task_id="plan", kind=kind, execution_timeout=_SHORT, on_failure_callback=list(tell))
    campaign: Any = plan.output  # Airflow replaces it by the path
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
    watch([*first, *second, conclude], last=conclude)


def _round(campaign: Any, ending: str, *, follow_up: bool) -> list[Any]:
    """List, record and judge; if there is a plan, each step runs even if the previous one failed."""
    always = TriggerRule.ALL_DONE  # a skipped predecessor also skips ALL_DONE_MIN_ONE_SUCCESS
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
