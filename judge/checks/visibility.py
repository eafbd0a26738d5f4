"""Cases in which a read contradicts a leader's HW or last stable offset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Any

import numpy as np

from evidence.columns import ACKS, NULL, Ints, Polls, groups, joined
from evidence.facts import FOREVER_NS, STALE_METADATA_NS, longest_outside
from evidence.partition import PartitionEvidence
from evidence.samples import Samples
from evidence.views import first_leaders
from judge.checks.findings import Cases, columns_of


class EarlyReads:
    """Finds reads of records above their leader's high watermark, window by window of its samples."""

    def __init__(self, evidence: PartitionEvidence, polls: Iterable[Polls] | None = None) -> None:
        """``polls``: all reads in windows of time, if the evidence has not all."""
        self._leaders = first_leaders(evidence.views)
        self._nothing, self._names = evidence.polls.take(slice(0)), evidence.names
        self._windows = iter([evidence.polls] if polls is None else polls)
        self._waiting = self._nothing
        self._found: list[tuple[Polls, Samples]] = []

    def see(self, samples: Samples) -> None:
        led = samples.of_leaders((epoch, leader) for epoch, (leader, _) in self._leaders.items())
        shown = samples.take(led & ~samples.carried)
        if not len(shown):
            return
        for polls in self._until(int(shown.sent_ns[-1])):
            asked = np.searchsorted(shown.sent_ns, polls.received_ns)  # the first sample after each read
            limit = np.where(polls.committed_only & (shown.lso[asked] != NULL), shown.lso[asked], shown.hw[asked])
            early = np.flatnonzero(
                (limit <= polls.offset)
                & (polls.leader_epoch == shown.epoch[asked])
                & (polls.received_ns + STALE_METADATA_NS < _until_ns(self._leaders, shown.epoch)[asked])
            )
            self._found.append((polls.take(early), shown.take(asked[early])))

    def _until(self, sent_ns: int) -> Iterator[Polls]:
        """Yield the next reads up to this time, in order of time."""
        while True:
            done = int(np.searchsorted(self._waiting.received_ns, sent_ns, side="right"))
            if done:
                yield self._waiting.take(slice(done))
            self._waiting = self._waiting.take(slice(done, None))
            if len(self._waiting) or (following := next(self._windows, None)) is None:
                return
            self._waiting = following.take(np.argsort(following.received_ns, kind="stable"))

    def cases(self) -> Cases:
        names, polls = self._names, reduce(Polls.then, (read for read, _ in self._found), self._nothing)
        order = np.lexsort((polls.position, polls.consumer, polls.offset))
        polls = polls.take(order)

        def of_sample(name: str) -> Ints:
            return joined(getattr(shown, name) for _, shown in self._found)[order]

        sample = columns_of(
            (
                np.arange(len(polls)),
                {
                    "high_watermark": of_sample("hw"),
                    "last_stable_offset": of_sample("lso"),
                    "broker_id": of_sample("broker"),
                    "leader_epoch": of_sample("epoch"),
                    "sent_ns": of_sample("sent_ns"),
                    "until_ns": _until_ns(self._leaders, of_sample("epoch")),
                },
            )
        )

        def example(place: int) -> dict[str, Any]:
            row, by = place, {name: value for name, value in sample(place).items() if value is not None}
            explanation = (
                f"Consumer {names.listed[polls.consumer[row]]} was given offset {polls.offset[row]} while broker "
                f"{by['broker_id']}, leader in epoch {by['leader_epoch']}, was at HW {by['high_watermark']}, last "
                f"stable offset {by.get('last_stable_offset', 'unknown')}."
            )
            evidence = {"received_ns": int(polls.received_ns[row]), "sample": by}
            return {"offset": int(polls.offset[row]), "explanation": explanation, "evidence": evidence}

        return Cases("precommitted_read", polls.value, example)


def precommitted_read(evidence: PartitionEvidence, early: EarlyReads | None = None) -> Cases:
    """A consumer received a record although its leader's high watermark (``read_committed``: last stable offset),
    requested later, was still at or below it; serves C2. Sound within one epoch: neither falls (I3). The batch has the
    sample's epoch, and no later one was seen until two seconds after the read, so no other leader served it.
    """
    if early is None:
        early = EarlyReads(evidence)
        early.see(evidence.samples)
    return early.cases()


def _until_ns(leaders: dict[int, tuple[int, int]], epochs: Ints) -> Ints:
    """Return when the epoch after each epoch was first seen."""
    known = sorted(leaders)
    ends_ns = np.array([*(leaders[epoch][1] for epoch in known[1:]), FOREVER_NS], dtype=np.int64)
    return ends_ns[np.searchsorted(np.array(known, dtype=np.int64), epochs)]


def hanging_transaction(evidence: PartitionEvidence) -> Cases:
    """A leader's last stable offset stayed below its high watermark for longer than any transaction may be open. Sound:
    the coordinator aborts a transaction ``transaction.timeout.ms`` after its begin, checked every
    ``transaction.abort.timed.out.transaction.cleanup.interval.ms``. Counted without an active fault, beyond both and
    the time for markers. Bugs behind KIP-890 leave such transactions.
    """
    samples, sends, names = evidence.samples, evidence.sends, evidence.names
    limit_ns, faults = evidence.run.transaction_limit_ns, evidence.run.active_faults
    held = np.flatnonzero(evidence.sampled_leaders & (samples.lso != NULL) & (samples.lso < samples.hw))
    begun = np.flatnonzero((sends.transaction != NULL) & (sends.offset != NULL))
    stuck: list[tuple[int, dict[str, Any]]] = []  # with the first send there, or -1
    for (offset,), places in groups(samples.lso[held]):
        rows = held[places]
        from_ns, to_ns = int(samples.received_ns[rows].min()), int(samples.sent_ns[rows].max())
        quiet_ns = longest_outside(faults, from_ns, to_ns) if to_ns - from_ns > limit_ns else 0
        if quiet_ns > limit_ns:
            span = {"high_watermark": int(samples.hw[rows].max()), "from_ns": from_ns, "to_ns": to_ns}
            span |= {"quiet_ns": quiet_ns, "offset": offset}
            stuck += [(send, span) for send in begun[sends.offset[begun] == offset].tolist() or [-1]]

    def example(place: int) -> dict[str, Any]:
        send, span = stuck[place]
        offset, transaction, acks, who = span["offset"], None, None, "a transaction that nobody here began"
        if send >= 0:
            transaction, acks = int(sends.transaction[send]), ACKS[sends.acks[send]]
            who = f"transaction {transaction} of {names.name(int(sends.value[send]))[0]}"
        explanation = (
            f"The last stable offset stayed at {offset} for {span['quiet_ns'] / 1e9:.1f} s with no fault active, below "
            f"the high watermark {span['high_watermark']}: {who} never ended."
        )
        evidence = {"transaction": transaction, **{name: span[name] for name in span if name != "offset"}}
        return {"offset": offset, "acks": acks, "explanation": explanation, "evidence": evidence}

    values = [-1 if send < 0 else int(sends.value[send]) for send, _ in stuck]
    return Cases("hanging_transaction", np.array(values, dtype=np.int64), example)
