"""The judge against a model of a replicated log: legal histories pass, and a broken rule is found by its check."""

from __future__ import annotations

import random
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from typing import Any

import pytest

from evidence.facts import Cause, Permission
from history.anomalies import LOST
from judge.checks import invariants
from judge.checks.allowed import LOSS, allowed_to
from judge.checks.findings import Findings, Kind
from tests.evidence.folders import manifest
from tests.model.judged import judged, judged_whole
from tests.model.parts import MS, VERBS, Batch, History, Producer, Step
from tests.model.plans import EVENTFUL
from tests.model.replicated_log import Partition
from tests.model.truth import FLAWS

PLAIN = {"acks": "1", "idempotent": False}


def played(steps: list[Step], number: int = 0, **rules: Any) -> History:
    """Return a history of two producers, one with acks=all and one with acks=1; their names have its number."""
    return Partition([Producer(f"all-{number}"), Producer(f"one-{number}", **PLAIN)], **rules).play(steps)


def script(seed: int, steps: int = 20) -> list[Step]:
    """Return a random script that depends only on the seed."""
    chance = random.Random(seed)
    return [(chance.choice(VERBS), chance.randrange(6), chance.randint(1, 4)) for _ in range(steps)]


# --- legal histories --------------------------------------------------------------------------------


LEGAL = 100
OF_TRANSACTIONS = {"I26", "I27"}  # the model has none
OF_ISR_LINES = {"I38"}  # the model's leaders do not log the ISRs that they propose
OF_GROUPS = {f"I{number}" for number in range(29, 38)}  # nor these, and none of its readers reports a position


@cache
def eventful() -> tuple[History, Findings]:
    """The eventful history, whose consumer seeks once, and its findings."""
    history = played(EVENTFUL)
    a_consumer_seeks_back(history)
    return history, judged(history)


@cache
def legal() -> list[tuple[History, Findings]]:
    """Many legal histories and their findings."""
    histories = [played(script(n), n, effective_min_isr=1 + n % 2) for n in range(LEGAL)]
    return [*((history, judged(history)) for history in histories), eventful()]


def permitted(producer_id: str) -> set[str]:
    """Return the permissions of a producer of ``played``, given every fault."""
    settings_of = {"acks": "all"} if producer_id.startswith("all") else {"acks": "1", "idempotence": False}
    config = manifest(faults=["kill", "stop", "pause", "disconnect", "transfer_leadership"], **settings_of)
    return set(allowed_to(config, config.producers[0]))


def cases_of(findings: Findings, *names: str) -> set[tuple[str, int]]:
    """Return the records (producer, seq) of some anomalies' cases."""
    found = ((kind, row) for kind, rows in findings.examples.items() for row in rows if kind.anomaly in names)
    return {(row["producer_id"], row["seq"]) for _, row in found}


def wrong(findings: Findings) -> set[str]:
    """Return the violated invariants and the forbidden anomalies of a history."""
    violated = {name for name, tally in findings.tallies.items() if tally.violations}
    forbidden = {
        kind.anomaly
        for kind, rows in findings.examples.items()
        for row in rows
        if kind.allowed_why is None and kind.anomaly not in permitted(row["producer_id"] or "all")
    }
    return violated | forbidden


def test_legal_histories_show_nothing():
    """A hundred legal histories have no forbidden anomaly and no violated invariant."""
    assert [found for _, findings in legal() if (found := wrong(findings))] == []


def test_lost_and_doubled_records_are_exactly_the_models():
    """Lost and duplicated records are exactly those of the model."""
    assert [cases_of(findings, *LOST) for _, findings in legal()] == [set(history.lost()) for history, _ in legal()]
    assert [cases_of(findings, "duplicate") for _, findings in legal()] == [
        set(history.doubled()) for history, _ in legal()
    ]
    assert sum(len(history.lost()) for history, _ in legal()) > LEGAL
    assert sum(len(history.doubled()) for history, _ in legal()) > 20


def with_losses(history: History) -> Findings:
    """Return the findings on a history whose producers are permitted loss only with a new leader."""
    loss = {anomaly: (Permission("a new leader", Cause.NEW_LEADER),) for anomaly in LOSS}
    return judged(history, {producer.name: loss for producer in history.producers})


def test_each_record_that_acks_1_lost_went_with_a_new_leader():
    """Each record that acks=1 lost is explained by a leader change in the controller's history."""
    found = [with_losses(history) for history, _ in legal()]

    assert [kind for each in found for kind in each.counts if kind.anomaly in LOSS and not kind.allowed_why] == []


