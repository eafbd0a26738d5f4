"""What delivery counts, and which deletions it knows of."""

from judge.checks import delivery
from tests.evidence.folders import happened

DELETIONS = [
    {"effect_verified": False, "why": "no leader"},
    *({"partition": f"or-ders-{p}", "deleted_before": before} for p, before in [(0, 5), (0, 7), (1, 3), (0, 6)]),
]


def test_the_furthest_deletion_of_a_partition_counts():
    """As the leader answered; a deletion that was only ordered deletes nothing."""
    named = [happened(n, "injected", step="delete_records", detail=detail) for n, detail in enumerate(DELETIONS)]

    deleted = delivery.deleted([happened(0, "inject", step="delete_records"), *named])
    assert deleted == {("or-ders", 0): 7, ("or-ders", 1): 3}
