"""What the evidence says about each possible cause of a case."""

from dataclasses import replace

import numpy as np
import pytest

from evidence.columns import NULL
from evidence.facts import Cause, Permission
from judge.checks import groups, shares
from judge.checks.causes import brought_about
from judge.checks.findings import Cases, Findings
from judge.checks.reading_order import acknowledged, nonmonotonic_send
from kafka_files.states import State
from tests.evidence.folders import MS, S, polled, sent
from tests.evidence.probed import partition
from tests.judge.checks import test_groups, test_shares


def state(number, seconds, leader, epoch, isr=(1, 2, 3)):
    """Return the ``number``-th state of the controller's history."""
    return State("orders", 0, "metadata_log", number, seconds * S, leader, epoch, number, (1, 2, 3), isr)


QUIET = [state(0, 1, 1, 0)]
TIMEOUTS = {"load-1": S}


def ruled(cause, sends=(), *, anomaly="duplicate", states=QUIET, min_isr=1, **known):
    """Return which records the cause may explain, which are undecided, and which evidence is missing."""
    of = partition((), (), sends=sends, states=states, effective_min_isr=min_isr, **known)
    cases = Cases(anomaly, of.sends.value, lambda place: {})
    ruling = brought_about(of, [], cases, cause)
    return ruling.brought.tolist(), ruling.undecided.tolist(), ruling.missing


def answered_after(*spans_ms, **other):
    """Return records sent at 10 s, each answered after this many milliseconds."""
    return [sent(n, offset=n, sent_ns=10 * S, done_ns=10 * S + ms * MS, **other) for n, ms in enumerate(spans_ms)]


def test_a_record_is_sent_again_once_its_request_timed_out():
    """A record answered after its request time-out may have been sent again; one answered sooner was not."""
    assert ruled(Cause.SENT_AGAIN, answered_after(2, 899, 1000, 5000), request_timeouts_ns=TIMEOUTS) == (
        [False, False, True, True],
        [False] * 4,
        "",
    )


def test_a_record_without_an_answer_may_have_been_sent_again():
    """A record without an answer may have been sent again."""
    sends = [sent(0, outcome="info", done_ns=None)]

    assert ruled(Cause.SENT_AGAIN, sends, request_timeouts_ns=TIMEOUTS)[0] == [True]


@pytest.mark.parametrize(
    ("span", "again"),
    [
        ((9.0, 9.5), False),
        ((9.0, 10.001), True),
        ((10.001, 20.0), True),
        ((10.003, 20.0), False),
    ],
)
def test_a_fault_may_cost_an_answer_while_the_record_waits_for_it(span, again):
    """A fault that overlaps the wait for an answer may have caused a retry."""
    disturbances = [tuple(int(at * S) for at in span)]

    assert ruled(Cause.SENT_AGAIN, answered_after(2), request_timeouts_ns=TIMEOUTS, disturbances=disturbances)[0] == [
        again
    ]


@pytest.mark.parametrize(("changed_s", "again"), [(1, False), (9, True), (10, True), (12, False)])
def test_a_change_of_leader_or_isr_may_refuse_a_record_that_was_appended(changed_s, again):
    """A leader or ISR change close to the send may have caused a retry of an appended record."""
    states = [state(0, 0, 1, 0), state(1, changed_s, 1, 0, (1, 2))]

    assert ruled(Cause.SENT_AGAIN, answered_after(2), request_timeouts_ns=TIMEOUTS, states=states)[0] == [again]


@pytest.mark.parametrize(
    ("sends", "known", "missing"),
    [
        (answered_after(2), {}, "the client's request timeout is unknown"),
        (
            [sent(0, offset=0, sent_ns=None)],
            {"request_timeouts_ns": TIMEOUTS},
            "the ledger lacks the time at which the record was sent",
        ),
        (
            answered_after(2),
            {"request_timeouts_ns": TIMEOUTS, "states": [state(1, 11, 1, 0)]},
            "the controller's history of orders-0 begins at partition epoch 1 (a snapshot at offset 1)",
        ),
    ],
)
def test_where_evidence_is_missing_whether_a_record_was_sent_again_is_undecided(sends, known, missing):
    """Without request time-out, send time or history, a retry is undecided."""
    assert ruled(Cause.SENT_AGAIN, sends, **known) == ([False], [True], missing)


def test_a_history_that_begins_before_the_send_tells_enough():
    """A history whose snapshot precedes the send is sufficient."""
    assert ruled(Cause.SENT_AGAIN, answered_after(2), request_timeouts_ns=TIMEOUTS, states=[state(1, 5, 1, 0)]) == (
        [False],
        [False],
        "",
    )


@pytest.mark.parametrize(("waited_ms", "permits"), [(2, False), (1500, True)])
def test_a_record_is_overtaken_if_the_earlier_one_was_sent_again(waited_ms, permits):
    """A record below an earlier one is permitted only if the earlier one may have been sent again."""
    first = sent(0, offset=5, sent_ns=10 * S, done_ns=10 * S + waited_ms * MS)
    of = partition((), (), sends=[first, sent(1, offset=4)], states=QUIET, request_timeouts_ns=TIMEOUTS)
    cases, findings = nonmonotonic_send(of, acknowledged(of)), Findings()
    permissions = {"load-1": {"nonmonotonic_send": [Permission("sent again", Cause.SENT_AGAIN)]}}
    findings.add_cases(of.where, cases, of.names, permissions, lambda *case: brought_about(of, [], *case))

    assert [(kind.allowed, cases) for kind, cases in findings.counts.items()] == [(permits, 1)]


