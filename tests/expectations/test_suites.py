"""Suites follow from the configuration, and the verdict from their results."""

from collections import Counter

import pytest

from expectations import suites
from expectations.checkpoint import Result, Subject, run
from expectations.contracts import CONTRACTS
from expectations.suites import configuration, outcome
from expectations.tallies import COLUMNS, NULLS, UNCOUNTED, Tallies
from history.anomalies import SEVERITY
from judge.checks.allowed import allowed
from judge.checks.invariants import INVARIANTS
from judge.verdict.decided import cases_decided
from tests.evidence.folders import manifest
from tests.expectations.summaries import checked, counted, example, examples, undecided


def result(suite, name, severity="critical", *, met, why="seq is at least 0 (3)"):
    """Return the result of one expectation."""
    return Result(suite, Subject(name, "", severity, [] if met else [why]), met)


READS = {"lost_write": {"sends", "polls"}, "invisible_ack": {"sends"}, "I2": {"replicas"}}


def concluded(*results):
    """Return the outcome of some results, where checks read these tables."""
    return outcome(results, READS)


def test_fail_beats_unknown_beats_pass():
    """A violated critical expectation fails regardless of missing evidence; a warning never fails."""
    met, lost = result("anomalies", "lost_write", met=True), result("anomalies", "lost_write", met=False)
    late = result("anomalies", "invisible_ack", "warning", met=False)
    lacking = result("evidence", "files readable", met=False)

    assert concluded(met).verdict == "pass"
    assert concluded(met, late).verdict == "pass"
    assert concluded(met, late).warned == ["invisible_ack"]
    assert concluded(met, lacking).verdict == "unknown"
    assert concluded(lost, lacking).verdict == "fail"
    assert concluded(lost).failed == ["lost_write"]


def test_a_broken_contract_leaves_what_reads_its_table_undecided():
    """A broken contract makes its table's checks undecided and the verdict unknown; other tables' checks can fail."""
    broken = result("contracts", "sends", met=False)
    lost = result("anomalies", "lost_write", met=False)
    ahead = result("invariants", "I2", met=False)
    why = "The recorded table sends cannot be trusted: seq is at least 0 (3)."

    assert concluded(broken) == suites.Outcome(
        "unknown", [], [], [why], dict.fromkeys(["lost_write", "invisible_ack"], why)
    )
    assert (concluded(broken, lost).verdict, concluded(broken, lost).failed) == ("unknown", [])
    assert (concluded(broken, lost, ahead).verdict, concluded(broken, lost, ahead).failed) == ("fail", ["I2"])
    assert concluded(result("contracts", "polls", met=False), lost).verdict == "unknown"
    assert concluded(result("contracts", "isr", met=False), lost).verdict == "fail"


def test_a_contract_that_only_warns_changes_nothing():
    """A contract that only warns does not change the verdict, and is shown in the Data Docs."""
    assert concluded(result("contracts", "sends (for review)", "warning", met=False)) == concluded()


def test_the_configuration_does_not_name_the_scenario():
    """The configuration follows from settings, not from the scenario's name."""
    assert "synthetic" not in configuration(manifest())
    assert "min.insync.replicas=2" in configuration(manifest())


def test_expectations_name_the_setting_that_asks_for_them():
    """Each expectation names its setting: a loss is forbidden under acks=all and permitted under acks=1 with a kill."""
    strict, loose = manifest(faults=["kill"]), manifest(acks="1", idempotence=False, faults=["kill"])

    def of(config):
        subjects = suites._anomalies(examples(), counted(), configuration(config), allowed(config), SEVERITY)
        return {subject.name: subject for subject in subjects}

    assert of(strict)["lost_write"].description.startswith("lost_write (S1): no case. Promised by Kafka 4.3.0, acks")
    assert "no case but permitted ones. Permitted to some producers: acks=1" in of(loose)["lost_write"].description
    assert set(of(strict)) == set(SEVERITY)


def test_an_anomaly_that_the_evidence_cannot_show_is_not_expected():
    """An expectation about what was not observed would pass for want of rows."""
    subjects = suites._anomalies(examples(), counted(), "", {}, {"hanging_transaction"})

    assert [subject.name for subject in subjects] == ["hanging_transaction"]


def test_severity_carries_over():
    """S1 is critical and S2 is a warning."""
    subjects = suites._invariants(checked(("I10", "S1", 0), ("I2", "S2", 0)), "")

    assert [(each.name, each.severity) for each in subjects] == [("I2", "warning"), ("I10", "critical")]


