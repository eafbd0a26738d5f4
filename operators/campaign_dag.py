"""The DAG of a campaign: plan, record, judge, then another round of it, or conclude."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, BaseNotifier, Param, TriggerRule, chain

from campaigns.kinds import Kind, Option
from history.product import version
from operators.assets import ARCHIVE, CAMPAIGNS
from operators.campaign import NEXT, Conclude, JudgeItems, ListItems, NextRound, PlanCampaign, RecordItem
from operators.dag_settings import deadline, default_args, retries
from operators.steps import watch
from service.pools import BENCHMARKS, RUNS

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
    more: dict[str, Any] = {"enum": [*option.choices, None]} if option.choices else {"examples": [option.example]}
    if option.minimum is not None:
        more["minimum"] = option.minimum
    json_type = "integer" if option.type is int else "string"
    description = f"{option.words}. Example: `{option.example}`.{default}"
    return _param(json_type, option.name.replace("_", " ").capitalize(), description, **more)


COMMON = {
    "settings": Param(
        {}, type="object", title="Settings", description_md="A merge patch (RFC 7396) on the settings file."
    ),
    "name": _param("string", "Name", "The campaign's name. An unfinished campaign of this name is resumed."),
    "seed": _param("integer", "Seed", "Seed of all random choices; default: a random one."),
    "runs": _param("string", "Folder of runs", "Where the runs are; default: where this Airflow's runs are."),
    "campaign": _param("string", "Campaign folder", "The folder of a planned campaign, to resume it."),
    "round": Param(1, type="integer", minimum=1, title="Round", description_md="Set by the round before."),
}


def params_of(kind: Kind) -> dict[str, Param]:
    """Return a kind's form, from its declaration."""
    return {option.name: _param_of(option) for option in (*kind.form, *kind.recording)} | COMMON


def campaign_dag(kind: Kind, tell: Sequence[BaseNotifier] = ()) -> DAG:
    """Return a kind's DAG; it notifies ``tell`` of its result, and if planning fails.

    Runs are DAG runs of their scenarios; a pool limits them, and a broken one fails its task alone.
    """
    with DAG(
        kind.name,
        dag_display_name=kind.title,
        description=f"{kind.help}.",
        doc_md=DOC.format(kind=kind),
        params=params_of(kind),
        max_active_runs=1,
        default_args=default_args(),
        deadline=deadline(),
        tags=["campaign", "benchmark" if kind.benchmark else "correctness", version()],
        schedule=None,
    ) as dag:
        _tasks(kind, tell)
    return dag


def _tasks(kind: Kind, tell: Sequence[BaseNotifier]) -> None:
    always = TriggerRule.ALL_DONE
    plan = PlanCampaign(task_id="plan", kind=kind.name, execution_timeout=_SHORT, on_failure_callback=list(tell))
    campaign: Any = plan.output  # Airflow replaces it by the path
    recording = _record(campaign, "_at_once", at_once=True) if kind.mixed else []
    recording += _record(campaign, at_once=not kind.benchmark, after=bool(recording))
    judge = JudgeItems(
        task_id="judge", campaign=campaign, trigger_rule=always, execution_timeout=_JUDGE_LIMIT, outlets=[ARCHIVE]
    )
    more = NextRound(task_id=NEXT, campaign=campaign, execution_timeout=_RUN_LIMIT)
    conclude = Conclude(
        task_id="conclude",
        campaign=campaign,
        trigger_rule=always,
        execution_timeout=_SHORT,
        outlets=[ARCHIVE, CAMPAIGNS],
        on_success_callback=list(tell),
        on_failure_callback=list(tell),
    )
    chain(plan, *recording, judge, more, conclude)
    watch([*recording, judge, more, conclude], last=[conclude, more])


def _record(campaign: Any, suffix: str = "", *, at_once: bool, after: bool = False) -> list[Any]:
    """Return the tasks that list and record; ``suffix`` marks those of a mixed kind's runs at once."""
    items = ListItems(
        task_id=f"items{suffix}",
        campaign=campaign,
        at_once_only=bool(suffix),
        retries=retries(),
        trigger_rule=TriggerRule.ALL_DONE if after else TriggerRule.ALL_SUCCESS,  # a broken run fails alone
        execution_timeout=_SHORT,
    )
    record = RecordItem.partial(
        task_id=f"record{suffix}",
        campaign=campaign,
        map_index_template="{{ item }}",
        pool=(RUNS if at_once else BENCHMARKS).name,
        at_once="{{ params.at_once or '' }}" if at_once else 1,
        retries=3,  # only before the first fault, or for the same DAG run
        retry_delay=timedelta(seconds=5),
    ).expand(item=items.output)
    return [items, record]
