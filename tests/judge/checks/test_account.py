"""The fate of each send, from literal histories of one partition."""

from dataclasses import dataclass

import numpy as np
import pytest

from evidence.columns import seq_of
from evidence.facts import Drain
from judge.checks.account import FATES, account, counts
from tests.evidence.folders import polled, sent
from tests.evidence.partitions import evidence, logged


@dataclass
class Case:
    """``held`` are (offset, seq) on some replica; ``fates`` are the expected fates by seq."""

    behaviour: str
    sends: list
    polls: list
    fates: dict
    held: tuple = ()
    position: int | None = None
    end: int | None = None
    complete: bool = True
    whole: bool = True


ABOVE = {"sends": [sent(0, offset=0), sent(1, offset=5)], "polls": [polled(0, 0)]}
WITHOUT_OFFSET = {"sends": [sent(0, offset=0), sent(1, offset=None)], "polls": [polled(0, 0)]}
CASES = [
    Case(
        "an acknowledged record that a later read has passed is lost",
        [sent(n, offset=n) for n in range(3)],
        [polled(0, 0), polled(2, 2)],
        {0: "read", 1: "lost_write", 2: "read"},
    ),
    Case(
        "a record whose offset was given away again is lost",
        [sent(0, offset=0), sent(1, offset=1), sent(2, offset=1)],
        [polled(0, 0), polled(1, 2)],
        {0: "read", 1: "lost_write", 2: "read"},
    ),
    Case(
        "an offset that holds nobody's record (a control record) is a legal gap",
        [sent(0, offset=0), sent(1, offset=2)],
        [polled(0, 0), polled(2, 1)],
        {0: "read", 1: "read"},
    ),
    Case(
        "of two indeterminate sends that were not drained the one that a consumer saw is lost",
        [sent(0, outcome="info"), sent(1, outcome="info"), sent(2, offset=2), sent(3, outcome="fail")],
        [polled(1, 1, final=False), polled(2, 2)],
        {0: None, 1: "lost_write", 2: "read", 3: None},
    ),
    Case(
        "a copy above the bound keeps a record from being lost: only what lies at or below it must have been read",
        [sent(0, offset=0), sent(1, offset=1), sent(2, offset=2)],
        [polled(0, 0), polled(1, 1, final=False), polled(3, 1, final=False), polled(2, 2)],
        {0: "read", 1: "invisible_ack", 2: "read"},
        held=((1, 1),), position=0, end=1, complete=False,
    ),
    Case("above the bound and on no replica", fates={0: "read", 1: "truncated_ack"}, position=1, end=1, **ABOVE),
    Case(
        "above the bound and on a replica at another offset only",
        fates={0: "read", 1: "truncated_ack"}, held=((4, 1),), position=1, end=1, **ABOVE,
    ),
    Case(
        "on a replica, at the high watermark",
        fates={0: "read", 1: "invisible_ack"}, held=((5, 1),), position=1, end=5, **ABOVE,
    ),
    Case(
        "below the high watermark, where the drain stopped early",
        fates={0: "read", 1: "undrained"}, held=((5, 1),), position=3, end=6, complete=False, **ABOVE,
    ),
    Case(
        "below the high watermark, and the drain passed it",
        fates={0: "read", 1: "lost_write"}, held=((5, 1),), position=6, end=6, **ABOVE,
    ),
    Case(
        "acknowledged without an offset and on no replica at all",
        fates={0: "read", 1: "unknown_offset_ack"}, position=1, end=1, **WITHOUT_OFFSET,
    ),
    Case(
        "acknowledged without an offset and on a replica somewhere",
        fates={0: "read", 1: "invisible_ack"}, held=((7, 1),), position=1, end=1, **WITHOUT_OFFSET,
    ),
    Case(
        "without a replica's log absence proves nothing",
        [sent(0, offset=0)], [], {0: "undecided"}, position=0, end=0, whole=False,
    ),
    Case(
        "an empty drain bounds nothing; the replicas decide",
        [sent(0, offset=0)], [], {0: "undrained"}, held=((0, 0),), position=0, end=1, complete=False,
    ),
]  # fmt: skip


def accounted(sends, polls, held=(), **known):
    """Return the account of a history; ``held`` are (offset, seq) on a replica."""
    of = evidence(sends, polls, logs={1: [logged(offset, seq) for offset, seq in held]})
    known = {"drain": Drain(10, 10, True), "whole": True} | known
    return of, account(of.sends, of.polls, of.logs, **known)


