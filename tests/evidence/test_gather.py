"""The evidence of one partition, gathered from a run folder."""

import pytest

from evidence.facts import PartitionFacts, RunFacts
from evidence.gather import gather
from evidence.run import open_folder
from history.partition import TopicPartition
from tests.evidence.folders import clean, values

ORDERS = TopicPartition("orders", 0)


@pytest.mark.parametrize(
    ("ends", "whole", "members"),
    [
        ({1: 50, 2: 50, 3: 50}, True, {1, 2, 3}),
        ({1: 50, 2: 50, 3: 51}, False, {1, 2}),
        ({1: 50, 2: 50}, False, {1, 2}),  # no capture saw where broker 3's log ends
    ],
)
def test_a_log_that_was_exported_short_is_not_whole(tmp_path, ends, whole, members):
    """A log that ends below the last capture's end offset is not whole, since the export was incomplete."""
    history = clean()
    history.logs = {broker: [(0, 0, values(*range(40))), (40, 0, values(*range(40, 50)))] for broker in (1, 2, 3)}
    run = open_folder(history.write(tmp_path / "run"))
    asked = PartitionFacts(ORDERS, replicas=run.replicas[ORDERS], assigned=(1, 2, 3), ends=ends)

    of, _ = gather(RunFacts(run.folder.path, nodes={n: f"broker-{n}" for n in (1, 2, 3)}), asked)
    assert (of.whole, set(of.members)) == (whole, members)
