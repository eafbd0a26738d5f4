"""A load's rate over time, and its records' sizes and keys."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError, model_serializer, model_validator

from clusters.scenario.values import Model, PerSecond, Seconds, Share, is_none, seconds
from history.draws import MAX_KEYS
from history.payload import MIN_RECORD_BYTES
from history.refusals import first_wrong


def _plain_or(plain: Any, what: str, *shapes: type[Model]) -> BeforeValidator:
    """Validate a plain value, or the shape that has a mapping's first field."""
    adapter = TypeAdapter(plain)

    def read(value: object) -> object:
        if isinstance(value, shapes):
            return value
        shape = next((each for each in shapes if isinstance(value, Mapping) and each.names()[0] in value), None)
        if isinstance(value, Mapping) and shape is None:
            raise ValueError(f"{value} is neither {what}")
        try:
            return shape.model_validate(value) if shape else adapter.validate_python(value)
        except ValidationError as error:
            raise ValueError(first_wrong(error)) from error

    return BeforeValidator(read)


def as_written(shape: Any) -> Any:
    """Return a shape as JSON data, a plain value unchanged."""
    return shape.model_dump(mode="json") if isinstance(shape, Model) else shape


class Ramp(Model):
    """Changes linearly from the load's first record on, then stays constant."""

    start: PerSecond = Field(alias="from")
    to: PerSecond
    over: Seconds

    def times(self, share: float) -> Ramp:
        return self.model_copy(update={"start": self.start * share, "to": self.to * share})

    @model_serializer(mode="plain")
    def _as_written(self) -> dict[str, Any]:
        return {"from": self.start, "to": self.to, "over": self.over}

    @property
    def usual(self) -> float:
        return self.to

    @property
    def peak(self) -> float:
        return max(self.start, self.to)


class Wave(Model):
    """A sine that starts at its mean and rises; ``amplitude`` is relative to the mean."""

    mean: PerSecond
    amplitude: Annotated[Share, Field(gt=0, lt=1)]
    period: Seconds

    def times(self, share: float) -> Wave:
        return self.model_copy(update={"mean": self.mean * share})

    @property
    def usual(self) -> float:
        return self.mean

    @property
    def peak(self) -> float:
        return self.mean * (1 + self.amplitude)


_Since = Annotated[float, Field(ge=0, allow_inf_nan=False), BeforeValidator(seconds)]


class RateSteps(Model):
    """Rates with start times after the load's first record; each holds until the next."""

    steps: list[tuple[_Since, PerSecond]] = Field(min_length=1)

    @model_validator(mode="after")
    def _in_order(self) -> RateSteps:
        times = [since for since, _ in self.steps]
        if times[0] or any(later <= earlier for earlier, later in pairwise(times)):
            raise ValueError(f"the times of steps begin with 0s and rise, unlike {times}")
        return self

    def times(self, share: float) -> RateSteps:
        return self.model_copy(update={"steps": [(since, rate * share) for since, rate in self.steps]})

    @property
    def usual(self) -> float:
        return self.steps[-1][1]

    @property
    def peak(self) -> float:
        return max(rate for _, rate in self.steps)


_RATES = "a rate such as 1000/s nor {from, to, over}, {mean, amplitude, period} or {steps}"
Rate = Annotated[float | Ramp | Wave | RateSteps, _plain_or(PerSecond, _RATES, Ramp, Wave, RateSteps)]


def usual(rate: Rate) -> float:
    """Return the long-term records per second: a wave's mean, a ramp's end, the last of steps."""
    return rate.usual if isinstance(rate, Model) else rate


def peak(rate: Rate) -> float:
    """Return the highest records per second."""
    return rate.peak if isinstance(rate, Model) else rate


def shared(rate: Rate, processes: int) -> Rate:
    """Return the rate of each of several processes."""
    return rate.times(1 / processes) if isinstance(rate, Model) else rate / processes


MAX_BATCH_BYTES = 900_000  # below message.max.bytes
RecordBytes = Annotated[int, Field(ge=MIN_RECORD_BYTES, le=MAX_BATCH_BYTES)]


class UniformSizes(Model):
    """Every size between two, inclusive, with equal frequency."""

    uniform: tuple[RecordBytes, RecordBytes]

    @model_validator(mode="after")
    def _in_order(self) -> UniformSizes:
        if self.uniform[0] >= self.uniform[1]:
            raise ValueError(f"uniform takes the smallest and the largest size, not {list(self.uniform)}")
        return self


class Lognormal(Model):
    """Half of the records have at most ``median`` bytes, 99 % at most ``p99``; ``max`` cuts longer ones."""

    median: RecordBytes
    p99: RecordBytes
    max: RecordBytes = MAX_BATCH_BYTES

    @model_validator(mode="after")
    def _in_order(self) -> Lognormal:
        if not self.median < self.p99 <= self.max:
            raise ValueError(f"lognormal needs median < p99 <= max, not {self.median}, {self.p99} and {self.max}")
        return self


class LognormalSizes(Model):
    """A long tail of large records."""

    lognormal: Lognormal


class MixedSizes(Model):
    """Several sizes, each with its share of the records."""

    mix: dict[RecordBytes, Annotated[Share, Field(gt=0)]] = Field(min_length=1)

    @model_validator(mode="after")
    def _whole(self) -> MixedSizes:
        if abs(sum(self.mix.values()) - 1) > 1e-6:
            raise ValueError(f"the shares of mix add up to {sum(self.mix.values()):.2%}, not to 100%")
        return self


_SIZES = "a number of bytes nor {uniform}, {lognormal} or {mix}"
Sizes = Annotated[
    int | UniformSizes | LognormalSizes | MixedSizes,
    _plain_or(RecordBytes, _SIZES, UniformSizes, LognormalSizes, MixedSizes),
]


class Keys(Model):
    """``count`` keys; zipf: the k-th has frequency 1/k^``exponent``; hot: one key has the share ``hot``."""

    count: int = Field(default=10_000, ge=2, le=MAX_KEYS)
    distribution: Literal["uniform", "zipf", "hot"] = "uniform"
    exponent: float | None = Field(default=None, gt=0, le=10, exclude_if=is_none)
    hot: Annotated[Share, Field(gt=0, lt=1)] | None = Field(default=None, exclude_if=is_none)

    @model_validator(mode="after")
    def _of_its_distribution(self) -> Keys:
        for name, distribution in (("exponent", "zipf"), ("hot", "hot")):
            if (getattr(self, name) is not None) != (self.distribution == distribution):
                raise ValueError(f"distribution: {distribution} needs {name}, and no other distribution has it")
        return self
