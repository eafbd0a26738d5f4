"""The matrix of loads that were tried."""

from clusters.scenario.scenario import load_scenario
from tests.acceptance import matrix


def test_every_declared_value_is_there_with_two_versions() -> None:
    """Every declared value of a scenario is a variant with two versions, and its scenario can be read."""
    found = {(variant.kind, variant.value): variant for variant in matrix.variants()}

    assert {("engine", "java"), ("codec", "zstd"), ("security", "sasl PLAIN"), ("group protocol", "consumer")} <= set(
        found
    )
    for variant in found.values():
        assert len(set(variant.versions)) == 2
        assert load_scenario(matrix.MAIN, variant.changes).name == matrix.MAIN
