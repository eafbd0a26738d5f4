"""Cases in which a read contradicts a leader's HW or last stable offset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evidence.columns import ACKS, NULL, groups, number
from evidence.facts import FOREVER_NS, longest_outside
from evidence.partition import PartitionEvidence
from evidence.views import first_leaders
from judge.checks.findings import Cases

STALE_NS = 2_000_000_000  # a new leader may serve this long before its epoch is seen


def precommitted_read(evidence: PartitionEvidence) -> Cases:
    """A consumer received a record although its leader's high watermark, requested later, was still at or below it;
    serves C2. For a ``read_committed`` consumer the last stable offset counts.

    Sound within one epoch, as a leader's HW never falls (I3), nor does the offset of the first open transaction. The
    record's batch has the sample's epoch, so no earlier leader served it; no later epoch was seen until two seconds
    after the read, so no later leader did.
    """
    polls, names, leaders = evidence.polls, evidence.names, first_leaders(evidence.views)
    shown = evidence.samples.take(
        evidence.samples.of_leaders((epoch, leader) for epoch, (leader, _) in leaders.items())
    )
    asked = np.searchsorted(shown.sent_ns, polls.received_ns)  # the first sample after each read
    read = np.flatnonzero(asked < len(shown))
    asked = asked[read]
    limit = np.where(polls.committed_only[read] & (shown.lso[asked] != NULL), shown.lso[asked], shown.hw[asked])
    until_ns = _ends(leaders)
    epochs = np.array(sorted(until_ns), dtype=np.int64)
    ends = np.array([until_ns[epoch] for epoch in epochs.tolist()], dtype=np.int64)
    early = np.flatnonzero(
        (limit <= polls.offset[read])
        & (polls.leader_epoch[read] == shown.epoch[asked])
        & (polls.received_ns[read] + STALE_NS < ends[np.searchsorted(epochs, shown.epoch[asked])])
    )
    early = early[np.argsort(polls.offset[read[early]], kind="stable")]
    read, asked = read[early], asked[early]

    def example(place: int) -> dict[str, Any]:
        row, by = int(read[place]), int(asked[place])
        hw, lso, epoch = int(shown.hw[by]), number(shown.lso, by), int(shown.epoch[by])
        return {
            "offset": int(polls.offset[row]),
            "explanation": (
                f"Consumer {names.listed[polls.consumer[row]]} was given offset {polls.offset[row]} while broker "
                f"{shown.broker[by]}, leader in epoch {epoch}, was at HW {hw}, last stable offset "
                f"{'unknown' if lso is None else lso}."
            ),
            "evidence": {
                "received_ns": int(polls.received_ns[row]),
                "sample": {
                    "high_watermark": hw,
                    **({} if lso is None else {"last_stable_offset": lso}),
                    "broker_id": int(shown.broker[by]),
                    "leader_epoch": epoch,
                    "until_ns": until_ns[epoch],
                    "sent_ns": int(shown.sent_ns[by]),
                },
            },
        }

    return Cases("precommitted_read", polls.value[read], example)


def _ends(leaders: dict[int, tuple[int, int]]) -> dict[int, int]:
    epochs = sorted(leaders)
    return dict(zip(epochs, [*(leaders[epoch][1] for epoch in epochs[1:]), FOREVER_NS], strict=False))


def hanging_transaction(evidence: PartitionEvidence, limit_ns: int, faults: Sequence[tuple[int, int]]) -> Cases:
    """A leader's last stable offset stayed below its high watermark for longer than any transaction may be open.

    Sound because the coordinator aborts a transaction ``transaction.timeout.ms`` after its begin, whatever happened to
    its producer. It checks every ``transaction.abort.timed.out.transaction.cleanup.interval.ms``, and a fault may stop
    it. So only a stretch without an active fault counts, if it is longer than the sum of both and the time for the
    markers. Bugs behind KIP-890 leave such transactions, at which ``read_committed`` readers stop for good.
    """
    samples, sends, names = evidence.samples, evidence.sends, evidence.names
    held = np.flatnonzero(evidence.of_leaders & (samples.lso != NULL) & (samples.lso < samples.hw))
    begun = np.flatnonzero((sends.transaction != NULL) & (sends.offset != NULL))
    stuck: list[tuple[int, dict[str, Any]]] = []  # with the first send there, or -1
    for (offset,), places in groups(samples.lso[held]):
        rows = held[places]
        from_ns, to_ns = int(samples.received_ns[rows].min()), int(samples.sent_ns[rows].max())
        quiet_ns = longest_outside(faults, from_ns, to_ns) if to_ns - from_ns > limit_ns else 0
        if quiet_ns > limit_ns:
            told = {"high_watermark": int(samples.hw[rows].max()), "from_ns": from_ns, "to_ns": to_ns}
            told |= {"quiet_ns": quiet_ns, "offset": offset}
            stuck += [(send, told) for send in begun[sends.offset[begun] == offset].tolist() or [-1]]

    def example(place: int) -> dict[str, Any]:
        send, told = stuck[place]
        transaction = None if send < 0 else int(sends.transaction[send])
        who = "a transaction that nobody here began"
        if send >= 0:
            who = f"transaction {transaction} of {names.name(int(sends.value[send]))[0]}"
        return {
            "offset": told["offset"],
            "acks": None if send < 0 else ACKS[sends.acks[send]],
            "explanation": (
                f"The last stable offset stayed at {told['offset']} for {told['quiet_ns'] / 1e9:.1f} s with no fault "
                f"active, below the high watermark {told['high_watermark']}: {who} never ended."
            ),
            "evidence": {
                "transaction": transaction,
                **{name: told[name] for name in ("high_watermark", "from_ns", "to_ns", "quiet_ns")},
            },
        }

    values = [-1 if send < 0 else int(sends.value[send]) for send, _ in stuck]
    return Cases("hanging_transaction", np.array(values, dtype=np.int64), example)