def test_an_example_without_a_count_counts():
    """An example without a count is a failing row."""
    subjects = suites._anomalies(examples(example("lost_write", 5)), counted(("duplicate", None, 1)), "", {}, SEVERITY)

    assert {each.name: each.failing for each in subjects if each.failing} == {
        "duplicate": ["1 case"],
        "lost_write": ["1 case"],
    }


def unmet(tmp_path, name, subjects):
    """Return the expectations of a suite that Great Expectations finds unmet, with what its page shows."""
    results = run({name: subjects}, tmp_path)
    assert len(results) == len(subjects)
    return {each.subject.name: [*each.subject.failing, *each.subject.examples] for each in results if not each.met}


@pytest.mark.parametrize("name", SEVERITY)
def test_a_forbidden_case_is_found_by_its_own_expectation(name, tmp_path):
    """A forbidden case of each kind fails exactly its expectation; a permitted case of it fails none."""
    other = next(each for each in SEVERITY if each != name)
    counts = counted((name, None, 2), (other, "acks=0", 5))
    subjects = suites._anomalies(examples(example(name, 5)), counts, "", {}, SEVERITY)

    assert unmet(tmp_path, "anomalies", subjects) == {name: ["2 cases", "orders-0, offset 5: offset 5 is gone"]}


@pytest.mark.parametrize("name", INVARIANTS)
def test_a_violation_is_found_by_its_own_expectation(name, tmp_path):
    """A violation of each invariant fails exactly its expectation; one that is undecided fails none."""
    other = next(each for each in INVARIANTS if each != name)
    table = checked((name, "S1", 4), (other, "S1", 0))

    assert list(unmet(tmp_path, "invariants", suites._invariants(table, ""))) == [name]


@pytest.mark.parametrize("at", range(3))
def test_a_missing_item_is_found_by_its_own_expectation(at, tmp_path):
    """A missing item of evidence fails exactly its expectation."""
    items = [(f"item {number}", "It is <missing>." if number == at else None) for number in range(3)]

    assert unmet(tmp_path, "evidence", suites._evidence(items)) == {f"item {at}": ["It is <missing>."]}


RULES = [(table, rule) for table, contract in CONTRACTS.items() for rule in contract.rules]
# A rule of each expectation, and what every table must keep.
PLANTED = {(table, rule.severity): rule.name for table, rule in RULES}
EVERYWHERE = [("sends", "critical", rule) for rule in (COLUMNS, NULLS, UNCOUNTED)]


@pytest.mark.parametrize(
    ("table", "severity", "rule"), [(*expectation, rule) for expectation, rule in PLANTED.items()] + EVERYWHERE
)
def test_a_row_that_breaks_a_rule_is_found_by_its_tables_expectation(table, severity, rule, tmp_path):
    """A row that breaks a rule fails exactly the expectation of its table and severity, which names rule and row."""
    tallies = Tallies(rows=Counter(dict.fromkeys(["sends", "replicas", table], 9)))
    tallies.add_broken(table, rule, 3, [{"seq": 7}])

    assert unmet(tmp_path, "contracts", suites._contracts(tallies)) == {
        table + (suites.FOR_REVIEW if severity == "warning" else ""): [f"{rule} (3 of 9 rows)", f"{rule}: seq 7"]
    }


def test_times_of_a_foreign_history_are_only_shown():
    """Rules on times are warnings for imported histories, whose clocks are unknown; the import's rules are critical."""
    tallies = Tallies(rows=Counter(sends=9))
    tallies.add_broken("sends", "sent_ns is not after done_ns", 3)
    tallies.add_broken("sends", "seq is at least 0", 3)

    def of(foreign):
        return [(each.severity, len(each.failing)) for each in suites._contracts(tallies, foreign=foreign)]

    assert of(foreign=True) == [("critical", 1), ("warning", 1)]
    assert of(foreign=False) == [("critical", 2)]


def test_a_table_without_rows_has_no_expectation():
    """A table without rows has none that could be met for want of rows, unless it broke a rule."""
    tallies = Tallies(rows=Counter(sends=9, polls=0, isr=0))
    tallies.add_broken("isr", UNCOUNTED, 1)

    assert [each.name for each in suites._contracts(tallies)] == ["sends", "isr"]


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