def test_a_loss_long_after_the_last_takeover_went_with_none():
    """A loss long after the last leader change is not permitted."""
    history = deepcopy(eventful()[0])
    gone = next(batch for batch in reversed(history.logs[1]) if batch.producer.startswith("one"))
    for log in history.logs.values():
        log.remove(gone)
    history.polls = [row for row in history.polls if not gone.base <= row["offset"] < gone.end]
    found = with_losses(history)

    lost = {row["seq"] for row in found.examples[Kind("lost_write", None)]}
    assert lost == set(gone.seqs)


def test_every_check_spoke():
    """Every check that applies has checked something in the eventful history."""
    _, findings = eventful()
    spoke = {name for name, tally in findings.tallies.items() if tally.checked}

    assert spoke == set(invariants.INVARIANTS) - OF_TRANSACTIONS - OF_GROUPS - OF_ISR_LINES


# --- illegal histories ------------------------------------------------------------------------------


def of_all(batches: list[Batch]) -> list[int]:
    """Return the indexes of batches of the acks=all producer."""
    return [n for n, batch in enumerate(batches) if batch.producer.startswith("all")]


def live(history: History) -> list[dict[str, Any]]:
    """Return the live consumer's reads."""
    return [row for row in history.polls if row["pass"] == "live"]


def acknowledged(history: History) -> list[dict[str, Any]]:
    """Return the sends acknowledged with acks=all."""
    return [row for row in history.sends if row["outcome"] == "ok" and row["acks"] == "all"]


def a_replica_changes_a_record(history: History) -> None:
    """Broker 2's first batch has other records."""
    log = history.logs[2]
    log[0] = log[0]._replace(seqs=tuple(seq + 1_000 for seq in log[0].seqs))


def a_replica_forgets_its_last_batch(history: History) -> None:
    """Broker 3's log lacks its last batch."""
    history.logs[3].pop()


def everybody_forgets_a_batch(history: History) -> None:
    """A batch acknowledged with acks=all is in no log."""
    gone = history.logs[1][of_all(history.logs[1])[1]]
    for log in history.logs.values():
        log.remove(gone)
    history.polls = [r for r in history.polls if r["pass"] == "live" or not gone.base <= r["offset"] < gone.end]


def sequences_are_swapped(history: History) -> None:
    """Two batches of an idempotent producer are in the wrong order."""
    for log in history.logs.values():
        one, other = of_all(log)[:2]
        first, second = log[one], log[other]
        log[one] = first._replace(base_sequence=second.base_sequence)
        log[other] = second._replace(base_sequence=first.base_sequence)


def an_epoch_file_is_shifted(history: History) -> None:
    """Broker 2's leader-epoch-checkpoint has starts that its log contradicts."""
    history.epochs[2] = [(epoch, start + (epoch > 0)) for epoch, start in history.epochs[2]]


def a_second_broker_says_to_lead(history: History) -> None:
    """Broker 3 claims to lead broker 2's epoch."""
    line = next(line for line in history.lines if line["kind"] == "leader_started" and line["leader_epoch"] == 1)
    history.lines.append(line | {"broker_id": 3})


def a_high_watermark_passes_its_log_end(history: History) -> None:
    """One sample's HW is above its LEO."""
    row = history.samples[50]
    row["high_watermark"] = row["log_end_offset"] + 1


def a_log_start_passes_its_high_watermark(history: History) -> None:
    """One sample's log start is above its HW."""
    row = history.samples[50]
    row["log_start_offset"] = row["high_watermark"] + 1


def a_leader_goes_back(history: History) -> None:
    """A leader's HW falls within its epoch."""
    led = [
        row for row in history.samples if (row["broker_id"], row["leader_epoch"]) == (1, 0) and row["high_watermark"]
    ]
    led[1]["high_watermark"] = led[0]["high_watermark"] - 1


def a_record_is_from_nobody(history: History) -> None:
    """The final drain read a record that no producer sent."""
    history.polls.append(history.polls[-1] | {"offset": history.drain_end, "seq": 9_999})


def a_record_is_damaged(history: History) -> None:
    """A record does not match its checksum."""
    history.polls[-1]["checksum_ok"] = False


def a_written_record_is_denied(history: History) -> None:
    """A stored record was reported as definitely not written."""
    acknowledged(history)[0].update(outcome="fail", offset=None)


def an_offset_has_two_values(history: History) -> None:
    """The live consumer and the final drain read different records at one offset."""
    one, other = [row for row in live(history) if row["producer_id"].startswith("all")][:2]
    one["seq"] = other["seq"]


def a_consumer_passes_a_record(history: History) -> None:
    """The live consumer skipped a record."""
    history.polls.remove(live(history)[3])


def a_consumer_goes_back(history: History) -> None:
    """The live consumer got a record again."""
    history.polls.append(live(history)[3] | {"position": 10_000})


