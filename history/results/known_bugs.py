"""Known bugs against versions of Kafka: each try, and bug by version."""

from __future__ import annotations

from typing import Any, Literal

from history.results.base import Model, Summary, Verdict

Outcome = Literal["found", "clean", "window missed", "unknown"]
Expected = Literal["found", "clean"]


class Try(Model):
    """One judged run. ``found_by`` are the names that count for the bug, ``also`` other violated invariants."""

    run_id: str
    item: str
    outcome: Outcome
    found_by: list[str]
    also: list[str]
    verdict: Verdict
    sentence: str


class Arm(Model):
    """A bug on a version: what is expected of it, and how often what came.

    ``expected`` is None where nobody knows; ``as_expected`` also where no try counts. ``interval`` is Clopper and
    Pearson's of found among decided, at 95 %. ``found_by`` and ``also`` count tries by name.
    """

    bug: str
    issue: str
    title: str
    scenario: str
    shown_as: list[str]
    arm: str
    kafka: str
    version: str
    expected: Expected | None
    as_expected: bool | None
    tries: int
    decided: int
    found: int
    clean: int
    window_missed: int
    unknown: int
    interval: tuple[float, float]
    found_by: dict[str, int]
    also: dict[str, int]
    runs: list[Try]


class KnownBugsResult(Summary):
    """``left_out`` are sentences about bugs that these versions cannot run, ``missing`` items without a run."""

    kind: Literal["known_bugs"] = "known_bugs"
    seed: int
    settings: dict[str, Any]
    tries: int
    left_out: list[str]
    hosts: list[str]
    missing: list[str]
    arms: list[Arm]
