"""Counts of partitions add up to those of the run."""

import numpy as np
import pyarrow as pa
import pytest

from evidence import counts
from evidence.columns import Names, Polls, Seeks, Sends
from evidence.counts import Counts, Ledger
from evidence.facts import Span
from evidence.partition import Unreadable
from evidence.samples import Samples
from history.partition import TopicPartition
from history.payload import MAX_SEQ
from history.tables import POLLS, REPLICAS, SEEKS, SENDS
from tests.evidence.folders import MS, S, polled, sample, sent, sought

WHERE = TopicPartition("orders", 0)


def clients(sends=(), polls=(), seeks=()):
    """Return the counts of one partition's clients."""
    names = Names()
    read = [(Sends, sends, SENDS), (Polls, polls, POLLS), (Seeks, seeks, SEEKS)]
    return counts.of_clients(*(kind.of(pa.Table.from_pylist(list(rows), of), names) for kind, rows, of in read), names)


def test_ledgers_of_partitions_are_one_ledger():
    """Ledgers of partitions add up by producer; a number that occurs twice in a partition counts once."""
    here = [sent(0, offset=0), sent(2, outcome="info"), sent(2, outcome="info"), sent(7, producer_id="b", offset=3)]
    there = [sent(1, offset=0), sent(3, outcome="fail")]
    found = Counts().merge([clients(here), clients(there), clients()]).ledgers

    assert found == {"load-1": Ledger(5, 4, 3, 8, 2), "b": Ledger(1, 1, 7, 7, 1)}
    assert (found["load-1"].repeated, found["b"].repeated) == (1, 0)


@pytest.mark.parametrize(
    ("here", "there", "repeated"),
    [
        ([0, 2], [1, 3], 0),
        ([0, 2, 2], [1, 3], 1),
        ([0, 2], [1, 2, 3], 1),  # more sends than numbers
        ([0, 2], [2, 3], 1),  # as many, and not the sum of all numbers
        ([0, 2], [3], 0),  # 1 was lost with a part of the ledger
        ([5], [9], 0),
        ([MAX_SEQ, MAX_SEQ - 1, MAX_SEQ - 2], [MAX_SEQ], 0),
        ([MAX_SEQ, MAX_SEQ], [], 1),
    ],
)
def test_a_number_that_stands_twice_is_seen(here, there, repeated):
    """A number that occurs twice is found, in other partitions, too, unless other numbers are missing."""
    found = Counts().merge([*(clients([sent(n, at_ns=S) for n in part]) for part in (here, there))])

    assert found.ledgers["load-1"].repeated == repeated


def test_reads_and_seeks_are_counted_by_their_reader():
    """Reads and seeks are counted by reader; a failed read completes nothing, and a foreign record has no name."""
    polls = [polled(0, 0), polled(1, 1), polled(0, None, final=False, producer_id=None)]
    found = Counts().merge([clients(polls=polls, seeks=[sought(1, 1, 5)]), clients(polls=[polled(0, 2)])])

    assert (found.read, found.sought) == ({"drain-1": 3, "consumer-1": 1}, {"consumer-1": 1})
    assert (found.completed_reads, found.unnamed_reads) == (4, 1)
    assert clients(polls=[polled(0, 0) | {"pass": "incomplete"}]).completed_reads == 0


def test_a_broker_was_probed_in_the_phases_in_which_it_answered():
    """An answer from a phase's first to its last moment counts as probed; one between phases or an error does not."""
    phases = [Span("p", 10 * S, 12 * S), Span("q", 13 * S, 14 * S)]
    rows = [sample(1, 12 * S - MS, 1, 1), sample(2, 12 * S, 1, 1), sample(2, 13 * S - MS, 1, 1)]
    rows.append(sample(3, 11 * S, None, None, error="timeout"))
    samples = Samples.of(pa.Table.from_pylist(rows, REPLICAS))
    found = counts.of_replicas(WHERE, samples, phases, rows=4, isr_rows=2)

    assert found.probed_in == {("p", 1), ("q", 2)}
    assert found.sampled == {(1, "orders", 0), (2, "orders", 0)}
    assert Counts().merge([found, found]).probed == {"rows": 8, "isr_rows": 4}


def test_a_log_has_its_end_and_its_problems():
    """Each replica's log has its end offset, and each of its problems once."""
    places = [
        Unreadable(2, "broker-2", at, problem) for at, problem in ((5, "torn tail"), (1, "bad crc"), (3, "bad crc"))
    ]
    found = counts.of_logs(WHERE, {1: 9, 2: 5}, places, {2: (5, 7)})

    assert found.log_ends == {(1, "orders", 0): 9, (2, "orders", 0): 5}
    assert found.log_problems == {(2, "orders", 0): ["bad crc", "torn tail"]}
    assert found.log_gaps == {(2, "orders", 0): (5, 7)}


def test_a_capture_counts_what_answered():
    """A capture counts answers with a log end offset; log ends are those of the last capture."""
    row = {"capture": "before", "error": None, "broker_id": 1, "topic": "orders", "partition": 0, "log_end_offset": 3}
    rows = [row, row | {"capture": "after", "log_end_offset": 8}, row | {"broker_id": 2, "error": "timeout"}]
    found = counts.of_captures([*rows, row | {"broker_id": 3, "log_end_offset": None}])

    assert found.captured == {"before": {(1, "orders", 0)}, "after": {(1, "orders", 0)}}
    assert found.ends == {(1, "orders", 0): 8}


def test_sums_of_large_numbers_are_exact():
    """Sums of large numbers are exact beyond 64 bits."""
    assert counts._sum(np.full(100_000, MAX_SEQ)) == 100_000 * MAX_SEQ
