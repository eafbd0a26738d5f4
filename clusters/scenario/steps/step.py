"""The base class of all steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from pydantic import SerializerFunctionWrapHandler, model_serializer, model_validator

from clusters.scenario.conditions import Condition
from clusters.scenario.targets import NodeKind, Target, listed
from clusters.scenario.values import Model, without_none
from history.kafka_settings import Kind
from history.partition import TopicPartition
from history.traits import Trait

if TYPE_CHECKING:
    from clusters.scenario.scenario import Scenario

WORK_S = 2.0
_RESTART_S = 8.0
_SLOWEST = 4  # on a busy host


class Duration(NamedTuple):
    """A step's expected seconds, and the seconds after which it hangs."""

    expected_s: float
    longest_s: float

    @classmethod
    def of_work(cls, seconds: float) -> Duration:
        return cls(seconds, _SLOWEST * seconds)

    @classmethod
    def of_wait(cls, limit_s: float) -> Duration:
        return cls(limit_s / 10, limit_s)

    def plus(self, seconds: float) -> Duration:
        return Duration(self.expected_s + seconds, self.longest_s + seconds)


class Step(Model):
    """One call in a phase, identified by its key: ``- pause: {node: …}``. Each class with a key registers itself.

    ``example`` is for error messages; ``traits`` are possible impacts on its targets; ``shorthand`` is the field of a
    bare value (``- hold: 5s``); ``ends`` are the faults that it heals; ``needs`` are
    capabilities of the cluster (``clusters.runtimes.runtime``).
    """

    by_key: ClassVar[dict[str, type[Step]]] = {}
    key: ClassVar[str]
    example: ClassVar[str]
    traits: ClassVar[frozenset[Trait]]
    shorthand: ClassVar[str | None] = None
    fault: ClassVar[bool] = False
    needs: ClassVar[frozenset[str]] = frozenset()
    kernel: ClassVar[tuple[str, ...]] = ()
    ends: ClassVar[tuple[str, ...]] = ()
    may_target: ClassVar[frozenset[NodeKind]] = frozenset({"broker"})
    target_is_down: ClassVar[bool] = False
    ends_all: ClassVar[bool] = False  # active faults of its phase
    may_lack_controllers: ClassVar[bool] = False  # if its target is them, as in ZooKeeper mode

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        if "key" in vars(cls):
            cls.by_key[cls.key] = cls

    @model_validator(mode="before")
    @classmethod
    def _from_shorthand(cls, value: object) -> object:
        if cls.shorthand and not isinstance(value, dict):
            return {cls.shorthand: value}
        return value

    @classmethod
    def takes(cls) -> str:
        """Return the fields as part of a sentence, required ones first."""
        named: dict[bool, list[str]] = {True: [], False: []}
        for name, field in cls.model_fields.items():
            named[field.is_required()].append(field.alias or name)
        needs, may = (", ".join(names) for names in named.values())
        return f"{cls.key} takes {needs}" + (f", and optionally {may}" if may else "")

    @model_serializer(mode="wrap")
    def _keyed(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        given = without_none(handler(self))
        fields = type(self).model_fields
        return {self.key: {fields[name].alias or name: value for name, value in given.items()}}

    @property
    def required(self) -> frozenset[str]:
        """Return the capabilities that the step needs with its targets; members need none."""
        kinds = {target.kind for target in self.targets}
        if kinds == {"member"}:
            return frozenset()
        return self.needs | {"controllers"} if "controller" in kinds else self.needs

    def check(self, scenario: Scenario) -> None:
        """Raise ValueError, without the place, if the step does not fit the scenario."""

    @property
    def duration(self) -> Duration:
        restarts = 0 if self.fault else len(self.breaks)
        return Duration.of_work(WORK_S * max(restarts, 1) + _RESTART_S * restarts)

    @property
    def settings_changed(self) -> tuple[str, Kind, Iterable[str]] | None:
        """Return the place, kind and names of Kafka's settings that the step changes."""
        return None

    @property
    def upgrades_to(self) -> str | None:
        return None

    @property
    def finalises(self) -> str | None:
        return None

    @property
    def new_rate(self) -> tuple[str | None, float] | None:
        """Return the load and its records per second from then on."""
        return None

    @property
    def scope(self) -> tuple[str, ...]:
        """Return what a step that ends this one must share with it."""
        return tuple(str(value) for name in ("node", "into") if (value := getattr(self, name, None)))

    @property
    def targets(self) -> list[Target]:
        named = [condition.target for condition in self.conditions]
        values = (each for value in dict(self).values() for each in listed(value))
        return [value for value in (*values, *named) if isinstance(value, Target)]

    @property
    def breaks(self) -> list[str]:
        return [self.key] if self.fault else []

    @property
    def partitions(self) -> list[TopicPartition]:
        topic: str | None = getattr(self, "topic", None)
        of_topic = [TopicPartition(topic, getattr(self, "partition", 0))] if topic else []
        return of_topic + [value for value in dict(self).values() if isinstance(value, TopicPartition)]

    @property
    def letters(self) -> list[str]:
        return []

    @property
    def conditions(self) -> list[Condition]:
        return [value for _, value in self if isinstance(value, Condition)]

    def __str__(self) -> str:
        named = ((field.alias or name, getattr(self, name)) for name, field in type(self).model_fields.items())
        return f"{self.key} " + ", ".join(f"{name} {_in_words(value)}" for name, value in named if value is not None)


def _in_words(value: object) -> str:
    return ", ".join(str(each) for each in listed(value))
