"""Evidence that is deleted from clean and failing folders piece by piece: a sample by a printed seed."""

import random

import pytest

from bench import folders
from history.partition import TopicPartition
from history.tables import RECORDED
from tests.model.seeds import fresh_seed
from tests.mutations.absence import GENERATED, plan_of
from tests.mutations.deletions import Absence, deletions

SAMPLE = 16  # of some 250 pieces; python -m tests.mutations.absence tries all


@pytest.fixture(scope="module", params=GENERATED)
def absence(request, tmp_path_factory):
    """A folder of three brokers and two partitions, with its copies."""
    root = tmp_path_factory.mktemp("absence")
    return Absence(folders.write(plan_of(request.param), root / "run"), root)


def test_no_absence_makes_a_pass_or_a_violation(absence):
    """A deleted piece never causes a pass while a required check was not made, and never a violation.

    A violation that does not depend on the piece remains.
    """
    every = [each for each in deletions(absence.folder) if each.source != "usage"]
    chosen = random.Random(fresh_seed()).sample(every, SAMPLE)

    assert absence.whole.verdict == ("fail" if absence.whole.violations else "pass")
    wrong = {deletion.words: absence.wrong(deletion, absence.without(deletion)) for deletion in chosen}
    assert {words: found for words, found in wrong.items() if found} == {}


def test_everything_that_was_recorded_can_be_deleted(absence):
    """Everything recorded can be deleted: each partition of a table, each replica's files, each client's fields."""
    every = [deletion for deletion in deletions(absence.folder) if not deletion.uncounted]
    words = {deletion.words for deletion in every}
    tables = {deletion.source for deletion in every} & RECORDED.keys()

    assert tables == {"sends", "polls", "replicas", "isr", "offsets", "usage"}
    assert {deletion.where for deletion in every} == {None, TopicPartition("orders", 0), TopicPartition("orders", 1)}
    assert "replicas: topic orders, partition 1, broker_id 3" in words
    assert "brokers/broker-2/data/orders-1/leader-epoch-checkpoint" in words
    assert "clients/drain.json: partitions of orders-0" in words
    assert "brokers/broker-1/server.log: lines on orders-0" in words
    assert len(every) == len(words)
