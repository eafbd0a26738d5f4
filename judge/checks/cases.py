"""Collect all cases of a partition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from evidence.columns import FINAL, NULL, Polls
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


def accounted(of: PartitionEvidence) -> Account:
    """Return the outcome of every send."""
    run, polls, committed = of.run, _reads(of), None
    if run.transactional:
        polls = atomicity.stable(polls, of.sends)
        committed = atomicity.siblings(of.sends, of.names, set(of.committed))
    since = None
    if run.foreign and not (of.polls.pass_ == FINAL).any():
        since = imported.passed_since(polls, of.names.held(run.from_start.get(of.where, ())))
    decided = account(
        of.sends,
        polls,
        of.logs,
        drain=of.drain,
        whole=of.whole,
        ended_at=_ended_at(of),
        deleted_before=of.deleted_before,
        kept=of.kept or run.foreign,
        siblings=committed,
        since=since,
        drained_to=max((each.last for each in of.plain if each.drained), default=NULL),
    )
    return imported.after_cleanup(decided, of) if run.foreign else decided


def _ended_at(of: PartitionEvidence) -> int | None:
    """Return the last log end of all replicas, if their logs were not recorded."""
    captured = of.assigned and of.ends.keys() >= set(of.assigned)
    return max(of.ends.values()) if captured and of.run.profile.lacking("segments") else None


def _reads(of: PartitionEvidence) -> Polls:
    return imported.as_drain(of.polls) if of.run.foreign else of.polls


def cases(of: PartitionEvidence, account: Account, early: visibility.EarlyReads | None = None) -> Iterator[Cases]:
    """Yield a partition's cases, an imported one's without replicas; ``early`` has seen all its samples."""
    if of.run.foreign:
        yield from (imported.cases_with_names(each, of) for each in record_cases(of, account))
        return
    yield from record_cases(of, account)
    yield visibility.precommitted_read(of, early)
    yield groups.group_skip(of)
    yield shares.stuck_record(of)
    yield shares.archived_record(of)
    if of.run.transactional:
        yield visibility.hanging_transaction(of)
    yield behaviour.source_disagreement(of)
    yield behaviour.behaviour_change(of)


def record_cases(of: PartitionEvidence, account: Account) -> Iterator[Cases]:
    """Yield the cases that follow from sends and reads."""
    run, polls = of.run, _reads(of)
    seen = replace(of, polls=atomicity.stable(polls, of.sends) if run.transactional else polls)
    yield from records.unread_acknowledged(seen, account)
    yield records.duplicate(seen, account, run.gave_up)
    if of.input is None:
        yield records.phantom_record(seen, account)
    else:
        yield from exactly_once.cases(of)
    yield records.corrupt_record(seen)
    yield records.aborted_read(seen, account)
    wrong = imported.misplaced(account, of.sends) if run.foreign else None
    yield records.inconsistent_offset(seen, account, wrong)
    taken, acked = reading_order.steps(of), reading_order.acknowledged(of)
    stays = of.kept and not of.expires and of.deleted_before is None  # else only the final pass shows what remained
    yield reading_order.poll_skip(of, taken, imported.standing(of, wrong) if wrong is not None and stays else None)
    yield reading_order.nonmonotonic_poll(of, taken)
    yield reading_order.nonmonotonic_send(of, acked if wrong is None else reading_order.acknowledged(of, ~wrong))
    if not run.foreign:
        yield reading_order.leader_epoch_regression(of, taken)
        yield reading_order.nonrepeatable_read(of)
        yield reading_order.realtime_order_violation(of)
    yield reading_order.bad_ack_offset(of, acked, run.resending, account if run.foreign else None)
