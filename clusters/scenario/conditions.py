"""Conditions of the steps wait, slow and require."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from clusters.scenario.targets import Node, Target
from clusters.scenario.values import Model, without_none


class OffsetBetween(Model):
    """An inclusive range for a replica's offset, as its own broker reports it."""

    node: Node
    at_least: int | None = Field(default=None, ge=0)
    at_most: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _bounded(self) -> OffsetBetween:
        if self.at_least is None and self.at_most is None:
            raise ValueError(f"the offset of {self.node} has no bound; set at_least, at_most or both")
        return self

    @model_serializer(mode="wrap")
    def _as_written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return without_none(handler(self))

    def holds(self, offset: int | None) -> bool:
        return (
            offset is not None and (self.at_least or 0) <= offset and (self.at_most is None or offset <= self.at_most)
        )

    def __str__(self) -> str:
        bounds = (("at least", self.at_least), ("at most", self.at_most))
        return f"{self.node} " + ", ".join(f"{words} {bound}" for words, bound in bounds if bound is not None)


class Condition(Model):
    """A condition: exactly one field is set."""

    out_of_isr: Node | None = None
    in_isr: Node | None = None
    leads: Node | None = None
    log_end_offset: OffsetBetween | None = None
    high_watermark: OffsetBetween | None = None
    log_start_offset: OffsetBetween | None = None
    isr_full: str | None = None
    leader_changed: str | None = None
    caught_up: str | None = None
    balanced: str | None = None
    controller_changed: Literal[True] | None = None
    steady_state: Literal[True] | None = None

    @property
    def about(self) -> str | None:
        return self.isr_full or self.leader_changed or self.caught_up or self.balanced

    @property
    def target(self) -> Target | None:
        offset = self.log_end_offset or self.high_watermark or self.log_start_offset
        return self.out_of_isr or self.in_isr or self.leads or (offset.node if offset else None)

    @model_validator(mode="after")
    def _exactly_one(self) -> Condition:
        if len(self.model_fields_set) != 1:
            allowed = ", ".join(type(self).model_fields)
            raise ValueError(f"a condition is exactly one of {allowed}, not {sorted(self.model_fields_set)}")
        return self

    @model_serializer(mode="wrap")
    def _only_the_one(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return without_none(handler(self))

    def __str__(self) -> str:
        name = next(iter(self.model_fields_set))
        words, about = name.replace("_", " "), getattr(self, name)
        return words if about is True else f"{words}: {about}"
