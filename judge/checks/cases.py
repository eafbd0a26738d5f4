"""Collect all cases of a partition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from evidence.columns import FINAL, Polls
from evidence.gather import Question, RunFacts
from evidence.partition import PartitionEvidence
from judge.checks import (
    atomicity,
    behaviour,
    exactly_once,
    groups,
    imported,
    reading_order,
    records,
    shares,
    visibility,
)
from judge.checks.account import Account, account
from judge.checks.findings import Cases


def accounted(run: RunFacts, question: Question, of: PartitionEvidence) -> Account:
    """Return the outcome of every send."""
    polls, committed = _reads(run, of), None
    if run.transactional:
        polls = atomicity.stable(polls, of.sends)
        committed = atomicity.siblings(of.sends, of.names, set(question.committed))
    since = None
    if run.foreign and not (of.polls.pass_ == FINAL).any():
        since = imported.passed_since(polls, of.names.held(run.from_start.get(of.where, ())))
    told = account(
        of.sends,
        polls,
        of.logs,
        drain=of.drain,
        whole=of.whole,
        deleted_before=of.deleted_before,
        kept=of.kept or run.foreign,
        siblings=committed,
        since=since,
    )
    return imported.after_cleanup(told, of) if run.foreign else told


def _reads(run: RunFacts, of: PartitionEvidence) -> Polls:
    return imported.as_drain(of.polls) if run.foreign else of.polls


def cases(run: RunFacts, of: PartitionEvidence, told: Account) -> Iterator[Cases]:
    """Yield a partition's cases, an imported one's without replicas."""
    found = [*record_cases(run, of, told)]
    if run.foreign:
        yield from (imported.told_with_names(each, of, run.subscribed) for each in found)
        return
    yield from found
    yield visibility.precommitted_read(of)
    yield groups.group_skip(of)
    yield shares.stuck_record(of)
    yield shares.archived_record(of)
    if run.transactional:
        yield visibility.hanging_transaction(of, run.transaction_limit_ns, run.faults)
    yield behaviour.source_disagreement(of)
    yield behaviour.behaviour_change(of)


def record_cases(run: RunFacts, of: PartitionEvidence, told: Account) -> Iterator[Cases]:
    """Yield the cases that follow from sends and reads."""
    polls = _reads(run, of)
    seen = replace(of, polls=atomicity.stable(polls, of.sends) if run.transactional else polls)
    yield from records.unread_acknowledged(seen, told)
    yield records.duplicate(seen, told, run.gave_up)
    if of.copied is None:
        yield records.phantom_record(seen, told)
    else:
        yield from exactly_once.cases(of, of.copied)
    yield records.corrupt_record(seen)
    yield records.aborted_read(seen, told)
    wrong = imported.misplaced(told, of.sends) if run.foreign else None
    yield records.inconsistent_offset(seen, told, wrong)
    taken, acked = reading_order.steps(of), reading_order.acknowledged(of)
    stays = of.kept and not of.expires and of.deleted_before is None  # else only the final pass shows what remained
    yield reading_order.poll_skip(of, taken, imported.standing(of, wrong) if wrong is not None and stays else None)
    yield reading_order.nonmonotonic_poll(of, taken)
    yield reading_order.nonmonotonic_send(of, acked if wrong is None else reading_order.acknowledged(of, ~wrong))
    if not run.foreign:
        yield reading_order.leader_epoch_regression(of, taken)
        yield reading_order.nonrepeatable_read(of)
        yield reading_order.realtime_order_violation(of)
    yield reading_order.bad_ack_offset(of, acked, run.resending, told if run.foreign else None)
