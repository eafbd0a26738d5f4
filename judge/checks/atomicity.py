"""Judge transactions (KIP-98) across partitions.

Reads of ``read_uncommitted`` consumers do not show how they ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Any, NamedTuple

import numpy as np

from evidence.columns import ACKS, FAIL, INFO, NULL, OK, OUTCOMES, Bools, Ints, Names, Polls, Sends, positions_in
from evidence.facts import Transaction
from history.partition import TopicPartition
from judge.checks.account import GONE, Account
from judge.checks.findings import Cases, Kind


def stable(polls: Polls, sends: Sends) -> Polls:
    """Return the reads, without ``read_uncommitted`` ones of unconfirmed transactions."""
    open_ones = np.unique(sends.value[(sends.transaction != NULL) & (sends.outcome != OK)])
    if not open_ones.size:
        return polls
    return polls.take(polls.committed_only | (positions_in(open_ones, polls.value) < 0))


def _named(sends: Sends, names: Names, rows: Ints) -> list[Transaction]:
    producers = (names.name(value)[0] or "" for value in sends.value[rows].tolist())
    return list(zip(producers, sends.transaction[rows].tolist(), strict=True))


def open_transactions(sends: Sends, polls: Polls, names: Names) -> tuple[set[Transaction], set[Transaction]]:
    """Return the transactions of unknown outcome, and those with a read record."""
    unknown = np.flatnonzero((sends.transaction != NULL) & (sends.outcome == INFO))
    if not unknown.size:
        return set(), set()
    seen = unknown[positions_in(np.unique(polls.value), sends.value[unknown]) >= 0]
    return set(_named(sends, names, unknown)), set(_named(sends, names, seen))


def siblings(sends: Sends, names: Names, committed: set[Transaction]) -> Ints:
    """Return indeterminate sends of transactions with a record that was read."""
    unknown = np.flatnonzero((sends.transaction != NULL) & (sends.outcome == INFO))
    transactions = _named(sends, names, unknown)
    return sends.value[unknown[[each in committed for each in transactions]]] if transactions else sends.value[unknown]


FORBIDDEN = Kind("torn_transaction", None)


class Part(NamedTuple):
    """A transaction's records in one partition; ``first`` is the first lost one."""

    records: int
    read: int
    gone: int
    at_ns: int | None
    outcome: str
    first: Mapping[str, Any] | None
    kind: Kind = FORBIDDEN


Parts = dict[Transaction, Part]


def with_gone_records(sends: Sends, account: Account, names: Names) -> set[Transaction]:
    """Return the transactions that lost a record here."""
    return set(_named(sends, names, np.flatnonzero(_members(sends) & np.isin(account.fate, GONE))))


def _members(sends: Sends) -> Bools:
    members: Bools = (sends.transaction != NULL) & (sends.outcome != FAIL)
    return members


def has_any(sends: Sends, names: Names, wanted: Set[Transaction]) -> bool:
    """Return whether this partition has a record of these transactions."""
    return not wanted.isdisjoint(_named(sends, names, np.flatnonzero(_members(sends))))


Ruled = Callable[[Cases], tuple[list[Kind], Ints]]  # kinds, and the place of each case's kind


def parts(
    where: TopicPartition, sends: Sends, account: Account, names: Names, wanted: Set[Transaction], *, ruled: Ruled
) -> Parts:
    """Return the wanted transactions' records in this partition."""
    gone = np.unique(sends.value[_members(sends) & np.isin(account.fate, GONE)])
    kinds, of_value = ruled(Cases("torn_transaction", gone, lambda _: {}))
    rows = np.flatnonzero(_members(sends))
    by_transaction: dict[Transaction, list[int]] = {}
    for row, transaction in zip(rows.tolist(), _named(sends, names, rows), strict=True):
        if transaction in wanted:
            by_transaction.setdefault(transaction, []).append(row)
    own_parts = {
        transaction: _part(where, sends, account, names, np.array(members))
        for transaction, members in by_transaction.items()
    }
    for transaction, members in by_transaction.items():
        at = positions_in(gone, sends.value[members])
        own = [kinds[code] for code in np.unique(of_value[at[at >= 0]]).tolist()]
        own_parts[transaction] = own_parts[transaction]._replace(kind=least(own))
    return own_parts


def least(kinds: Iterable[Kind]) -> Kind:
    """Return the least permissive kind."""
    return min(kinds, key=lambda kind: (False, None, True).index(kind.allowed), default=FORBIDDEN)


def _part(where: TopicPartition, sends: Sends, account: Account, names: Names, rows: Ints) -> Part:
    gone = rows[np.isin(account.fate[rows], GONE)]
    first = None
    if gone.size:
        row = int(gone[np.argmin(sends.value[gone])])
        offset = None if sends.offset[row] == NULL else int(sends.offset[row])
        producer, seq = names.name(int(sends.value[row]))
        named = {**where._asdict(), "offset": offset, "producer_id": producer, "seq": seq}
        first = named | {"acks": ACKS[sends.acks[row]]}
    done = sends.done_ns[rows][sends.done_ns[rows] != NULL]
    at_ns = int(done.max()) if done.size else None
    outcome = OUTCOMES[sends.outcome[rows[0]]]
    return Part(rows.size, int(account.read[rows].sum()), int(gone.size), at_ns, outcome, first)


def torn_transaction(partitions: Iterable[Parts]) -> Iterator[tuple[dict[str, Any], Kind]]:
    """The final drain returned some records of a transaction, while others are lost (KAFKA-17754). Permitted if each
    loss is. Lost: a completed read passed it, or no replica's log has it. Records above their partition's bound or the
    last stable offset are not judged.
    """
    together: dict[Transaction, list[Part]] = {}
    for of_partition in partitions:
        for transaction, part in of_partition.items():
            together.setdefault(transaction, []).append(part)
    for (producer, number), of_it in sorted(together.items()):
        records, read, gone = (sum(getattr(part, name) for part in of_it) for name in ("records", "read", "gone"))
        if not read or not gone:
            continue
        first = min((part.first for part in of_it if part.first is not None), key=lambda row: (row["seq"], *_at(row)))
        row = {
            **first,
            "explanation": f"Transaction {number} of {producer} is torn: {read} of its {records} records were read and "
            f"{gone} were lost, first record {producer}/{first['seq']}.{first.get('explanation', '')}",
            "evidence": {
                **first.get("evidence", {}),
                "transaction": number,
                "records": records,
                "read": read,
                "gone": gone,
                "outcome": of_it[0].outcome,
            },
            "at_ns": max((part.at_ns for part in of_it if part.at_ns is not None), default=None),
        }
        yield row, least(part.kind for part in of_it if part.gone)


def _at(row: Mapping[str, Any]) -> tuple[str, int]:
    return row["topic"], row["partition"]
