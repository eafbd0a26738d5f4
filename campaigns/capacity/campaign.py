"""Plan a capacity campaign's load steps and catch-up runs; see docs/capacity.md."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, Self, Unpack

from pydantic import BeforeValidator, Field, field_validator, model_validator

from campaigns.campaign import MAX_TIMES, Campaign, Item, Row, Strict, When
from campaigns.capacity import KIND, demand, lines, words
from campaigns.capacity.plan import Plan
from campaigns.capacity.study import AWAY_PHASE, STEADY_PHASE, Study, phase_of, runs_of
from campaigns.statistics.capacity import MOST_BROKERS
from clusters.attached.named import Named
from clusters.scenario.load import Codec
from clusters.scenario.scenario import Allowance, load_scenario
from clusters.scenario.values import Share
from history.metrics import disturbed
from history.results import capacity as results
from history.results.base import State
from history.results.capacity import CapacityResult, Positive, Recommendation, Recommended

TOPIC = "orders"
WARM_UP = "warm up"  # a phase
AWAY = "A"
SMALLEST_SHARE = 0.05  # below it, record number and checksum take a larger share
STATES: dict[Recommended, State] = {"right": "pass", "over": "pass", "under": "fail", "unknown": "unknown"}
NOTHING_FOLLOWS = {"recommendation": Recommendation(verdict="unknown", doubts=[]), "unsure": []}
SHORTEST_DOWN_S = 12.0  # above the session timeout of 9 s
MbPerSecond = Annotated[float, Field(gt=0, le=100_000)]
Downtime = Annotated[float, Field(ge=SHORTEST_DOWN_S, le=86_400)]


Steps = dict[str, list[dict[str, Any]]]  # name and steps, as in a scenario file


def _range(value: object) -> object:
    pair = value if isinstance(value, list | tuple) else (value, value)
    if len(pair) != 2 or not all(type(each) in (int, float) for each in pair):
        raise ValueError(f"{value!r:.80} is no growth; give a number such as 0.03, or two: [least, most]")
    return tuple(pair)


class Question(results.Question):
    """A checked question."""

    brokers: int = Field(ge=2, le=MOST_BROKERS)
    compression: Codec = "none"
    compresses_to: Annotated[Share, Field(ge=SMALLEST_SHARE)] | None = None
    growth_per_month: Annotated[tuple[float, float], BeforeValidator(_range)] = (0.0, 0.0)
    old_reads_share: Share = 0.0

    @field_validator("growth_per_month")
    @classmethod
    def _growth_is_a_range(cls, value: tuple[float, float]) -> tuple[float, float]:
        if not -0.5 < value[0] <= value[1] < 2:
            raise ValueError(
                f"{value[0]:g} to {value[1]:g} is no growth; give a number such as 0.03, or two: [least, most]"
            )
        return value

    @model_validator(mode="after")
    def _the_share_is_known(self) -> Self:
        if (self.compression == "none") != (self.compresses_to is None):
            raise ValueError(
                f"compression {self.compression} with compresses_to {self.compresses_to}; say both, such as zstd and "
                "40%, or leave out both"
            )
        return self

    @model_validator(mode="after")
    def _racks_are_alike(self) -> Self:
        if self.racks and self.racks < self.replication_factor:
            raise ValueError(
                f"racks {self.racks} is below replication_factor {self.replication_factor}, so one rack away takes "
                "more than one replica of a partition; name as many racks as replicas, or leave out racks"
            )
        if self.racks and self.brokers % self.racks:
            raise ValueError(
                f"brokers {self.brokers} is no multiple of racks {self.racks}; each rack must have as many brokers"
            )
        return self

    @property
    def stored_bytes(self) -> float:
        return self.record_bytes * (1.0 if self.compresses_to is None else self.compresses_to)


class Target(NamedTuple):
    """A load and a downtime."""

    write_mb_per_s: MbPerSecond
    down_s: Downtime


class Grid(Strict):
    """Every load with every downtime, repeated."""

    write_mb_per_s: list[MbPerSecond] = Field(min_length=2)
    down_s: list[Downtime] = Field(min_length=2)
    repetitions: int = Field(default=1, ge=1, le=MAX_TIMES)

    @property
    def points(self) -> list[Target]:
        return [Target(load, down_s) for load in self.write_mb_per_s for down_s in self.down_s]

    def surrounds(self, point: Target) -> bool:
        """Check that a point is inside, where any smooth curve would predict it."""
        loads, downs = self.write_mb_per_s, self.down_s
        return min(loads) <= point.write_mb_per_s <= max(loads) and min(downs) <= point.down_s <= max(downs)


class Measurement(Strict):
    """``resource_limits`` apply to each of as many brokers as replicas.

    On a ``cluster`` of others, topics have replicas on as many of its brokers.
    """

    kafka: str = ""
    cluster: Named = ""
    runtime: str = "docker"
    resource_limits: Allowance | None = None
    load_steps: list[MbPerSecond] = Field(min_length=3)
    degraded_steps: list[MbPerSecond] = Field(default_factory=list, validate_default=True)  # default: ``load_steps``
    repetitions: int = Field(default=3, ge=1, le=MAX_TIMES)
    warm_up_s: Positive = 20.0
    step_s: Positive = 30.0
    grid: Grid
    cold: Grid | None = None  # with a backlog outside the page cache
    partitions: list[Annotated[int, Field(ge=1)]] = Field(default_factory=list)  # per broker, at the first load
    held_out: list[Target] = Field(default_factory=list)
    give_up_s: Positive = 240.0

    @field_validator("runtime")
    @classmethod
    def _only_docker(cls, value: str) -> str:
        if value != "docker":
            raise ValueError(
                f"runtime {value} gives no broker a fixed share of the host, so killing one makes the others faster; "
                "capacity needs the docker runtime"
            )
        return value

    @model_validator(mode="after")
    def _is_on_one_kind_of_cluster(self) -> Self:
        if bool(self.kafka) == bool(self.cluster):
            raise ValueError("name either kafka, a version, or cluster, a file such as mine.yaml")
        if bool(self.kafka) != bool(self.resource_limits):
            raise ValueError("resource_limits are needed with kafka, and not set on your own cluster")
        if self.cluster and self.cold:
            raise ValueError("cold evicts files from this host's page cache; leave it out with a cluster")
        return self

    @field_validator("partitions")
    @classmethod
    def _partitions_are_a_curve(cls, value: list[int]) -> list[int]:
        if len(set(value)) != len(value) or len(value) == 1:
            raise ValueError(f"{value} is no curve; give two different numbers of partitions or more, or none")
        return sorted(value)

    @model_validator(mode="after")
    def _held_out_points_are_outside(self) -> Self:
        if inside := [point for point in self.held_out if self.grid.surrounds(point)]:
            raise ValueError(
                f"held_out has {inside[0].write_mb_per_s:g} MB/s for {inside[0].down_s:g} s, which lies inside the "
                "grid; a model proves itself outside"
            )
        return self


class Settings(Strict):
    """``capacity.yaml``."""

    question: Question
    measurement: Measurement

    @model_validator(mode="after")
    def _tls_is_the_clusters(self) -> Self:
        if self.question.tls and self.measurement.cluster:
            raise ValueError("question.tls is measured on clusters of this host alone; leave it out with a cluster")
        return self

    @model_validator(mode="after")
    def _replicas_fit(self) -> Self:
        if self.question.replication_factor > self.question.brokers:
            raise ValueError(
                f"replication_factor {self.question.replication_factor} is above the {self.question.brokers} brokers"
            )
        return self

    @property
    def measured_partitions(self) -> int:
        """Return partitions for as many replicas per broker as asked, at most the largest measured number."""
        question = self.question
        needed = math.ceil(question.partitions * question.replication_factor / question.brokers)
        return min([needed, *self.measurement.partitions[-1:]])


def plan(settings: Mapping[str, Any], **when: Unpack[When]) -> Campaign:
    """Plan load steps, the grid in random order (a drifting host is no slope), then held-out points."""
    question = settings.get("question")
    filled_in = {**settings, "question": demand.filled_in(question)} if isinstance(question, Mapping) else settings
    checked = KIND.check(Settings, filled_in)
    rng = random.Random(when["seed"])
    items = [*_knees(checked, rng), *_grid(checked, rng), *_partitions(checked, rng), *_held_out(checked, rng)]
    for item in {item.labels["role"]: item for item in items}.values():
        load_scenario(item.scenario, item.changes)  # rejects impossible runs
    return Campaign(kind=KIND.name, settings=checked.model_dump(mode="json"), items=items, **when)


def follow_up(campaign: Campaign, rows: Sequence[Row]) -> list[Item]:
    """Return the items that the host disturbed after their warm-up, to be recorded once more.

    Latencies and catch-up times are not looked at: points chosen by them would not test the model.
    """
    measured = (row for row in campaign.own(rows) if row["phase"] != WARM_UP)
    again = {row["labels"]["item"] for row in measured if disturbed(row)}
    return [item.model_copy(update={"name": f"{item.name}-again"}) for item in campaign.items if item.name in again]


def result(campaign: Campaign, rows: Sequence[Row]) -> CapacityResult:
    """Return the result; None is unknown, and ``missing`` explains it."""
    study = Study(campaign, runs_of(campaign, rows))
    follows = Plan(study, study.measured).as_json() if study.measured else NOTHING_FOLLOWS
    measured = CapacityResult.model_validate(
        {
            "campaign_id": campaign.campaign_id,
            "created_at": campaign.created_at,
            "state": "unknown",
            "sentence": "",
            "settings": campaign.settings,
            "question": campaign.settings["question"],
            "resource_limits": campaign.settings["measurement"]["resource_limits"] or {},
            "kafka": campaign.settings["measurement"]["kafka"],
            "runs": study.provenance(),
            "left_out": study.left_out,
            "knees": {role: study.knee_as_json(role) for role in ("knee", "degraded")},
            "catch_up": study.catch_up_as_json(),
            "model_check": study.model_check(),
            "partitions": study.partitions_as_json(),
            "missing": study.missing,
            **follows,
        }
    )
    state = STATES[measured.recommendation.verdict]
    spoken = {
        "state": "unknown" if state == "pass" and measured.unsure else state,
        "sentence": words.sentence(measured),
        "words": words.spoken(measured),
        "plan_table": list(lines.plan_table(measured, measured.plan)) if measured.plan else [],
        "limits": list(words.limits(measured)),
    }
    return measured.model_copy(update=spoken)


def _knees(settings: Settings, rng: random.Random) -> Iterator[Item]:
    """Alternate healthy and degraded, so that both see the same host."""
    measured = settings.measurement
    phases = {
        "knee": _steps(settings, measured.load_steps),
        "degraded": _degraded_steps(settings, measured.degraded_steps or measured.load_steps),
    }
    for turn in range(1, measured.repetitions + 1):
        for role, steps in phases.items():
            yield _item(settings, rng, f"{role}-{turn}", "load_steps", steps, role=role)


def _steps(settings: Settings, loads: Sequence[float]) -> list[Steps]:
    return [
        _warm_up(settings, min(loads)),
        *(
            {phase_of("knee", load): [_set_rate(settings, load), _hold(settings.measurement.step_s)]}
            for load in sorted(loads)
        ),
    ]


def _degraded_steps(settings: Settings, loads: Sequence[float]) -> list[Steps]:
    """One phase per load, since a fault ends with its phase; latency counts until the broker is back."""
    gone: list[dict[str, Any]] = [{"stop": AWAY}, {"wait": {"for": {"out_of_isr": AWAY}, "limit": 60}}]
    back = [{"start": AWAY}, _isr_full(settings)]
    return [
        _warm_up(settings, min(loads)),
        *(
            {phase_of("degraded", load): [*gone, _set_rate(settings, load), _hold(settings.measurement.step_s), *back]}
            for load in sorted(loads)
        ),
    ]


def _grid(settings: Settings, rng: random.Random) -> Iterator[Item]:
    grids = {"cached": settings.measurement.grid, "cold": settings.measurement.cold}
    points = [
        (backlog, turn, point)
        for backlog, grid in grids.items()
        if grid is not None
        for turn in range(1, grid.repetitions + 1)
        for point in grid.points
    ]
    rng.shuffle(points)
    for backlog, turn, point in points:
        called = f"catch-up-{turn}" if backlog == "cached" else f"cold-{turn}"
        yield _catch_up(settings, rng, called, "catch_up", point, backlog=backlog)


def _partitions(settings: Settings, rng: random.Random) -> Iterator[Item]:
    measured = settings.measurement
    load, down_s = min(measured.load_steps), min(measured.grid.down_s)
    runs = [(count, turn) for turn in range(1, measured.repetitions + 1) for count in measured.partitions]
    rng.shuffle(runs)
    phases = [
        _warm_up(settings, load),
        {STEADY_PHASE: [_set_rate(settings, load), _hold(measured.step_s)]},
        {AWAY_PHASE: [{"kill": AWAY}, _hold(down_s), {"start": AWAY}, _isr_full(settings)]},
    ]
    for count, turn in runs:
        name = f"partitions-{turn}-{count}"
        yield _item(settings, rng, name, "catch_up", phases, role="partitions", partitions=f"{count}")


def _held_out(settings: Settings, rng: random.Random) -> Iterator[Item]:
    for number, point in enumerate(settings.measurement.held_out, 1):
        yield _catch_up(settings, rng, f"held-out-{number}", "held_out", point)


def _catch_up(
    settings: Settings, rng: random.Random, name: str, role: str, point: Target, *, backlog: str = "cached"
) -> Item:
    cold: list[dict[str, Any]] = [{"drop_cache": "all"}] if backlog == "cold" else []
    away: list[dict[str, Any]] = [{"kill": AWAY}, _hold(point.down_s), *cold]
    balanced: list[dict[str, Any]] = [{"elect": "preferred"}, {"wait": {"for": {"balanced": TOPIC}, "limit": 30}}]
    back = [{"start": AWAY}, _isr_full(settings), *balanced]
    phases: list[Steps] = [_warm_up(settings, point.write_mb_per_s), {AWAY_PHASE: [*away, *back]}]
    load, down_s = f"{point.write_mb_per_s:g}", f"{point.down_s:g}"
    labels = {"role": role, "write_mb_per_s": load, "down_s": down_s, "backlog": backlog}
    return _item(settings, rng, f"{name}-{load}mb-{down_s}s", "catch_up", phases, **labels)


def _warm_up(settings: Settings, write_mb_per_s: float) -> Steps:
    return {WARM_UP: [_set_rate(settings, write_mb_per_s), _hold(settings.measurement.warm_up_s)]}


def _set_rate(settings: Settings, write_mb_per_s: float) -> dict[str, Any]:
    return {"set_rate": f"{round(1e6 * write_mb_per_s / settings.question.stored_bytes)}/s"}


def _hold(seconds: float) -> dict[str, Any]:
    return {"hold": seconds}


def _isr_full(settings: Settings) -> dict[str, Any]:
    return {"wait": {"for": {"isr_full": TOPIC}, "limit": settings.measurement.give_up_s}}


def _item(
    settings: Settings, rng: random.Random, name: str, scenario: str, phases: Sequence[Steps], **labels: str
) -> Item:
    question, measured = settings.question, settings.measurement
    partitions = int(labels.get("partitions", settings.measured_partitions))
    letters = [chr(ord("A") + index) for index in range(question.replication_factor)]
    made = {"jvm": "production", **({"security": {"tls": "one_way"}} if question.tls else {})}
    if measured.resource_limits:
        made["resource_limits"] = measured.resource_limits.model_dump()  # nulls drop the scenario's own limits
    payload = {"payload": {"compresses_to": question.compresses_to}} if question.compresses_to else {}
    return Item(
        name=name,
        scenario=scenario,
        kafka=measured.kafka,
        cluster=measured.cluster,
        changes={
            "cluster": {"brokers": len(letters), **({} if measured.cluster else made)},
            "topics": {TOPIC: {"partitions": partitions, "replicas": letters}},
            "load": {
                "record_bytes": question.record_bytes,
                "compression": question.compression,
                **payload,
                "p99_limit": question.target_p99_ms / 1000,
            },
            "phases": list(phases),
        },
        seed=rng.randrange(2**31),
        labels=labels,
    )
