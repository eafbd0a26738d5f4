"""Plan a capacity campaign's load steps and catch-up runs; see docs/capacity.md."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, Self, Unpack

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from campaigns.campaign import MAX_TIMES, Campaign, Item, Row, When
from campaigns.capacity import KIND, demand
from campaigns.capacity import result as answer
from campaigns.capacity.study import AWAY_PHASE, STEADY_PHASE, phase_of
from campaigns.statistics.capacity import MOST_BROKERS
from clusters.scenario.load import Codec
from clusters.scenario.scenario import Allowance, load_scenario
from clusters.scenario.values import Share
from history.metrics import disturbed
from history.results.capacity import CapacityResult

TOPIC = "orders"
WARM_UP = "warm up"  # a phase
AWAY = "A"
SMALLEST_SHARE = 0.05  # below it, record number and checksum take a larger share
SHORTEST_DOWN_S = 12.0  # above the session timeout of 9 s
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
MbPerSecond = Annotated[float, Field(gt=0, le=100_000)]
Downtime = Annotated[float, Field(ge=SHORTEST_DOWN_S, le=86_400)]


Steps = dict[str, list[dict[str, Any]]]  # name and steps, as in a scenario file


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _range(value: object) -> object:
    pair = value if isinstance(value, list | tuple) else (value, value)
    if len(pair) != 2 or not all(type(each) in (int, float) for each in pair):
        raise ValueError(f"{value!r:.80} is no growth; give a number such as 0.03, or two: [least, most]")
    return tuple(pair)


class Question(_Model):
    """The load and its targets. MB are 10^6 bytes after compression, ``record_bytes`` before it.

    ``burst`` is peak over mean, ``downtime_s`` how long a broker is away, ``growth_per_month`` a share such as 0.03 or
    a range. ``compresses_to`` is the compressed share of real records. ``demand`` is a file of a cluster's metrics over
    ``demand_weeks``: default load, burst, groups and growth. ``disk_gb`` and ``disk_mb_per_s`` are a broker's,
    ``retention_gb`` is a partition's limit, ``old_reads_share`` the share of groups' reads from disk. ``racks`` have
    equally many brokers, and replicas of a partition are in different ones.
    """

    demand: str = ""
    demand_weeks: int = 0
    demand_doubts: tuple[str, ...] = ()
    write_mb_per_s: Positive
    brokers: int = Field(ge=2, le=MOST_BROKERS)
    replication_factor: int = Field(default=3, ge=2)
    partitions: int = Field(default=6, ge=1)
    consumer_groups: int = Field(default=1, ge=0)
    record_bytes: int = Field(default=1000, ge=64)
    compression: Codec = "none"
    compresses_to: Annotated[Share, Field(ge=SMALLEST_SHARE)] | None = None
    tls: bool = False
    target_p99_ms: Positive
    target_recovery_s: Positive
    downtime_s: Positive = 30.0
    burst: float = Field(default=1.0, ge=1)
    growth_per_month: Annotated[tuple[float, float], BeforeValidator(_range)] = (0.0, 0.0)
    horizon_months: int = Field(default=6, ge=0)
    retention_hours: Positive = 24.0
    retention_gb: Positive | None = None
    disk_gb: Positive | None = None
    disk_mb_per_s: Positive | None = None
    old_reads_share: Share = 0.0
    racks: Annotated[int, Field(ge=2)] | None = None

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


class Grid(_Model):
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


class Measurement(_Model):
    """``resource_limits`` apply to each of as many brokers as replicas."""

    kafka: str
    runtime: str = "docker"
    resource_limits: Allowance
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


class Settings(_Model):
    """``capacity.yaml``."""

    question: Question
    measurement: Measurement

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
        asked = math.ceil(question.partitions * question.replication_factor / question.brokers)
        return min([asked, *self.measurement.partitions[-1:]])


def plan(settings: Mapping[str, Any], **when: Unpack[When]) -> Campaign:
    """Plan load steps, the grid in random order (a drifting host is no slope), then held-out points."""
    question = settings.get("question")
    told = {**settings, "question": demand.asked(question)} if isinstance(question, Mapping) else settings
    asked = KIND.check(Settings, told)
    rng = random.Random(when["seed"])
    items = [*_knees(asked, rng), *_grid(asked, rng), *_partitions(asked, rng), *_held_out(asked, rng)]
    for item in {item.labels["role"]: item for item in items}.values():
        load_scenario(item.scenario, item.changes)  # rejects impossible runs
    return Campaign(kind=KIND.name, settings=asked.model_dump(mode="json"), items=items, **when)


def follow_up(campaign: Campaign, rows: Sequence[Row]) -> list[Item]:
    """Return the items that the host disturbed after their warm-up, to be recorded once more.

    Latencies and catch-up times are not looked at: points chosen by them would not test the model.
    """
    measured = (row for row in campaign.own(rows) if row["phase"] != WARM_UP)
    again = {row["labels"]["item"] for row in measured if disturbed(row)}
    return [item.model_copy(update={"name": f"{item.name}-again"}) for item in campaign.items if item.name in again]


def result(campaign: Campaign, rows: Sequence[Row]) -> CapacityResult:
    """Return the capacity plan that the archive's rows support."""
    return answer.result(campaign, rows)


