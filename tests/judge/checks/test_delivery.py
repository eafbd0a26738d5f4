"""What delivery counts, and which deletions it knows of."""

from history.partition import TopicPartition
from judge.checks import delivery
from tests.evidence.folders import happened, manifest

DELETIONS = [
    {"effect_verified": False, "why": "no leader"},
    *({"partition": f"or-ders-{p}", "deleted_before": before} for p, before in [(0, 5), (0, 7), (1, 3), (0, 6)]),
]


def test_the_furthest_deletion_of_a_partition_counts():
    """As the leader answered; a deletion that was only ordered deletes nothing."""
    named = [happened(n, "injected", step="delete_records", detail=detail) for n, detail in enumerate(DELETIONS)]

    deleted = delivery.deleted([happened(0, "inject", step="delete_records"), *named])
    assert deleted == {("or-ders", 0): 7, ("or-ders", 1): 3}


def test_each_deletion_of_a_partition_needs_its_proof():
    """Two of partition 0 were ordered and one is proven; that of partition 1 is."""
    ordered = [{"delete_records": {"partition": f"or-ders-{p}"}} for p in (0, 0, 1)]
    told = manifest().model_copy(update={"scenario": {"phases": [{"one": [*ordered, {"kill": {"node": "A"}}]}]}})
    proven = [happened(n, "injected", step="delete_records", detail=DELETIONS[n]) for n in (0, 1, 3)]

    assert delivery.unproven(told, proven) == {TopicPartition("or-ders", 0)}
    assert delivery.unproven(told, [*proven, proven[1]]) == set()
