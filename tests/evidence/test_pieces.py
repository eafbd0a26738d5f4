"""Stretches of records that all sources show alike, and what contradicts one."""

import pyarrow as pa
import pytest

from evidence import pieces
from evidence.columns import Names, Polls, Seeks, Sends
from evidence.pieces import Alike, Judging, PlainRange, Rows, contradicted
from history.tables import POLLS, SEEKS, SENDS
from tests.evidence.folders import MS, S, polled, sent, sought
from tests.evidence.partitions import log_of, logged

RECORDS = 9  # offsets 0 to 8, numbers 10 to 18


@pytest.fixture(autouse=True)
def _short_ranges(monkeypatch):
    """Let three records be a plain range."""
    monkeypatch.setattr(pieces, "_MIN_RECORDS", 2)


def history():
    """Return sends, polls and one log of records that all sources show alike."""
    sends = [sent(10 + n, offset=n) for n in range(RECORDS)]
    polls = [polled(n, 10 + n, final=final) for final in (False, True) for n in range(RECORDS)]
    return sends, polls, [logged(n, 10 + n) for n in range(RECORDS)]


def rows_of(sends=(), polls=(), log=(), names=None):
    """Return the columns of literal rows."""
    names = Names() if names is None else names
    return Rows(
        Sends.of(pa.Table.from_pylist(list(sends), SENDS), names),
        Polls.of(pa.Table.from_pylist(list(polls), POLLS), names),
        {1: log_of(list(log), names)},
    )


def inner(sends, polls, log, deleted_before=0):
    """Return the inner offsets of each plain range."""
    alike = Alike(rows_of(sends, polls, log), deleted_before)
    return [alike.offsets[run].tolist() for run in alike.runs()]


def test_records_that_all_sources_show_alike_are_a_plain_range():
    """All but the first and the last record of a plain range are its inner ones."""
    assert inner(*history()) == [[1, 2, 3, 4, 5, 6, 7]]


def late(rows, at):
    """The record was sent after the next one was acknowledged."""
    rows[0][at]["sent_ns"] = rows[0][at + 1]["done_ns"] + 1


EDITS = {
    "not acknowledged": lambda rows, at: rows[0][at].update(outcome="info"),
    "acknowledged without being stored": lambda rows, at: rows[0][at].update(acks="0"),
    "of a transaction": lambda rows, at: rows[0][at].update(transaction=1),
    "without a time": lambda rows, at: rows[0][at].update(sent_ns=None),
    "sent twice": lambda rows, at: rows[0].append(rows[0][at] | {"seq": 99}),
    "not sent here": lambda rows, at: rows[0].pop(at),
    "not drained": lambda rows, at: rows[1].pop(RECORDS + at),
    "not read live": lambda rows, at: rows[1].pop(at),
    "read twice": lambda rows, at: rows[1].append(rows[1][at] | {"position": 99}),
    "read with another number": lambda rows, at: rows[1][at].update(seq=99),
    "read damaged": lambda rows, at: rows[1][at].update(checksum_ok=False),
    "in an incomplete read": lambda rows, at: rows[1][at].update({"pass": "incomplete"}),
    "not in the log": lambda rows, at: rows[2].pop(at),
    "another one in the log": lambda rows, at: rows[2][at].update(seq=99),
    "damaged in the log": lambda rows, at: rows[2][at].update(checksum_ok=False),
    "sent after a higher offset was known": late,
}


@pytest.mark.parametrize("why", EDITS)
def test_an_unlike_record_is_in_no_plain_range(why):
    """A record that one source shows otherwise ends the plain range before it, and the next begins after it."""
    rows = history()
    EDITS[why](rows, 4)
    found = inner(*rows)

    assert found == [[1, 2], [6, 7]]


def test_records_out_of_their_producers_order_are_in_no_plain_range():
    """Two records whose numbers are in the wrong order are in no plain range."""
    rows = history()
    for row in (row for table in rows for row in table if row["offset"] in {4, 5}):
        row["seq"] = {4: 15, 5: 14}[row["offset"]]

    assert inner(*rows) == [[1, 2], [7]]