def test_what_no_reader_was_given_need_never_have_been_stored():
    """A record that no reader returned may never have been stored; a record that was read was."""
    sends = [sent(n, outcome="info", acks="0") for n in range(2)]

    assert ruled(Cause.NEVER_READ, sends, polls=[polled(0, 0, final=False)])[0] == [False, True]


@pytest.mark.parametrize(
    ("states", "ruling"),
    [
        ([state(0, 1, 1, 0), state(1, 20, 1, 0, (1,))], ([True], [False], "")),
        ([state(0, 1, 1, 0, (1,)), state(1, 20, 1, 0)], ([False], [False], "")),  # full again before the drain
        ([state(0, 1, 1, 0), state(1, 40, 1, 0, (1,))], ([False], [False], "")),  # after it
        ([], ([False], [True], "the controller's history of orders-0 is missing")),
    ],
)
def test_the_high_watermark_waits_for_an_isr_that_is_short_during_the_drain(states, ruling):
    """An ISR below min.insync.replicas during the drain may explain an HW that does not cover the record."""
    sends, polls = [sent(0, offset=9, acks="1")], [polled(0, 7)]

    assert ruled(Cause.SHORT_ISR, sends, anomaly="invisible_ack", polls=polls, states=states, min_isr=2) == ruling


@pytest.mark.parametrize(
    ("shown_s", "faults", "brought", "missing"),
    [
        (12, [(10, 11)], True, ""),
        (12, [(10, 11), (50, 60)], True, ""),
        (12, [(50, 60)], False, "the copier does not record its restarts, and the second copy precedes"),
        (None, [(10, 11)], False, "the time at which the second copy was written is unknown"),
        (12, [], False, "the copier does not record its restarts, and there was no fault"),
    ],
)
def test_a_copier_begins_anew_after_a_fault_that_precedes_the_second_copy(shown_s, faults, brought, missing):
    """A fault before a second copy may explain it by a restarted copier; otherwise the cause is undecided."""
    of = partition((), (), active_faults=[(begun * S, ended * S) for begun, ended in faults])
    shown_ns = np.array([NULL if shown_s is None else shown_s * S])
    cases = Cases("duplicate_output", np.array([1]), lambda place: {}, shown_ns=shown_ns)
    ruling = brought_about(of, [], cases, Cause.COPIER_RESUMED)

    assert (ruling.brought.tolist(), ruling.undecided.tolist()) == ([brought], [not brought])
    assert ruling.missing.startswith(missing)


A, B = test_groups.A, test_groups.B


@pytest.mark.parametrize(
    ("ended", "reads", "permits"),
    [
        ([("member-1", 4)], [(0, 3, 2)], True),
        ([("member-1", 2)], [(0, 3, 1)], False),  # before it committed the record
        ([("member-2", 4)], [(0, 3, 2)], False),  # another member
        ([], [(0, 3, 2)], False),
        ([("member-1", 9)], [(0, 3, 2), (6, 9, 5)], False),  # it had gone on by then
    ],
)
def test_a_member_that_ended_leaves_what_it_committed_ahead(ended, reads, permits):
    """A skipped record is explained by a member that ended after committing ahead of its reads."""
    of = test_groups.partition(
        [test_groups.read(A, *each) for each in reads] + [test_groups.read(B, 5, 9, 6)],
        commits=[test_groups.commit(A, 6, 3, 3.1), test_groups.commit(B, 10, 7, 7.1)],
    )
    of = replace(of, group=replace(of.group, facts=of.group.facts._replace(ended=[(name, s * S) for name, s in ended])))
    cases = groups.group_skip(of)

    assert (cases.values.size, *brought_about(of, [], cases, Cause.MEMBER_ENDED)) == (1, [permits], [False], "")


def test_a_commit_counts_though_its_member_ended_before_the_answer():
    """A commit counts although its member ended before the answer: a later owner started at that offset."""
    of = test_groups.partition(
        [test_groups.read(A, 0, 3, 2), test_groups.read(B, 5, 9, 6)],
        commits=[test_groups.commit(A, 5, 3), test_groups.commit(B, 10, 7, 7.1)],
    )
    of = replace(of, group=replace(of.group, facts=of.group.facts._replace(ended=[("member-1", 4 * S)])))

    assert brought_about(of, [], groups.group_skip(of), Cause.MEMBER_ENDED).brought.tolist() == [True]


@pytest.mark.parametrize(("releases", "permits"), [(5, True), (4, False)])
def test_a_record_that_was_released_at_every_delivery_is_given_up(releases, permits):
    """A record released at every delivery up to the limit explains that it was archived."""
    reads = [test_shares.given(A, 0, 3, 10 + n, count=n + 1) for n in range(5)]
    acks = [test_shares.TAKEN, *(test_shares.acked(A, 3, 3, 10 + n, kind="release") for n in range(releases))]
    of = test_shares.partition(reads, acks)
    cases = shares.archived_record(of)

    assert (cases.values.size, *brought_about(of, [], cases, Cause.RELEASED)) == (1, [permits], [False], "")
