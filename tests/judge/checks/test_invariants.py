"""The table of invariants: what is asked of a partition, and what a run may lack."""

from dataclasses import replace

import pytest

from evidence.facts import Facts
from evidence.partition import Replica
from history.partition import TopicPartition
from judge.checks import invariants
from judge.checks.findings import Findings, Tally
from judge.checks.invariants import DATES, HISTORY, INVARIANTS, SEGMENTS, Owed
from kafka_files.states import State
from tests.evidence.folders import S, isr_view, polled, sample, sent
from tests.evidence.probed import partition

WHERE = TopicPartition("orders", 0)
HELD, NOTHING = Tally(3, 0), Tally(0, 0)


def verdicts(tallies, missing=None, *, owes_history=True):
    """Return each invariant's verdict on one partition; nothing checked means that there was an occasion for it."""
    found = Findings(tallies=tallies, unchecked={name for name, tally in tallies.items() if not tally.checked})
    left_open = dict(invariants.why_open(WHERE, found, missing or {}, owes_history=owes_history))
    return {row["invariant"]: row["verdict"] for row in invariants.rows(tallies, left_open)}


def test_a_required_invariant_that_was_not_checked_is_unknown():
    """I1 always, I7 of a run with a controller of its own, I20 never: without an election there is nothing to check."""
    nothing = dict.fromkeys(["I1", "I7", "I20"], NOTHING)

    assert verdicts(nothing) == {"I1": "unknown", "I7": "unknown"}
    assert verdicts(nothing, owes_history=False) == {"I1": "unknown"}
    assert verdicts(dict.fromkeys(["I1", "I7", "I20"], HELD)) == {"I1": "pass", "I7": "pass", "I20": "pass"}


@pytest.mark.parametrize(("name", "kind"), [(n, i.needs) for n, i in INVARIANTS.items() if i.needs])
def test_what_holds_on_lacking_evidence_is_unknown(name, kind):
    """A violation is one all the same, and other evidence does not matter."""
    lacking = {kind: "it was not collected"}
    others = dict.fromkeys({HISTORY, DATES, SEGMENTS} - {kind}, "it was not collected")

    assert verdicts({name: HELD}, lacking) == {name: "unknown"}
    assert verdicts({name: HELD}, others) == {name: "pass"}
    assert verdicts({name: Tally(3, 1, (0, WHERE, "{}"))}, lacking) == {name: "fail"}
    assert verdicts({name: NOTHING}, lacking) == {name: "unknown"}
    assert [row["reason"] for row in invariants.rows({name: HELD}, {name: lacking[kind]})] == ["it was not collected"]


def test_a_violation_is_told_with_its_evidence():
    """The first one, and where it was, in words; the evidence itself is for machines."""
    told = '{"broker_id":1,"t_ns":5000000000}'
    found = {"I2": Tally(9, 2, (5, WHERE, told))}
    (row,) = invariants.rows(found, {}, origin_ns=2_000_000_000)

    assert (row["checked"], row["violations"], row["verdict"]) == (9, 2, "fail")
    assert row["reason"] == "first violation on orders-0: broker 1, at +3.000 s"
    assert row["evidence"] == told


def asked(of):
    """The invariants that a partition is asked."""
    findings = Findings()
    invariants.check(of, findings)
    return set(findings.tallies)


def test_what_is_asked_follows_from_the_partition():
    """Of a topic that is not clean nothing that a loss would break, nor I15 of a compacted one; I8 only once a second
    epoch was seen.
    """
    quiet = partition([sample(1, S, 5, 5)], [isr_view(0, 1, 0, [1])], idempotent=False)
    of_all = {"I1", "I2", "I3", "I10", "I11", "I13", "I14", "I19", "I21", "I23"}
    of_clean = {"I4", "I6", "I7", "I9", "I20", "I22", "I24", "I25"}

    assert asked(replace(quiet, clean=False)) == of_all
    assert asked(quiet) == of_all | of_clean
    assert asked(replace(quiet, epoch_starts={0: 0, 1: 5})) == of_all | of_clean | {"I8"}
    assert asked(replace(quiet, sends=acknowledged("all"))) == of_all | of_clean | {"I15"}
    assert asked(replace(quiet, sends=acknowledged("1"))) == of_all | of_clean
    assert asked(replace(quiet, sends=acknowledged("all"), kept=False)) == of_all | of_clean
    assert asked(replace(quiet, polls=partition(polls=[polled(0, 0)]).polls)) == of_all | of_clean | {"I16"}
    assert asked(replace(quiet, idempotent=True)) == of_all | of_clean | {"I17"}
    assert asked(replace(quiet, transactional=True)) == of_all | of_clean | {"I26", "I27"}
    assert asked(replace(quiet, replicas=(Replica(1, [], None),))) == of_all | of_clean | {"I12"}


def acknowledged(acks):
    """Return a ledger with one acknowledged send."""
    return partition(sends=[sent(0, offset=0, acks=acks)]).sends


def unchecked(*rows, **known):
    """Return the invariants that a partition gives occasion to check and that nothing could be checked of."""
    findings = Findings()
    invariants.check(partition(*rows, **known), findings)
    return findings.unchecked


def test_what_is_required_of_a_partition_follows_from_what_happened_there():
    """An empty partition owes nothing about records; one that was written to does, and so does a second epoch."""
    empty, written = sample(1, S, 0, 0), sample(1, S, 5, 5)

    assert {"I8", "I9", "I15", "I16"}.isdisjoint(unchecked([empty]))
    assert unchecked([written]) - unchecked([empty]) == {"I9"}
    assert unchecked([written], polls=[polled(0, 0)]) - unchecked([written]) == {"I16"}
    assert unchecked([written], sends=[sent(0, offset=0)]) - unchecked([written]) == {"I15"}
    assert "I8" in unchecked([written, sample(1, 2 * S, 5, 5, epoch=1)])
    assert "I8" not in unchecked([sample(1, S, 5, 5, epoch=1)], epoch_starts={0: 0, 1: 0})  # the probe saw one epoch


def test_followers_are_asked_about_where_there_may_have_been_one():
    """Not of a partition of which the controller's history knows one replica only, at any time; without that history
    they are.
    """

    def asked_with(*assignments):
        known = [state(position, replicas) for position, replicas in enumerate(assignments)]
        quiet = partition([sample(1, S, 5, 5)], [isr_view(0, 1, 0, [1])], facts=Facts(states=known))
        return asked(quiet) & {"I6", "I7", "I9"}

    assert asked_with((1,), (1,)) == {"I6"}
    assert asked_with((1,), (1, 2), (1,)) == {"I6", "I7", "I9"}
    assert asked_with() == {"I6", "I7", "I9"}


def state(position, replicas):
    """A state of orders-0, led by its first replica."""
    return State("orders", 0, "metadata_log", position, S * position, replicas[0], 0, position, replicas, replicas)


def test_every_invariant_names_its_function():
    """So that docs/checks.md can tell of it: its own function has a docstring, or the ones that it calls have."""
    told = {name: invariant.documented or invariant.checks for name, invariant in INVARIANTS.items()}

    assert [name for name, functions in told.items() if not all(each.__doc__ for each in functions)] == []
    assert {invariant.owed for invariant in INVARIANTS.values()} == set(Owed)
