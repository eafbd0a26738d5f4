"""Every anomaly of records, each with a near miss."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from evidence.batches import read_batches
from evidence.facts import Drain
from evidence.partition import Unreadable
from judge.checks import records
from judge.checks.account import account
from judge.checks.findings import Cases
from tests.evidence.folders import batch, polled, sent, sequenced, values
from tests.evidence.partitions import evidence, explanations, logged, shown


@dataclass
class Case:
    """A history of one partition and the expected (offset, seq) of each case of ``kind``, or of any kind.

    ``misses`` names the anomaly that it narrowly misses.
    """

    behaviour: str
    found: list
    sends: list
    polls: list
    logs: tuple = ()
    kind: str | None = None
    clean: bool = True
    misses: str | None = None


DAMAGED_BATCH = Unreadable(1, "broker-1", 4, "bad crc")
TAIL = [sent(0, offset=0), sent(2, offset=2)]
ONE = [sent(0, offset=0)]
CASES = [
    Case("acknowledged once, read once, live and finally", [], ONE, [polled(0, 0), polled(0, 0, final=False)],
         (logged(0, 0),)),
    Case("a record that a later read has passed is lost", [(0, 0)], [sent(0, offset=0), sent(1, offset=1)],
         [polled(1, 1)], (logged(1, 1),), "lost_write"),
    Case("an acknowledged record in no log, behind the drain's end, was truncated", [(12, 1)],
         [*ONE, sent(1, offset=12)], [polled(0, 0)], (), "truncated_ack"),
    Case("an acknowledged record above the drain's end is invisible", [(12, 1)],
         [*ONE, sent(1, offset=12)], [polled(0, 0)], (logged(12, 1),), "invisible_ack"),
    Case("a record at two offsets is a duplicate", [(1, 0)], ONE, [polled(0, 0), polled(1, 0)], (), "duplicate"),
    Case("an offset that was read twice is none", [], ONE, [polled(0, 0), polled(0, 0)], misses="duplicate"),
    Case("a record that nobody sent is a phantom", [(1, 7)], ONE, [polled(0, 0), polled(1, 7)], (), "phantom_record"),
    Case("a record that nobody sent is a phantom in a replica's log, too", [(1, 7)], ONE, [polled(0, 0)],
         (logged(0, 0), logged(1, 7)), "phantom_record"),
    Case("what a dead producer sent after the end of its ledger is no phantom", [], TAIL,
         [polled(0, 0), polled(2, 2), polled(3, 3)], (), "phantom_record", clean=False, misses="phantom_record"),
    Case("what a dead producer had in flight is none either, whatever was answered meanwhile", [], TAIL,
         [polled(0, 0), polled(1, 1), polled(2, 2)], (), "phantom_record", clean=False, misses="phantom_record"),
    Case("a gap within the ledger of one that ended cleanly is", [(1, 1)], TAIL,
         [polled(0, 0), polled(1, 1), polled(2, 2)], (), "phantom_record"),
    Case("a payload that does not fit its checksum, once however many saw it", [(0, 0)], ONE,
         [polled(0, 0, checksum_ok=False)], (logged(0, 0, checksum_ok=False),), "corrupt_record"),
    Case("a payload without a checksum is not known to be corrupt", [], ONE, [polled(0, 0, checksum_ok=None)],
         misses="corrupt_record"),
    Case("a record without a checksum that nobody sent is a phantom", [(1, 7)], ONE,
         [polled(0, 0), polled(1, 7, checksum_ok=None)], (), "phantom_record"),
    Case("a batch with a wrong CRC is corrupt", [(4, None)], ONE, [polled(0, 0)], (DAMAGED_BATCH,), "corrupt_record"),
    Case("a torn tail is not", [], ONE, [polled(0, 0)], (DAMAGED_BATCH._replace(problem="torn tail"),),
         misses="corrupt_record"),
    Case("a send that failed for good and was read", [(0, 0)], [sent(0, outcome="fail", error="TOO_LARGE")],
         [polled(0, 0)], (), "aborted_read"),
    Case("an indeterminate send may be read", [], [sent(0, outcome="info")], [polled(0, 0)], misses="aborted_read"),
    Case("of two records acknowledged at one offset the one that is not there is named", [(0, 0)],
         [sent(0, offset=0), sent(1, offset=0)], [polled(0, 1)], (), "inconsistent_offset"),
    Case("where nothing was drained it is the one that no replica's log has there", [(0, 0)],
         [sent(0, offset=0, acks="all"), sent(1, offset=0, acks="1")], [], (logged(0, 1),), "inconsistent_offset"),
    Case("and where no log is known the one whose producer was promised less", [(0, 1)],
         [sent(0, offset=0, acks="all"), sent(1, offset=0, acks="1")], [], (), "inconsistent_offset"),
    Case("two records at two offsets are consistent", [], [sent(0, offset=0), sent(1, offset=1)],
         [polled(0, 0), polled(1, 1)], misses="inconsistent_offset"),
]  # fmt: skip


def found(case) -> Iterator[tuple[Cases, list]]:
    """Yield the cases of every kind in a history, with their places."""
    held = [row for row in case.logs if not isinstance(row, Unreadable)]
    of = evidence(
        case.sends,
        case.polls,
        logs={1: held},
        unreadable=tuple(row for row in case.logs if isinstance(row, Unreadable)),
        unclean_producers=frozenset() if case.clean else frozenset({"load-1"}),
    )
    told = account(of.sends, of.polls, of.logs, drain=Drain(10, 10, True), whole=True)
    for cases in (
        *records.unread_acknowledged(of, told),
        records.duplicate(of, told),
        records.phantom_record(of, told),
        records.corrupt_record(of),
        records.aborted_read(of, told),
        records.inconsistent_offset(of, told),
    ):
        yield cases, shown(cases, of.names)


@pytest.mark.parametrize("case", CASES, ids=[case.behaviour for case in CASES])
def test_a_history_shows_its_anomaly(case):
    """Each case's name states the behaviour."""
    places = [place for cases, places in found(case) if case.kind in {None, cases.anomaly} for place in places]

    assert places == case.found