@pytest.mark.parametrize(("column", "value"), [("position", 2), ("received_ns", 30 * S), ("leader_epoch", -1)])
def test_a_reader_that_goes_back_ends_a_plain_range(column, value):
    """The reads of a plain range have rising positions, and neither times nor epochs that fall."""
    sends, polls, log = history()
    polls[4][column] = value

    assert inner(sends, polls, log) == [[1, 2], [5, 6, 7]]


def test_deleted_records_need_no_drain():
    """Below the log start, records that no drain found are alike."""
    sends, polls, log = history()
    polls = [row for row in polls if row["pass"] == "live" or row["offset"] >= 4]

    assert inner(sends, polls, log, deleted_before=4) == [[1, 2], [5, 6, 7]]
    assert inner(sends, polls, log) == [[5, 6, 7]]


def test_a_plain_range_names_its_numbers_and_positions():
    """A plain range counts its inner records, and has the ranges that others are compared with."""
    names, (sends, polls, log) = Names(), history()
    alike = Alike(rows := rows_of(sends, polls, log, names), 0)
    (run,) = alike.runs()
    found, own_sends = alike.plain_range(run, rows.polls, names)

    assert found == PlainRange(
        first=1,
        last=7,
        records=7,
        acks_all=7,
        reads=14,
        drained=True,
        sent_ns=(sends[1]["sent_ns"], sends[7]["sent_ns"]),
        known_ns=(sends[1]["done_ns"], sends[7]["done_ns"]),
        numbers={"load-1": (11, 17, 7)},
        positions={("consumer-1", 0): (0, 8), ("drain-1", 1): (0, 8)},
        logs=frozenset({1}),
    )
    assert own_sends.offset.tolist() == [1, 2, 3, 4, 5, 6, 7]


# --- contradictions ----------------------------------------------------------------------------------


def plain(first, last, **other):
    """Return a plain range whose numbers are 10 above its offsets, sent at 10 ms each."""
    times = {"sent_ns": (10 * S + first * 10 * MS, 10 * S + last * 10 * MS)}
    times |= {"known_ns": (10 * S + first * 10 * MS + 2 * MS, 10 * S + last * 10 * MS + 2 * MS)}
    found = {"records": last - first + 1, "acks_all": 0, "reads": 0, "drained": True, "logs": frozenset({1})}
    found |= {
        "numbers": {"load-1": (10 + first, 10 + last, last)},
        "positions": {("drain-1", 1): (first - 1, last + 1)},
    }
    return PlainRange(first=first, last=last, **found | times | other)


TWO = [plain(101, 198), plain(201, 298)]


def wrong(ranges=TWO, *, sends=(), polls=(), seeks=(), **logs):
    """Return the first offsets of contradicted plain ranges."""
    names = Names()
    rows = rows_of(sends, polls, names=names)
    own = Seeks.of(pa.Table.from_pylist(list(seeks), SEEKS), names)
    of = Judging(rows, own, names, **{"floors": {}, "ends": {}, "edges": (), "short_ns": ()} | logs)
    found = contradicted(ranges, of)
    return [each.first for each in found]


def number(seq, offset=None, at=None):
    """Return a send at the time of a record (its offset in a plain range)."""
    return sent(seq, offset=offset, outcome="info" if offset is None else "ok", at_ns=10 * S + (at or 0) * 10 * MS)


def test_plain_ranges_in_order_stay():
    """Stretches and rows in the order of offsets, numbers, times and positions contradict nothing."""
    between = [number(110 + n, 100 + n, 100 + n) for n in (0, 99, 100, 199)]
    assert wrong(sends=between, polls=[polled(each["offset"], each["seq"]) for each in between]) == []
    assert wrong([]) == []


@pytest.mark.parametrize(("seq", "found"), [(110, []), (111, [101]), (208, [101]), (209, []), (308, [201])])
def test_a_number_within_a_plain_range_contradicts_it(seq, found):
    """A send without offset, or a read anywhere else, whose number a plain range may have, contradicts it."""
    assert wrong(sends=[number(seq)]) == found
    assert wrong(polls=[polled(900, seq, final=False, received_ns=40 * S)]) == found


