"""What one partition knows of transactions, and what follows once all partitions are brought together (KIP-98).

Records of one producer with the same number were in one transaction. What a ``read_uncommitted`` consumer was given of
them says nothing of its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from evidence.columns import ACKS, FAIL, INFO, NULL, OK, OUTCOMES, Bools, Ints, Names, Polls, Sends, places
from evidence.gather import Transaction
from history.partition import TopicPartition
from judge.checks.account import GONE, Account
from judge.checks.findings import Cases, Kind


def stable(polls: Polls, sends: Sends) -> Polls:
    """Without what ``read_uncommitted`` consumers were given of transactions that are not known to be committed."""
    open_ones = np.unique(sends.value[(sends.transaction != NULL) & (sends.outcome != OK)])
    if not open_ones.size:
        return polls
    return polls.take(polls.committed_only | (places(open_ones, polls.value) < 0))


def _named(sends: Sends, names: Names, rows: Ints) -> list[Transaction]:
    producers = (names.name(value)[0] or "" for value in sends.value[rows].tolist())
    return list(zip(producers, sends.transaction[rows].tolist(), strict=True))


def open_transactions(sends: Sends, polls: Polls, names: Names) -> tuple[set[Transaction], set[Transaction]]:
    """The transactions of unknown outcome with records in this partition, and those of them of which one was seen."""
    unknown = np.flatnonzero((sends.transaction != NULL) & (sends.outcome == INFO))
    if not unknown.size:
        return set(), set()
    seen = unknown[places(np.unique(polls.value), sends.value[unknown]) >= 0]
    return set(_named(sends, names, unknown)), set(_named(sends, names, seen))


def siblings(sends: Sends, names: Names, committed: set[Transaction]) -> Ints:
    """The values of indeterminate sends whose transaction must have been committed, as one of its records was seen."""
    unknown = np.flatnonzero((sends.transaction != NULL) & (sends.outcome == INFO))
    told = _named(sends, names, unknown)
    return sends.value[unknown[[each in committed for each in told]]] if told else sends.value[unknown]


FORBIDDEN = Kind("torn_transaction", None)


class Part(NamedTuple):
    """A transaction's records in one partition; ``first`` is the first record that is gone, as a row of a case, with
    what an imported history called it in ``explanation`` and ``evidence``. ``kind`` says whether all that are gone were
    permitted to go.
    """

    records: int
    read: int
    gone: int
    at_ns: int | None
    outcome: str
    first: Mapping[str, Any] | None
    kind: Kind = FORBIDDEN


def with_gone_records(sends: Sends, found: Account, names: Names) -> set[Transaction]:
    """The transactions, not aborted ones, of which a record of this partition is gone."""
    return set(_named(sends, names, np.flatnonzero(_members(sends) & np.isin(found.fate, GONE))))


def _members(sends: Sends) -> Bools:
    members: Bools = (sends.transaction != NULL) & (sends.outcome != FAIL)
    return members


Ruled = Callable[[Cases], tuple[list[Kind], Ints]]  # the kinds that cases are of, and the place of each case's


def parts(
    where: TopicPartition, sends: Sends, found: Account, names: Names, wanted: set[Transaction], *, ruled: Ruled
) -> dict[Transaction, Part]:
    """What became of the wanted transactions' records in this partition. A transaction may be torn here if all of its
    records that are gone may be.
    """
    if not wanted:
        return {}
    gone = np.unique(sends.value[_members(sends) & np.isin(found.fate, GONE)])
    kinds, of_value = ruled(Cases("torn_transaction", gone, lambda _: {}))
    rows = np.flatnonzero(_members(sends))
    by_transaction: dict[Transaction, list[int]] = {}
    for row, transaction in zip(rows.tolist(), _named(sends, names, rows), strict=True):
        if transaction in wanted:
            by_transaction.setdefault(transaction, []).append(row)
    told = {
        transaction: _part(where, sends, found, names, np.array(members))
        for transaction, members in by_transaction.items()
    }
    for transaction, members in by_transaction.items():
        at = places(gone, sends.value[members])
        own = [kinds[code] for code in np.unique(of_value[at[at >= 0]]).tolist()]
        told[transaction] = told[transaction]._replace(kind=least(own))
    return told


def least(kinds: Iterable[Kind]) -> Kind:
    """Of what cases are permitted by, the one that permits least: one that is not permitted, else one that is
    undecided.
    """
    return min(kinds, key=lambda kind: (False, None, True).index(kind.allowed), default=FORBIDDEN)


def _part(where: TopicPartition, sends: Sends, found: Account, names: Names, rows: Ints) -> Part:
    gone = rows[np.isin(found.fate[rows], GONE)]
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
    return Part(rows.size, int(found.read[rows].sum()), int(gone.size), at_ns, outcome, first)


def torn_transaction(told: Iterable[Mapping[Transaction, Part]]) -> Iterator[tuple[dict[str, Any], Kind]]:
    """Of one transaction the final drain returned some records, while others are gone, as in KAFKA-17754.

    It is permitted where each record that is gone was permitted to go.

    A record counts as gone only where a completed read went past it or no replica's log has it; what lies above the
    bound of its partition, or above the last stable offset, is not judged. A transaction without a known end must be
    all or nothing as well; of an aborted one any record that is read is an ``aborted_read``.
    """
    together: dict[Transaction, list[Part]] = {}
    for of_partition in told:
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
            f"{gone} are gone, the first of them record {producer}/{first['seq']}.{first.get('explanation', '')}",
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
