"""The table of invariants: which ones are checked for a partition, and which evidence each needs."""

from dataclasses import replace

import pytest

from evidence.facts import Replica, RunFacts
from evidence.sources import Gap, Gaps, sources
from history.partition import TopicPartition
from judge.checks import invariants
from judge.checks.findings import Findings, Tally
from judge.checks.invariants import INVARIANTS, Required
from kafka_files.states import State
from tests.evidence.folders import S, isr_view, polled, sample, sent
from tests.evidence.probed import partition

WHERE = TopicPartition("orders", 0)
HELD, NOTHING = Tally(3, 0), Tally(0, 0)
ALL = frozenset().union(*(invariant.reads for invariant in INVARIANTS.values()))


def judged(of, findings):
    """Check a partition of one window."""
    invariants.check_window(of, findings)
    invariants.check(of, findings)


def verdicts(tallies, gaps=(), *, requires_history=True):
    """Return each invariant's verdict on one partition; nothing checked means that there was an occasion for it."""
    found = Findings(tallies=tallies, unchecked={name for name, tally in tallies.items() if not tally.checked})
    rows = (row_of(name, found, gaps, requires_history=requires_history) for name in tallies)
    return {row["invariant"]: row["verdict"] for row in rows if row}


def row_of(name, found, gaps=(), *, requires_history=True):
    """Return the row of an invariant that one partition was checked for."""
    verdict = invariants.verdict(WHERE, name, found, Gaps(gaps), requires_history=requires_history)
    return invariants.row(name, [verdict], 2 * S)


def test_a_required_invariant_that_was_not_checked_is_unknown():
    """A required invariant without checks is unknown: I1 always, I7 with a controller; I20 never is."""
    nothing = dict.fromkeys(["I1", "I7", "I20"], NOTHING)

    assert verdicts(nothing) == {"I1": "unknown", "I7": "unknown"}
    assert verdicts(nothing, requires_history=False) == {"I1": "unknown"}
    assert verdicts(dict.fromkeys(["I1", "I7", "I20"], HELD)) == {"I1": "pass", "I7": "pass", "I20": "pass"}


@pytest.mark.parametrize(("name", "source"), [(n, source) for n, i in INVARIANTS.items() for source in sorted(i.reads)])
def test_what_rests_on_lacking_evidence_is_unknown(name, source):
    """A verdict is unknown without its evidence; a violation stays unless the missing evidence could cause it."""
    violated, lacking = Tally(3, 1, (0, WHERE, "{}")), Gap("It was not collected.", sources(source), WHERE)
    others = Gap("It was not collected.", ALL - INVARIANTS[name].reads)
    elsewhere = lacking._replace(where=TopicPartition("orders", 1))

    assert verdicts({name: HELD}, [lacking]) == verdicts({name: NOTHING}, [lacking]) == {name: "unknown"}
    assert verdicts({name: HELD}, [others, elsewhere]) == {name: "pass"}
    assert verdicts({name: violated}, [others, elsewhere]) == {name: "fail"}
    assert verdicts({name: violated}, [lacking]) == {name: "unknown" if source in INVARIANTS[name].whole else "fail"}


def test_a_reader_is_stuck_though_another_one_is_undecided():
    """I37 fails for a stuck reader even if another one is undecided; an unreadable table makes it unknown."""
    stuck = {"I37": Tally(3, 1, (0, WHERE, "{}"))}

    assert verdicts(stuck, [Gap("A reader still moved.", sources("rest"))]) == {"I37": "fail"}
    assert verdicts({"I37": HELD}, [Gap("A reader still moved.", sources("rest"))]) == {"I37": "unknown"}
    assert verdicts(stuck, [Gap("It cannot be read.", sources("positions"))]) == {"I37": "unknown"}


