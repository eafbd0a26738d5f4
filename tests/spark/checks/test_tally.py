"""From checks to rows of the invariants table."""

from spark.checks.invariants import Invariant
from spark.checks.tally import Check, summaries, tally


def check(violated, t_ns=0, **evidence):
    """One check of orders-0."""
    return Check("orders", 0, t_ns, violated, evidence)


NAMES = {"I4": Invariant("a title"), "I23": Invariant("another", "S2")}


def test_a_tally_keeps_the_earliest_violation():
    """Three checks, two violations; the earlier one is the evidence."""
    found = tally("I4", [check(True, 9, hw=2), check(False), check(True, 5, hw=1)])

    assert (found["checked"], found["violations"], found["t_ns"], found["evidence"]) == (3, 2, 5, '{"hw": 1}')


def test_a_summary_adds_up_its_partitions():
    """Fail beats pass, with the earliest violation of all partitions."""
    parts = [tally("I4", [check(False)]), tally("I4", [check(True, 9, hw=2)]), tally("I4", [check(True, 5, hw=1)])]
    row, other = summaries(parts, NAMES, {})

    assert (row["checked"], row["violations"], row["verdict"]) == (3, 2, "fail")
    assert row["reason"] == 'first violation on orders-0: {"hw": 1}'
    assert (other["verdict"], other["severity"]) == ("unknown", "S2")


def test_missing_evidence_changes_a_pass_and_never_a_failure():
    """Nothing checked, and evidence that is lacking, are unknown with their reasons."""
    lacking = {"I4": "no segments", "I23": "no segments"}
    rows = summaries([tally("I4", [check(True)]), tally("I23", [check(False)])], NAMES, lacking)

    assert [(row["verdict"], row["reason"]) for row in rows] == [
        ("fail", "first violation on orders-0: {}"),
        ("unknown", "no segments"),
    ]
    assert summaries([tally("I4", [check(False)])], {"I4": NAMES["I4"]}, {})[0]["verdict"] == "pass"