def fates_of(of, found):
    """Return the fates by sequence number."""
    named = [FATES[fate] or None for fate in found.fate.tolist()]
    return dict(zip(seq_of(of.sends.value).tolist(), named, strict=True))


@pytest.mark.parametrize("case", CASES, ids=[case.behaviour for case in CASES])
def test_what_became_of_a_send(case):
    """Each case's name states the behaviour."""
    drain = Drain(case.position, case.end, case.complete)
    assert fates_of(*accounted(case.sends, case.polls, case.held, drain=drain, whole=case.whole)) == case.fates


@pytest.mark.parametrize(
    ("offset", "seen_at", "held", "fate"),
    [
        (4, None, None, None),
        (5, None, None, "lost_write"),
        (None, None, 4, None),
        (None, None, 5, "lost_write"),
        (None, None, None, "undecided"),
        (-1, None, None, "undecided"),
        (5, 4, 4, "lost_write"),
    ],
)
def test_what_was_deleted_is_not_lost(offset, seen_at, held, fate):
    """A record below the deletion offset is not lost; at or above it, it is.

    The offset of a record without one is where a reader or a log had it; otherwise the fate is undecided.
    """
    polls = [polled(9, 9), *([] if seen_at is None else [polled(seen_at, 0, final=False)])]
    of, found = accounted([sent(0, offset=offset)], polls, [] if held is None else [(held, 0)], deleted_before=5)

    assert fates_of(of, found) == {0: fate}


@pytest.mark.parametrize(
    ("offset", "held", "fate"),
    [(5, None, "lost_write"), (12, None, "truncated_ack"), (None, None, "unknown_offset_ack"), (12, 12, "undrained")],
)
def test_of_a_compacted_topic_nobody_knows_what_is_gone(offset, held, fate):
    """On a compacted topic a missing record is undecided, since a later one of its key may have replaced it."""
    polls, logs = [polled(9, 9)], [] if held is None else [(held, 0)]
    of, found = accounted([sent(0, offset=offset)], polls, logs, drain=Drain(10, 20, complete=False))
    _, compacted = accounted([sent(0, offset=offset)], polls, logs, drain=Drain(10, 20, complete=False), kept=False)

    assert fates_of(of, found) == {0: fate}
    assert fates_of(of, compacted) == {0: fate if held else "undecided"}


def test_a_record_without_an_offset_is_known_by_where_it_was_seen():
    """A record without an offset is placed at the largest offset where a reader saw it."""
    sends = [sent(0, outcome="info"), sent(1, outcome="info")]
    _, found = accounted(sends, [polled(3, 0, final=False), polled(4, 0, final=False)])

    assert found.seen.tolist() == found.committed.tolist() == [True, False]
    assert found.seen_at[0] == 4


def test_the_order_of_ledgers_and_reads_changes_nothing():
    """The account does not depend on the order of ledger and reads, nor on several producers in one log."""
    sends = [sent(n, offset=n + 5 * p, producer_id=f"load-{p}") for p in (0, 1) for n in range(5)]
    polls = [polled(n + 5 * p, n, producer_id=f"load-{p}") for p in (0, 1) for n in range(5) if (n, p) != (2, 0)]
    chance = np.random.default_rng(1)
    told = []
    for _ in range(5):
        of = evidence([sends[n] for n in chance.permutation(10)], [polls[n] for n in chance.permutation(9)])
        told.append(counts(of.sends, account(of.sends, of.polls, {}, drain=Drain(10, 10, True), whole=True)))

    assert told == [told[0]] * 5
    assert (told[0]["acked"], told[0]["read"], told[0]["lost"]) == (10, 9, 1)


def test_delivery_counts_what_was_found():
    """The delivery row counts each outcome and each fate."""
    sends = [sent(0, offset=0), sent(1, offset=1), sent(2, offset=2), sent(3, outcome="info"), sent(4, outcome="fail")]
    of, found = accounted(sends, [polled(0, 0), polled(2, 2), polled(3, 2)], drain=None, whole=False)

    row = counts(of.sends, found)
    assert (row["sent"], row["acked"], row["indeterminate"], row["failed"], row["read"]) == (5, 3, 1, 1, 2)
    assert (row["lost"], row["unseen"], row["duplicated"], row["duplicate_copies"]) == (1, 0, 1, 1)
