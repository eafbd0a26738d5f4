"""Suites follow from the configuration, and the verdict from their results."""

from expectations.suites import configuration, outcome, record_expectations, replica_expectations
from spark.checks.allowed import allowed
from spark.checks.anomalies import SEVERITY
from tests.spark.folders import manifest


def test_fail_beats_unknown_beats_pass():
    """A violated critical expectation fails whatever else is missing; a warning never does."""
    met, lost = ("lost_write", "critical", True), ("lost_write", "critical", False)
    late, lacking = ("invisible_ack", "warning", False), ("evidence_missing", "critical", False)

    assert outcome([met]).verdict == "pass"
    assert outcome([met, late]).verdict == "pass"
    assert outcome([met, late]).warned == ["invisible_ack"]
    assert outcome([met, lacking]).verdict == "unknown"
    assert outcome([lost, lacking]).verdict == "fail"
    assert outcome([lost]).failed == ["lost_write"]


def test_a_missing_row_is_missing_evidence():
    """A row count that is not met says that a table was not there, not that Kafka broke a promise."""
    assert outcome([("", "critical", False)]).verdict == "unknown"


def test_expectations_name_the_setting_that_asks_for_them():
    """The same anomaly is promised away under acks=all and permitted under acks=1 with a kill."""
    strict = manifest(faults=["kill"])
    loose = manifest(acks="1", idempotence=False, faults=["kill"])

    def why(config):
        return {e.column: e.why for e in record_expectations(config, SEVERITY, allowed(config))}

    assert "promised by Kafka 4.3.0, acks=all" in why(strict)["lost_write"]
    assert "permitted to some producers: acks=1" in why(loose)["lost_write"]
    assert set(why(strict)) == set(SEVERITY)


def test_severity_carries_over():
    """S1 is critical, S2 a warning."""
    found = replica_expectations(manifest(), {"I1": ("bounds", "S1"), "I0": ("liveness", "S2")})

    assert [(e.column, e.severity) for e in found] == [("I1", "critical"), ("I0", "warning")]


def test_the_configuration_does_not_name_the_scenario():
    """What must hold is derived from settings; the scenario's name plays no part."""
    assert "synthetic" not in configuration(manifest())
    assert "min.insync.replicas=2" in configuration(manifest())
