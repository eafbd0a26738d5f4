"""Judge a history of the model and compare the result with the right answer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from evidence.run import open_folder
from history.anomalies import LOST as LOST_ANOMALIES
from history.manifest import Manifest
from judge.run import Judged, judge_run, one_by_one
from judge.verdict.decided import decided
from tests.model.cluster import Plan, Recorded, play
from tests.model.damages import damage
from tests.model.folder import write
from tests.model.truth import DUPLICATE, GONE, Demand, demand

MEMORY = Path("/dev/shm")
OF_FATE = {**dict.fromkeys(LOST_ANOMALIES, GONE), "duplicate": DUPLICATE}
Row = dict[str, Any]


@dataclass(frozen=True)
class Said:
    """The judge's result: ``cases`` are rows of its anomalies, ``missing`` the reasons for unknown."""

    verdict: str
    cases: list[Row]
    invariants: list[Row]
    missing: list[str]

    @property
    def reported(self) -> set[str]:
        """Return everything reported as violated or forbidden, without undecided cases."""
        violated = {row["invariant"] for row in self.invariants if row["violations"]}
        return violated | {row["anomaly"] for row in self.cases if row["allowed"] is False}

    def found(self, fate: str, partition: int, *, forbidden: bool = False) -> frozenset[tuple[str, int]]:
        """Return a partition's records of one fate (``GONE``, ``DUPLICATE``), all or the forbidden ones."""
        return frozenset(
            (row["producer_id"], row["seq"])
            for row in self.cases
            if row["partition"] == partition and OF_FATE.get(row["anomaly"]) == fate
            if not forbidden or row["allowed"] is False
        )


def said_of(manifest: Manifest, judged: Judged) -> Said:
    """Return the verdict as in docs/verdicts.md, without Great Expectations."""
    invariants = judged.tables["invariants"].to_pylist()
    counts = judged.tables["anomaly_counts"].to_pylist()
    missing = [why for _, why in [*judged.items, *decided(manifest, judged.tables)] if why]
    failed = any(row["violations"] for row in invariants if row["severity"] == "S1")
    failed |= any(row["allowed"] is False for row in counts if row["severity"] == "S1")
    verdict = "fail" if failed else "unknown" if missing else "pass"
    return Said(verdict, judged.tables["anomalies"].to_pylist(), invariants, missing)


def judge(recorded: Recorded) -> Said:
    """Judge a record."""
    with TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        run = open_folder(write(recorded, Path(folder) / "run"))
        return said_of(run.manifest, judge_run(run, one_by_one))


def disagreements(wanted: Demand, said: Said) -> list[str]:
    """Return the differences between the result and the right answer, as sentences."""
    found = []
    if said.verdict not in wanted.verdicts:
        shown = sorted(said.reported) or said.missing or "nothing"
        found.append(f"verdict {said.verdict}, not {' or '.join(sorted(wanted.verdicts))} ({wanted.why}): {shown}")
    if lacking := wanted.named - said.reported:
        found.append(f"not reported: {', '.join(sorted(lacking))}")
    if wanted.may is not None and (more := said.reported - wanted.may):
        found.append(f"reported without a ground: {', '.join(sorted(more))}")
    for (partition, fate), records in wanted.counts.items():
        if (own := said.found(fate, partition)) != records:
            found.append(f"{fate} in partition {partition}: {sorted(own)}, not {sorted(records)}")
        forbidden = wanted.forbidden.get((partition, fate), frozenset())
        if (accused := said.found(fate, partition, forbidden=True)) != forbidden:
            found.append(f"{fate} and forbidden in partition {partition}: {sorted(accused)}, not {sorted(forbidden)}")
    return found


def judged_plan(plan: Plan) -> tuple[Said, list[str]]:
    """Judge a plan's history; return the result and its errors."""
    recorded = play(plan)
    effects = damage(recorded)
    wanted, said = demand(recorded, effects), judge(recorded)
    return said, disagreements(wanted, said)


def wrong(plan: Plan) -> list[str]:
    """Judge a plan's history and return the errors, as sentences."""
    return judged_plan(plan)[1]
