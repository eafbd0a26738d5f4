"""Evidence deleted from sound and failing folders, piece by piece: a sample of it, by a seed that is printed."""

import random

import pytest

from bench import folders
from bench.absence import GENERATED, plan_of
from bench.mutations.absence import Absence, deletions
from history.partition import TopicPartition
from history.tables import RECORDED
from tests.model.seeds import fresh_seed

SAMPLE = 16  # of some 250 pieces; python -m bench.absence tries all


@pytest.fixture(scope="module", params=GENERATED)
def absence(request, tmp_path_factory):
    """A folder of three brokers and two partitions, and room for its copies."""
    root = tmp_path_factory.mktemp("absence")
    return Absence(folders.write(plan_of(request.param), root / "run"), root)


def test_no_absence_makes_a_pass_or_a_violation(absence):
    """What is left without one piece never passes while a required check was not made, and never accuses; a violation
    that does not rest on the piece stays.
    """
    every = [each for each in deletions(absence.folder) if each.source != "usage"]
    chosen = random.Random(fresh_seed()).sample(every, SAMPLE)

    assert absence.whole.verdict == ("fail" if absence.whole.violations else "pass")
    wrong = {deletion.words: absence.wrong(deletion, absence.without(deletion)) for deletion in chosen}
    assert {words: found for words, found in wrong.items() if found} == {}


def test_everything_that_was_recorded_can_be_deleted(absence):
    """Of each table that has rows and a partition; of each replica's files; of each client's words."""
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
