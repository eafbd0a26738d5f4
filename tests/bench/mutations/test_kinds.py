"""The kinds of damage cover the checks."""

from bench.mutations.kinds import KINDS
from spark.checks import invariants, replica_checks
from spark.checks.anomalies import SEVERITY

# What no damage to these recordings can show.
ELSEWHERE = {
    "unseen",  # follows from missing logs, which are kinds of their own
    "unknown_offset_ack",  # our producers' acknowledgements carry an offset; imported histories may not
    "hanging_transaction",  # needs longer without a fault than a transaction may be open
    "behaviour_change",  # by design of a version, not by damage
}


def test_every_check_has_damage_that_it_must_see():
    """A check without a kind has its reason above."""
    found = {name for kind in KINDS for name in kind.found_by}
    checks = {*SEVERITY, *invariants.INVARIANTS, *replica_checks.INVARIANTS, "source_disagreement"}

    assert checks - found == ELSEWHERE & checks
    assert found <= checks


def test_kinds_are_told_apart():
    """Each has a name and a sentence of its own, and says what must see it."""
    assert len({kind.name for kind in KINDS}) == len({kind.words for kind in KINDS}) == len(KINDS) >= 25
    assert [kind.name for kind in KINDS if not kind.words.endswith(".") or not (kind.found_by or kind.reason)] == []
