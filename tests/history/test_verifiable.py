"""The values of Kafka's VerifiableProducer."""

import pytest

from history.verifiable import named


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("1.0", ("verifiable-1", 0)),
        ("0.120", ("verifiable-0", 120)),
        ("17", None),
        ("1.", None),
        ("1.007", None),
        ("01.7", None),
        ("-1.7", None),
        ("1.7.2", None),
        ("1.٣", None),
    ],
)
def test_a_value_names_its_producer_by_the_prefix(value, found):
    """As Kafka prints two numbers, and in no other form."""
    assert named(value) == found