# --- items -----------------------------------------------------------------------------------------


def _knees(asked: Settings, rng: random.Random) -> Iterator[Item]:
    """Alternate healthy and degraded, so that both see the same host."""
    measured = asked.measurement
    phases = {
        "knee": _steps(asked, measured.load_steps),
        "degraded": _degraded_steps(asked, measured.degraded_steps or measured.load_steps),
    }
    for turn in range(1, measured.repetitions + 1):
        for role, steps in phases.items():
            yield _item(asked, rng, f"{role}-{turn}", "load_steps", steps, role=role)


def _steps(asked: Settings, loads: Sequence[float]) -> list[Steps]:
    return [
        _warm_up(asked, min(loads)),
        *(
            {phase_of("knee", load): [_set_rate(asked, load), _hold(asked.measurement.step_s)]}
            for load in sorted(loads)
        ),
    ]


def _degraded_steps(asked: Settings, loads: Sequence[float]) -> list[Steps]:
    """One phase per load, since a fault ends with its phase; latency counts until the broker is back."""
    gone: list[dict[str, Any]] = [{"stop": AWAY}, {"wait": {"for": {"out_of_isr": AWAY}, "limit": 60}}]
    back = [{"start": AWAY}, _isr_full(asked)]
    return [
        _warm_up(asked, min(loads)),
        *(
            {phase_of("degraded", load): [*gone, _set_rate(asked, load), _hold(asked.measurement.step_s), *back]}
            for load in sorted(loads)
        ),
    ]


def _grid(asked: Settings, rng: random.Random) -> Iterator[Item]:
    grids = {"cached": asked.measurement.grid, "cold": asked.measurement.cold}
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
        yield _catch_up(asked, rng, called, "catch_up", point, backlog=backlog)


def _partitions(asked: Settings, rng: random.Random) -> Iterator[Item]:
    measured = asked.measurement
    load, down_s = min(measured.load_steps), min(measured.grid.down_s)
    runs = [(count, turn) for turn in range(1, measured.repetitions + 1) for count in measured.partitions]
    rng.shuffle(runs)
    phases = [
        _warm_up(asked, load),
        {STEADY_PHASE: [_set_rate(asked, load), _hold(measured.step_s)]},
        {AWAY_PHASE: [{"kill": AWAY}, _hold(down_s), {"start": AWAY}, _isr_full(asked)]},
    ]
    for count, turn in runs:
        name = f"partitions-{turn}-{count}"
        yield _item(asked, rng, name, "catch_up", phases, role="partitions", partitions=f"{count}")


def _held_out(asked: Settings, rng: random.Random) -> Iterator[Item]:
    for number, point in enumerate(asked.measurement.held_out, 1):
        yield _catch_up(asked, rng, f"held-out-{number}", "held_out", point)


def _catch_up(
    asked: Settings, rng: random.Random, name: str, role: str, point: Target, *, backlog: str = "cached"
) -> Item:
    cold: list[dict[str, Any]] = [{"drop_cache": "all"}] if backlog == "cold" else []
    away: list[dict[str, Any]] = [{"kill": AWAY}, _hold(point.down_s), *cold]
    balanced: list[dict[str, Any]] = [{"elect": "preferred"}, {"wait": {"for": {"balanced": TOPIC}, "limit": 30}}]
    back = [{"start": AWAY}, _isr_full(asked), *balanced]
    phases: list[Steps] = [_warm_up(asked, point.write_mb_per_s), {AWAY_PHASE: [*away, *back]}]
    load, down_s = f"{point.write_mb_per_s:g}", f"{point.down_s:g}"
    labels = {"role": role, "write_mb_per_s": load, "down_s": down_s, "backlog": backlog}
    return _item(asked, rng, f"{name}-{load}mb-{down_s}s", "catch_up", phases, **labels)


def _warm_up(asked: Settings, write_mb_per_s: float) -> Steps:
    return {WARM_UP: [_set_rate(asked, write_mb_per_s), _hold(asked.measurement.warm_up_s)]}


def _set_rate(asked: Settings, write_mb_per_s: float) -> dict[str, Any]:
    return {"set_rate": f"{round(1e6 * write_mb_per_s / asked.question.stored_bytes)}/s"}


def _hold(seconds: float) -> dict[str, Any]:
    return {"hold": seconds}


def _isr_full(asked: Settings) -> dict[str, Any]:
    return {"wait": {"for": {"isr_full": TOPIC}, "limit": asked.measurement.give_up_s}}


def _item(
    asked: Settings, rng: random.Random, name: str, scenario: str, phases: Sequence[Steps], **labels: str
) -> Item:
    question, measured = asked.question, asked.measurement
    partitions = int(labels.get("partitions", asked.measured_partitions))
    letters = [chr(ord("A") + index) for index in range(question.replication_factor)]
    resource_limits = measured.resource_limits.model_dump()  # nulls drop the scenario's own limits
    security = {"security": {"tls": "one_way"}} if question.tls else {}
    payload = {"payload": {"compresses_to": question.compresses_to}} if question.compresses_to else {}
    return Item(
        name=name,
        scenario=scenario,
        kafka=measured.kafka,
        changes={
            "cluster": {"brokers": len(letters), "jvm": "production", "resource_limits": resource_limits, **security},
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
