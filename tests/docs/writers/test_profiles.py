"""The table of docs/verdicts.md of what each kind of run can judge."""

from history.anomalies import SEVERITY
from judge.checks import invariants
from judge.run import CHECKS
from tests.docs.writers.profiles import PROFILES, mark, pages, ranges, table


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


def test_only_the_table_is_written() -> None:
    """The page around the table is as it was."""
    assert "## Evidence by kind of run" in pages()["verdicts.md"]