def test_the_first_open_partition_is_named_and_the_others_are_counted():
    """The reason names the first undecided partition and counts the others; a proven violation still fails."""
    open_one = invariants.Verdict(HELD, "It was not collected.")
    violated = invariants.Verdict(Tally(3, 1, (0, WHERE, "{}")))
    doubted = violated._replace(doubt="It is torn.")

    def told(*found):
        row = invariants.row("I7", found)
        return row["verdict"], row["violations"], row["reason"]

    assert told(open_one) == ("unknown", 0, "It was not collected")
    assert told(*[open_one] * 1000) == ("unknown", 0, "It was not collected (and 999 more partitions)")
    assert told(doubted, open_one) == ("unknown", 1, "It is torn (and 1 more partition)")
    assert told(doubted, open_one, violated)[:2] == ("fail", 2)


def test_a_violation_is_told_with_its_evidence():
    """A violation's reason has the first place and time in words, and its row the evidence as JSON."""
    told = '{"broker_id":1,"t_ns":5000000000}'
    row = row_of("I2", Findings(tallies={"I2": Tally(9, 2, (5, WHERE, told))}))

    assert (row["checked"], row["violations"], row["verdict"]) == (9, 2, "fail")
    assert row["reason"] == "first violation on orders-0: broker 1, at +3.000 s"
    assert row["evidence"] == told


def asked(of):
    """Return the invariants that are checked for a partition."""
    findings = Findings()
    judged(of, findings)
    return set(findings.tallies)


def test_what_is_asked_follows_from_the_partition():
    """The invariants of a partition follow from its evidence and settings.

    Without clean elections, those that a loss would violate are skipped; with compaction, I15; with one epoch, I8.
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
    assert asked(replace(quiet, run=RunFacts(transactional=True))) == of_all | of_clean | {"I26", "I27"}
    assert asked(replace(quiet, replicas=(Replica(1, [], None),))) == of_all | of_clean | {"I12"}


def acknowledged(acks):
    """Return a ledger with one acknowledged send."""
    return partition(sends=[sent(0, offset=0, acks=acks)]).sends


def unchecked(*rows, **known):
    """Return the invariants that a partition gives occasion to check and that nothing could be checked of."""
    findings = Findings()
    judged(partition(*rows, **known), findings)
    return findings.unchecked


def test_what_is_required_of_a_partition_follows_from_what_happened_there():
    """Invariants about records need records in the partition; I8 needs a second epoch."""
    empty, written = sample(1, S, 0, 0), sample(1, S, 5, 5)

    assert {"I8", "I9", "I15", "I16"}.isdisjoint(unchecked([empty]))
    assert unchecked([written]) - unchecked([empty]) == {"I9"}
    assert unchecked([written], polls=[polled(0, 0)]) - unchecked([written]) == {"I16"}
    assert unchecked([written], sends=[sent(0, offset=0)]) - unchecked([written]) == {"I15"}
    assert "I8" in unchecked([written, sample(1, 2 * S, 5, 5, epoch=1)])
    assert "I8" not in unchecked([sample(1, S, 5, 5, epoch=1)], epoch_starts={0: 0, 1: 0})  # the probe saw one epoch


def test_followers_are_asked_about_where_there_may_have_been_one():
    """I7 and I9 are skipped if the controller's history never had a second replica; without a history they are not."""

    def asked_with(*assignments, created=(1,)):
        known = [state(position, replicas) for position, replicas in enumerate(assignments)]
        quiet = partition([sample(1, S, 5, 5)], [isr_view(0, 1, 0, [1])], states=known, assigned=created)
        return asked(quiet) & {"I6", "I7", "I9"}

    assert asked_with((1,), (1,)) == {"I6"}
    assert asked_with((1,), (1, 2), (1,)) == {"I6", "I7", "I9"}
    assert asked_with((1,), created=(1, 2)) == {"I6", "I7", "I9"}  # the history begins late
    assert asked_with() == {"I6", "I7", "I9"}


def state(position, replicas):
    """A state of orders-0, led by its first replica."""
    return State("orders", 0, "metadata_log", position, S * position, replicas[0], 0, position, replicas, replicas)


def test_every_invariant_names_its_function():
    """Every invariant has a documented function, from which docs/checks.md is generated."""
    silent = [name for name, invariant in INVARIANTS.items() if not all(each.__doc__ for each in invariant.checks)]

    assert silent == []
    assert {invariant.required for invariant in INVARIANTS.values()} == set(Required)
