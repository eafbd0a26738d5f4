"""Numbers as tables show them."""

import pytest

from reports.cells import change, p_value


@pytest.mark.parametrize(
    ("percent", "shown"),
    [
        (12.34, "+12 %"),
        (3.42, "+3.4 %"),
        (-3.42, "−3.4 %"),
        (-0.01, "+0.0 %"),
        (850, "+850 %"),
        (1234, "×13"),
        (99_900, "×1,000"),
        (99_999, "beyond ×1,000"),
        (-89, "−89 %"),
        (-99.75, "÷400"),
        (-99.95, "beyond ÷1,000"),
        (-100, "−100 %"),
    ],
)
def test_a_change_has_a_sign(percent, shown):
    """A decimal below 10 %; nothing is minus zero; factors where percents mean nothing any more."""
    assert change(percent) == shown


def test_no_p_value_is_zero():
    """Very small ones are bounded."""
    assert (p_value(0.0), p_value(0.0132)) == ("p < 0.0001", "p = 0.013")
