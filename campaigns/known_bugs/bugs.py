"""The known bugs as data: which scenario provokes each, on which versions it must show, and as what.

A recipe is written for one bug; what finds it is not: the names in ``shown_as`` are invariants that the judge checks of
every run, or ``behaviour_change``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spark.gates import version

Range = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class Bug:
    """``bad`` and ``good`` are versions with and without it, ``bad_changes`` and ``good_changes`` merge patches on the
    scenario where the version alone does not decide. ``affected`` are ranges of versions, the second of each being the
    first without it, as the project's issue tracker has them.
    """

    issue: str
    title: str
    scenario: str
    bad: str
    good: str
    shown_as: Sequence[str]
    affected: Sequence[Range]
    bad_changes: Mapping[str, Any] = field(default_factory=dict)
    good_changes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """As it is asked for: ``kafka-13091``."""
        return self.issue.lower()

    def affects(self, kafka: str) -> bool:
        numbers = version(kafka)
        return any(since <= numbers < fixed for since, fixed in self.affected)


BUGS = (
    Bug(
        issue="KAFKA-13091",
        title="the high watermark stands still after the ISR shrank, until somebody writes again",
        scenario="isr_shrinks_at_rest",
        bad="3.0.2",
        good="3.1.2",
        shown_as=("I10",),
        affected=[((2, 7, 0), (3, 1, 0))],
    ),
)
