"""Times of a partition, and the parts of them that lie outside of others."""

import pytest

from evidence.facts import Outage, longest_outside, outside
from tests.evidence.probed import facts_of

SPANS = [
    ([], [(0, 10)], 10),
    ([(2, 4)], [(0, 2), (4, 10)], 6),
    ([(3, 9), (0, 4)], [(9, 10)], 1),
    ([(-5, 3), (7, 99)], [(3, 7)], 4),
    ([(8, 9), (1, 2)], [(0, 1), (2, 8), (9, 10)], 6),
    ([(12, 14)], [(0, 10)], 10),
    ([(-5, 99)], [], 0),
]


@pytest.mark.parametrize(("spans", "parts", "longest"), SPANS)
def test_the_parts_of_a_time_outside_of_spans(spans, parts, longest):
    """Of 0 to 10; spans may overlap, and reach over either end."""
    assert list(outside(spans, 0, 10)) == parts
    assert longest_outside(spans, 0, 10) == longest


def test_an_outage_of_the_leader_or_a_controller_disturbs():
    """Broker 1 leads. That broker 2 is out of reach is another matter."""
    known = facts_of(outages=[Outage(1, 3, 4), Outage(2, 0, 9), Outage(None, 6, 7)])

    assert list(known.undisturbed(1, 0, 10)) == [(0, 3), (4, 6), (7, 10)]
    assert [known.disturbed(1, 0, 2), known.disturbed(1, 4, 5), known.disturbed(1, 8, 9)] == [False, True, False]
