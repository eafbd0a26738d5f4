"""The table of docs/verdicts.md of what each kind of run can judge."""

from evidence.profiles import WATCHED, attached
from evidence.sources import sources
from history.anomalies import SEVERITY
from history.manifest import ATTACHED
from judge.checks import invariants
from judge.run import CHECKS
from tests.acceptance.profiles import RESULTS
from tests.docs.writers.profiles import PROFILES, mark, pages, ranges, recorded, table
from tests.rows import read


def test_every_check_is_in_one_row() -> None:
    """Each anomaly and each invariant has a mark for each kind of run; a run on Plimsoll's own cluster makes all."""
    assert CHECKS.keys() == {*SEVERITY, *invariants.INVARIANTS}
    assert all(f"`{name}`" in table() for name in SEVERITY)
    assert {mark(check, PROFILES["own"]) for check in CHECKS.values()} == {"✓"}
    assert [mark(CHECKS["lost_write"], PROFILES[name]) for name in ("attached", "watch")] == ["(✓)", "–"]


def test_consecutive_invariants_are_a_range() -> None:
    """More than two consecutive ones are a range; two are not."""
    found = ranges(["lost_write", "I1", "I2", "I4", "I6", "I7", "I8"])
    assert list(found) == [
        "`lost_write`",
        "I1",
        "I2",
        "I4",
        "I6 to I8",
    ]


def test_recorded_runs_are_listed_with_what_was_not_judged() -> None:
    """The sentence is that of a verdict that is no pass; a rejected run has no evidence."""
    row = {
        "case": "run",
        "evidence": "clients",
        "judged": 20,
        "not_judged": 9,
        "verdict": "pass",
        "sentence": "Pass, so.",
    }
    unknown = row | {"verdict": "unknown", "sentence": "Inconclusive: evidence is missing."}
    rejected = row | {"evidence": "", "judged": 0, "not_judged": 29, "verdict": "rejected", "sentence": "No."}
    assert recorded([row, unknown, rejected, row | {"case": "again"}]).splitlines()[2:] == [
        "| run; again | clients | 20 | 9 | pass |",
        "| run | clients | 20 | 9 | unknown: evidence is missing. |",
        "| run | – | 0 | 29 | rejected: No. |",
    ]


def test_recorded_counts_are_those_of_the_first_table() -> None:
    """A recorded run or watch judged the checks that its evidence allows; another count is out of date."""
    with_logs = ATTACHED | sources("server logs")
    segments = sources("segments", "epoch files")
    kinds = [WATCHED, *map(attached, (ATTACHED, with_logs, ATTACHED | segments, with_logs | segments))]
    judged = {kind.words: sum(mark(check, kind) != "–" for check in CHECKS.values()) for kind in kinds}
    rows = [row for row in read(RESULTS) if row["evidence"]]
    assert [row["judged"] for row in rows] == [judged[row["evidence"]] for row in rows]
    assert [row["not_judged"] for row in rows] == [len(CHECKS) - row["judged"] for row in rows]


def test_only_the_tables_are_written() -> None:
    """The page around the tables is as it was."""
    assert "## Evidence by kind of run" in pages()["verdicts.md"]