def the_end_of_the_log_is_gone(history: History) -> None:
    """The last records that the live consumer got are missing at the end."""
    cut = live(history)[-1]["offset"]
    history.drain_end = cut
    history.logs = {b: [one for one in log if one.end <= cut] for b, log in history.logs.items()}
    history.polls = [row for row in history.polls if row["pass"] == "live" or row["offset"] < cut]


def a_consumer_seeks_back(history: History) -> None:
    """The live consumer seeks, reports it, and gets a record again."""
    again = live(history)[3] | {"position": 10_000}
    history.polls.append(again)
    at = {"from_offset": live(history)[-2]["offset"] + 1, "to_offset": again["offset"], "position": 10_000}
    who = {"consumer_id": again["consumer_id"], "pass": "live", "leader_epoch": again["leader_epoch"]}
    history.seeks.append(at | who | {"why": "the position is out of range", "sought_ns": again["received_ns"]})


def a_batch_is_older_than_the_one_before(history: History) -> None:
    """The live consumer's last record has an older leader epoch."""
    live(history)[-1]["leader_epoch"] = 0


def a_record_is_given_out_early(history: History) -> None:
    """The live consumer got a record before its leader's HW passed it."""
    row = live(history)[-1]
    led = [s for s in history.samples if (s["broker_id"], s["leader_epoch"]) == (1, 2)]
    before = [s for s in led if s["high_watermark"] <= row["offset"]]
    row["received_ns"] = before[-1]["sent_ns"] - MS


def an_acknowledged_offset_is_given_again(history: History) -> None:
    """A producer's last record is acknowledged at the offset of its first."""
    first, *_, last = acknowledged(history)
    last["offset"] = first["offset"]


def an_acknowledgement_names_no_offset(history: History) -> None:
    """A record is acknowledged without an offset."""
    acknowledged(history)[0]["offset"] = None


# an edit of a legal history → the checks that must find it
EDITS: dict[Callable[[History], None], set[str]] = {
    a_replica_changes_a_record: {"I12", "I13"},
    a_replica_forgets_its_last_batch: {"I12", "I15"},
    everybody_forgets_a_batch: {"lost_write", "nonrepeatable_read", "I15", "I16", "I17"},
    sequences_are_swapped: {"I17"},
    an_epoch_file_is_shifted: {"I14"},
    a_second_broker_says_to_lead: {"I19", "source_disagreement"},
    a_high_watermark_passes_its_log_end: {"I2"},
    a_log_start_passes_its_high_watermark: {"I1"},
    a_leader_goes_back: {"I3"},
    a_record_is_from_nobody: {"phantom_record"},
    a_record_is_damaged: {"corrupt_record"},
    a_written_record_is_denied: {"aborted_read"},
    an_offset_has_two_values: {"inconsistent_offset", "nonrepeatable_read"},
    a_consumer_passes_a_record: {"poll_skip"},
    a_consumer_goes_back: {"nonmonotonic_poll"},
    the_end_of_the_log_is_gone: {"nonrepeatable_read"},
    a_batch_is_older_than_the_one_before: {"leader_epoch_regression"},
    a_record_is_given_out_early: {"precommitted_read"},
    an_acknowledged_offset_is_given_again: {"realtime_order_violation", "nonmonotonic_send"},
    an_acknowledgement_names_no_offset: {"bad_ack_offset"},
}
ILLEGAL = {**FLAWS, **{edit.__name__: names for edit, names in EDITS.items()}}


def broken(rule: str) -> History:
    """Return the eventful history with one rule broken."""
    history = played(EVENTFUL, **({"flaw": rule} if rule in FLAWS else {}))
    for edit in EDITS:
        if edit.__name__ == rule:
            edit(history)
    return history


@pytest.mark.parametrize("rule", ILLEGAL)
def test_a_broken_rule_is_named(rule):
    """The eventful history with one rule broken is rejected by the checks of that rule."""
    assert ILLEGAL[rule] - wrong(judged(broken(rule))) == set()


# --- windows ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("answers", [None, 0, 2_000])  # of a probe, in ms at most; None: as the model has them
@pytest.mark.parametrize("rule", ["", *ILLEGAL])
def test_windows_change_no_finding(rule, answers):
    """However a history's samples are cut, the findings are those of all samples at once, also if probes overlap."""
    chance = random.Random(f"{rule}{answers}")
    histories = [played(script(n), n, effective_min_isr=1 + n % 2) for n in range(5)] if not rule else [broken(rule)]
    for history in histories:
        for row in history.samples if answers is not None else ():
            row["received_ns"] = row["sent_ns"] + chance.randint(0, answers) * MS
        rows = len(history.samples)
        whole = judged_whole(history)
        for parts in (1, 2, 9):
            assert judged(history, cuts=chance.sample(range(rows), parts - 1)) == whole