def test_a_lower_number_at_a_higher_offset_contradicts_all_between():
    """A producer's record above a plain range whose number is lower contradicts it; one below does not."""
    assert wrong(sends=[number(105, offset=250, at=250)]) == [101, 201]
    assert wrong(sends=[number(105, offset=50, at=50)]) == []


def test_numbers_of_two_plain_ranges_must_not_meet():
    """Two plain ranges that may have a number in common contradict each other."""
    other = plain(201, 298, numbers={"load-1": (208, 308, 298)})
    assert wrong([TWO[0], other]) == [101, 201]
    assert wrong([TWO[0], other._replace(numbers={"load-2": (208, 308, 298)})]) == []


def test_a_higher_offset_known_before_a_send_contradicts_both():
    """A plain range contradicts a higher one that was known before its last record was sent."""
    early = plain(201, 298, known_ns=(TWO[0].sent_ns[1] - 1, TWO[1].known_ns[1]))
    assert wrong([TWO[0], early]) == [101, 201]
    assert wrong([TWO[0], early._replace(known_ns=(TWO[0].sent_ns[1], TWO[1].known_ns[1]))]) == []
    assert wrong(polls=[polled(900, 1, received_ns=TWO[1].sent_ns[1] - 1)]) == [201]


@pytest.mark.parametrize(("position", "found"), [(100, []), (101, [101]), (198, [101]), (200, [])])
def test_reads_and_seeks_between_those_of_a_plain_range_contradict_it(position, found):
    """A consumer's read or seek between its reads of a plain range contradicts it."""
    drain = {"consumer_id": "drain-1", "pass": "final"}
    assert wrong(polls=[polled(position, 1, received_ns=40 * S)]) == found
    assert wrong(seeks=[sought(position, 0, 0) | drain]) == found
    assert wrong(seeks=[sought(position, 0, 0)]) == []


def test_a_plain_range_that_a_reader_passed_over_is_contradicted():
    """A reader with reads on both sides of a plain range must have read it; one that began later need not."""
    before, after = (plain(n, n + 97, positions={("consumer-1", 0): (n - 1, n + 98)}) for n in (1, 201))
    assert wrong([before, TWO[0], after]) == [101]
    assert wrong([TWO[0], after]) == []


def test_a_reader_of_no_plain_range_may_have_passed_over_one():
    """A reader whose only reads are before and after a plain range passed over it."""
    reads = [polled(offset, 1, final=False, received_ns=40 * S) for offset in (100, 199)]
    assert wrong([TWO[0]], polls=reads) == [101]
    assert wrong([TWO[0]], polls=[reads[0] | {"offset": 99, "position": 99}, reads[0]]) == []


def test_of_two_plain_ranges_in_the_wrong_order_both_are_read_again():
    """A range with lower numbers and higher offsets than another contradicts it, and is contradicted."""
    assert wrong([TWO[0], plain(201, 298, numbers={"load-1": (1, 98, 298)})]) == [101, 201]


@pytest.mark.parametrize(("floor", "found"), [(0, [101]), (101, [101]), (102, [101]), (199, [])])
def test_a_log_without_a_plain_range_contradicts_it_where_it_is_required(floor, found):
    """A log that must have the records from an offset on, and lacks a plain range, is checked record by record."""
    assert wrong([plain(101, 198, logs=frozenset())], floors={1: floor}) == found
    assert wrong([TWO[0]], floors={1: 0}) == []
    assert wrong([TWO[0]], floors={1: 0}, ends={1: 199}) == []
    assert wrong([TWO[0]], floors={1: 0}, ends={1: 198}) == [101]


@pytest.mark.parametrize(("edge", "found"), [(101, []), (102, [101]), (198, [101]), (199, [])])
def test_a_check_that_begins_within_a_plain_range_sees_its_records(edge, found):
    """A plain range on both sides of an offset at which a check begins is read again."""
    assert wrong([TWO[0]], edges=[edge]) == found


def test_a_short_isr_sees_the_records_that_were_sent_meanwhile():
    """Records between send and acknowledgement during a short ISR are checked one by one (I28)."""
    ends = TWO[0].known_ns[1]
    assert wrong(short_ns=[(ends, ends)]) == [101]
    assert wrong(short_ns=[(ends + 1, TWO[1].sent_ns[0] - 1)]) == []
