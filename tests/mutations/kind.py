"""Declare kinds of damage: functions that each damage a recording in one way and return the place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.mutations.recording import Recording, Row

SECOND_NS = 1_000_000_000
Damage = Callable[[Recording], str]


class Kind(NamedTuple):
    """One way to damage a recording of a scenario.

    ``found_by`` lists anomalies and invariants, any one of which suffices. ``reason``: the text that the verdict
    ``unknown`` must contain after evidence was removed. A kind with neither is a legal change, after which it
    must be pass.
    """

    name: str
    words: str
    found_by: tuple[str, ...]
    reason: str | None
    damage: Damage
    scenario: str = "survived_faults"


def kind(*found_by: str, reason: str | None = None, scenario: str = "survived_faults") -> Callable[[Damage], Kind]:
    """Make a function a kind of damage; its docstring is the kind's words."""

    def declared(damage: Damage) -> Kind:
        words = " ".join((damage.__doc__ or "").split())
        return Kind(damage.__name__, words, found_by, reason, damage, scenario)

    return declared


def value_of(row: Row) -> tuple[Any, Any]:
    """Return a record's identity."""
    return row["producer_id"], row["seq"]


def middle(rows: list[Any]) -> list[Any]:
    """Return all but the first and last tenth."""
    return rows[len(rows) // 10 : -(len(rows) // 10)]


def place_of(sample: Row) -> str:
    """Describe where a sample was taken."""
    return f"broker {sample['broker_id']} in epoch {sample['leader_epoch']}"


def of_life(run: Recording, sample: Row) -> list[Row]:
    """Return the samples of the same replica, start and epoch."""
    life = ("partition", "broker_id", "incarnation", "leader_epoch")
    return [row for row in run.samples() if all(row[name] == sample[name] for name in life)]