def test_an_offset_that_was_given_twice_says_what_it_holds_now():
    """The explanation of an inconsistent offset has the record that was acknowledged there and the present one."""
    case = next(case for case in CASES if case.kind == "inconsistent_offset")
    (sentence,) = (explanations(cases) for cases, _ in found(case) if cases.anomaly == "inconsistent_offset")

    assert sentence == ["Offset 0 was that of record load-1/0 and holds record load-1/1 now."]


@pytest.mark.parametrize(
    ("copies", "gave_up", "permitted"),
    [
        ([sequenced(0, (0,), 2), sequenced(1, (0,), 0, producer=(7, 1))], {"load-1"}, True),
        ([sequenced(0, (0,), 2), sequenced(1, (0,), 3)], {"load-1"}, False),  # the broker let it in twice
        ([sequenced(0, (0,), 2), sequenced(1, (0,), 0, producer=(8, 1))], {"load-1"}, False),  # of two producers
        ([sequenced(0, (0,), 2), sequenced(1, (0,), 0, producer=(7, 1))], {"load-2"}, False),  # nothing was given up
        ([batch(0, values(0)), batch(1, values(0))], {"load-1"}, False),
        ([sequenced(0, (0,), 2)], {"load-1"}, False),  # the log is incomplete
        ([], {"load-1"}, False),
    ],
)
def test_a_copy_in_a_higher_producer_epoch_is_permitted(tmp_path, copies, gave_up, permitted):
    """A copy in a higher producer epoch is permitted to a producer that gave up records; in the same epoch not."""
    log = tmp_path / "log"
    log.write_bytes(b"".join(copies))
    of = evidence(ONE, [polled(0, 0), polled(1, 0)], final=1, batches={1: read_batches([log])})
    told = account(of.sends, of.polls, of.logs, drain=Drain(10, 10, True), whole=True)

    case = records.duplicate(of, told, gave_up)

    assert (case.why(0) is not None) is permitted
    if permitted:
        assert explanations(case) == [
            "Record load-1/0 was sent once and is at offsets 0, 1, written in the producer epochs 0, 1."
        ]
