"""The base class of all steps."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import SerializerFunctionWrapHandler, model_serializer, model_validator

from clusters.scenario.conditions import Condition
from clusters.scenario.targets import Target, listed
from clusters.scenario.values import Model, without_none
from history.partition import TopicPartition
from history.traits import Trait


class Step(Model):
    """One call in a phase, identified by its key: ``- pause: {node: …}``.

    ``traits`` are possible impacts on its targets; ``shorthand`` is the field of a bare value (``- hold: 5s``);
    ``ends`` are the faults that it heals; ``needs`` are runtime capabilities; ``of_dead``: it acts on a broker that is
    down.
    """

    key: ClassVar[str]
    traits: ClassVar[frozenset[Trait]]
    shorthand: ClassVar[str | None] = None
    fault: ClassVar[bool] = False
    needs: ClassVar[frozenset[str]] = frozenset()
    kernel: ClassVar[tuple[str, ...]] = ()
    ends: ClassVar[tuple[str, ...]] = ()
    of_dead: ClassVar[bool] = False
    of_controllers: ClassVar[bool] = False
    of_members: ClassVar[bool] = False

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
        told = without_none(handler(self))
        fields = type(self).model_fields
        return {self.key: {fields[name].alias or name: value for name, value in told.items()}}

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
        return [value for value in dict(self).values() if isinstance(value, TopicPartition)]

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
