"""Suites follow from the configuration, and the verdict from their results."""

from dataclasses import replace

import pytest

from expectations import suites
from expectations.checkpoint import Result
from expectations.suites import cases, configuration, outcome
from history.anomalies import SEVERITY
from judge.checks.allowed import allowed
from judge.verdict.decided import cases_decided
from tests.evidence.folders import manifest
from tests.expectations.summaries import checked, counted, example, examples, undecided


def result(suite, name, severity="critical", *, met):
    """Return the result of one expectation."""
    return Result(suite, name, severity, met, {"unexpected_count": 0 if met else 3})


READS = {"lost_write": {"sends", "polls"}, "invisible_ack": {"sends"}, "I2": {"replicas"}}


def concluded(*results):
    """Return the outcome of some results, where checks read these tables."""
    return outcome(results, READS)


def test_fail_beats_unknown_beats_pass():
    """A violated critical expectation fails regardless of missing evidence; a warning never fails."""
    met, lost = result("anomalies", "lost_write", met=True), result("anomalies", "lost_write", met=False)
    late = result("anomalies", "invisible_ack", "warning", met=False)
    lacking = result("evidence", "missing", met=False)

    assert concluded(met).verdict == "pass"
    assert concluded(met, late).verdict == "pass"
    assert concluded(met, late).warned == ["invisible_ack"]
    assert concluded(met, lacking).verdict == "unknown"
    assert concluded(lost, lacking).verdict == "fail"
    assert concluded(lost).failed == ["lost_write"]


def test_a_broken_contract_leaves_what_reads_its_table_undecided():
    """A broken contract makes its table's checks undecided and the verdict unknown; other tables' checks can fail."""
    broken = result("sends", "seq is at least 0", met=False)
    lost = result("anomalies", "lost_write", met=False)
    ahead = result("invariants", "I2", met=False)
    why = "The recorded table sends cannot be trusted: seq is at least 0 (3)."

    assert concluded(broken) == suites.Outcome(
        "unknown", [], [], [why], dict.fromkeys(["lost_write", "invisible_ack"], why)
    )
    assert (concluded(broken, lost).verdict, concluded(broken, lost).failed) == ("unknown", [])
    assert (concluded(broken, lost, ahead).verdict, concluded(broken, lost, ahead).failed) == ("fail", ["I2"])
    assert concluded(result("polls", "x", met=False), lost).verdict == "unknown"
    assert concluded(result("isr", "x", met=False), lost).verdict == "fail"


def test_a_contract_that_only_warns_changes_nothing():
    """A contract that only warns does not change the verdict, and is shown in the Data Docs."""
    shown = replace(result("replicas", "never above", met=False), severity="warning")

    assert concluded(shown) == concluded()


def test_the_configuration_does_not_name_the_scenario():
    """The configuration follows from settings, not from the scenario's name."""
    assert "synthetic" not in configuration(manifest())
    assert "min.insync.replicas=2" in configuration(manifest())


def test_expectations_name_the_setting_that_asks_for_them():
    """Each expectation names its setting: a loss is forbidden under acks=all and permitted under acks=1 with a kill."""
    strict, loose = manifest(faults=["kill"]), manifest(acks="1", idempotence=False, faults=["kill"])

    def of(config):
        suite = suites._anomalies(None, counted(), configuration(config), allowed(config), SEVERITY)
        return {expectation.meta["name"]: expectation for expectation in suite.expectations}

    assert of(strict)["lost_write"].description.startswith("lost_write (S1): no case. Promised by Kafka 4.3.0, acks")
    assert "no case but permitted ones. Permitted to some producers: acks=1" in of(loose)["lost_write"].description
    assert set(of(strict)) == set(SEVERITY)


def test_an_anomaly_that_the_evidence_cannot_show_is_not_expected():
    """An expectation about what was not observed would pass for want of rows."""
    suite = suites._anomalies(None, counted(), "", {}, {"hanging_transaction"})

    assert [expectation.meta["name"] for expectation in suite.expectations] == ["hanging_transaction"]


def test_severity_carries_over():
    """S1 is critical and S2 is a warning."""
    suite = suites._invariants(checked(("I10", "S1", 0), ("I2", "S2", 0)), "")

    found = [(each.meta["name"], each.severity.value) for each in suite.expectations]
    assert found == [("invariants", "critical"), ("I2", "warning"), ("I10", "critical")]


def test_counts_decide_and_examples_are_shown():
    """A kind's count decides and is one row; its shown examples have the count 0."""
    table = cases(counted(("lost_write", None, 1_000_000)), examples(example("lost_write", 5)))

    assert [(row["cases"], row["explanation"]) for row in table.to_pylist()] == [
        (1_000_000, "1,000,000 in all"),
        (0, "offset 5 is gone"),
    ]


def test_an_example_without_a_count_counts():
    """An example without a count counts as one case."""
    table = cases(counted(("duplicate", None, 1)), examples(example("lost_write", 5)))

    assert [row["cases"] for row in table.to_pylist()] == [1, 1]


def lacking(case):
    """Return the suites' input for a run with undecided cases."""
    counts = undecided(*case)
    return {"anomaly_counts": counts, "evidence": [cases_decided(counts.to_pylist())]}


def test_a_clean_complete_run_passes(judged):
    """A clean and complete run meets every expectation."""
    assert judged() == suites.Outcome("pass", [], [], [])


@pytest.mark.parametrize(
    ("given", "verdict", "failed", "warned"),
    [
        ({"evidence": [("seal intact", "A file is missing.")]}, "unknown", [], []),
        ({"anomaly_counts": None}, "unknown", [], []),
        ({"invariants": None}, "unknown", [], []),
        ({"anomaly_counts": counted(("lost_write", None, 2))}, "fail", ["lost_write"], []),
        ({"anomaly_counts": counted(("lost_write", "acks=0", 2))}, "pass", [], []),
        ({"anomaly_counts": counted(("invisible_ack", None, 2))}, "pass", [], ["invisible_ack"]),
        (lacking(("lost_write", "no history", 2)), "unknown", [], []),
        (lacking(("invisible_ack", "no history", 2)), "pass", [], []),
        ({"invariants": checked(("I1", "S1", 4), ("I22", "S2", 0))}, "fail", ["I1"], []),
        ({"invariants": checked(("I1", "S1", 0), ("I22", "S2", 4))}, "pass", [], ["I22"]),
    ],
)
def test_what_was_found_decides(judged, given, verdict, failed, warned):
    """Only forbidden anomalies and violated guarantees fail, and missing evidence makes the verdict unknown."""
    found = judged(**given)

    assert (found.verdict, found.failed, found.warned) == (verdict, failed, warned)
