"""Check what high watermarks and log end offsets must never show.

A sample is pinned to the leader epoch that the broker accepted. A is before B if A.received_ns <= B.sent_ns. Assumed:
no unclean election, compaction, deletion or tiered storage, and disks that survive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from evidence.columns import NULL, Bools, Ints, groups
from evidence.facts import FOREVER_NS, SETTLE_NS, Outage
from evidence.partition import PartitionEvidence
from evidence.samples import Samples
from evidence.views import Change
from judge.checks.findings import Checks, columns_of

STRETCH_NS = 500_000_000  # replica.fetch.wait.max.ms


def _checks(samples: Samples, checked: Bools, violated: Bools, **columns: Ints) -> Checks:
    """Return this window's checks, with the violating samples' broker, time and columns."""
    checked = checked & ~samples.carried
    rows = np.flatnonzero(checked & violated)
    evidence = columns_of((rows, {"broker_id": samples.broker, "t_ns": samples.received_ns, **columns}))
    return Checks(int(checked.sum()), samples.received_ns[rows], evidence)


def _compared(samples: Samples, checked: Bools, violated: Bools, **columns: Ints) -> Checks:
    """Return checks with the same columns of the sample before."""
    now = _checks(samples, checked, violated, leader_epoch=samples.epoch, **columns)
    earlier = samples.before[np.flatnonzero(checked & violated & ~samples.carried)]
    before = columns_of((earlier, {"received_ns": samples.received_ns, **columns}))
    return now._replace(evidence=lambda place: {**now.evidence(place), "before": before(place)})


def _follows(samples: Samples) -> Bools:
    """Return which samples follow the previous answer of their broker, incarnation and epoch."""
    # Row -1 means none; NumPy would take the last row.
    return (samples.before >= 0) & (samples.received_ns[samples.before] <= samples.sent_ns)


def i1_bounds(evidence: PartitionEvidence) -> Checks:
    """I1 (C14, C43). Within one reply. Sound: a Fetch reads HW before the log start moves next. The last stable offset
    is read after HW and proves nothing.
    """
    samples = evidence.samples
    violated = (samples.log_start < 0) | (samples.log_start > samples.hw)
    shown = {"log_start_offset": samples.log_start, "high_watermark": samples.hw}
    return _checks(samples, samples.log_start != NULL, violated, **shown)


def i2_hw_below_leo(evidence: PartitionEvidence) -> Checks:
    """I2 (C14). On one replica. Sound if HW was read first: in one reply, or in an earlier sample of the same
    incarnation and epoch. In between LEO only grows, or is truncated to HW at least. On topics that are not clean only
    single replies count.
    """
    samples = evidence.samples
    earlier = _follows(samples) if evidence.clean else np.zeros(len(samples), dtype=np.bool_)
    hw = np.where(samples.single_reply, samples.hw, samples.hw[samples.before])
    shown = {"leader_epoch": samples.epoch, "hw_read_first": hw, "log_end_offset": samples.leo}
    return _checks(samples, samples.single_reply | earlier, hw > samples.leo, **shown)


def i3_leader_monotonic(evidence: PartitionEvidence) -> Checks:
    """I3 (C7, C8). Within one incarnation and epoch. Sound: a leader never truncates its log or lowers its HW, and an
    epoch has one leader, named by the ISR views.
    """
    samples = evidence.samples
    before = samples.before
    fell = (samples.hw < samples.hw[before]) | (samples.leo < samples.leo[before])
    asked = evidence.sampled_leaders & _follows(samples)
    return _compared(samples, asked, fell, high_watermark=samples.hw, log_end_offset=samples.leo)


def i6_own_floor(evidence: PartitionEvidence) -> Checks:
    """I6 (C39, C40). In any incarnation. Sound: everything below an HW is committed, and every cleanly elected leader
    has it. Other replicas' HWs prove nothing: a former leader's divergent end may be truncated below them.
    """
    samples = evidence.samples
    floor, answered_ns = np.full(len(samples), NULL), np.full(len(samples), FOREVER_NS)
    for broker, rows in samples.rows_of_broker.items():
        begun = [
            new.t_ns
            for new in evidence.new_logs
            if new.broker_id in {None, broker} and new.topic in {None, evidence.where.topic}
        ]
        for log in np.split(rows, np.searchsorted(samples.sent_ns[rows], np.sort(np.array(begun, dtype=np.int64)))):
            floor[log[1:]] = np.maximum.accumulate(samples.hw[log[:-1]])
            answered_ns[log[1:]] = np.maximum.accumulate(samples.received_ns[log[:-1]])
    return _checks(
        samples,
        answered_ns <= samples.sent_ns,
        samples.leo < floor,
        incarnation=samples.incarnation,
        leader_epoch=samples.epoch,
        floor=floor,
        log_end_offset=samples.leo,
    )


def i8_leader_completeness(evidence: PartitionEvidence) -> Checks:
    """I8 (C6, C46). Needs no order of samples: the probe pins the epoch. A replica's epoch file may have a later start
    than the election's, never an earlier one: the smallest of all counts.
    """
    samples, starts = evidence.samples.with_epoch, evidence.epoch_starts
    later = np.array(sorted(starts), dtype=np.int64)
    start_offsets = np.array([starts[epoch] for epoch in later.tolist()], dtype=np.int64)
    lowest = np.minimum.accumulate(start_offsets[::-1])[::-1]
    checked, shown, start = 0, [], []  # rows of samples, and of later epochs
    for (epoch,), rows in groups(samples.epoch):
        behind = int(np.searchsorted(later, epoch, side="right"))
        checked += later.size - behind
        hw = samples.hw[rows]
        if behind == later.size or lowest[behind] >= hw.max():
            continue
        at_top = rows[hw == hw.max()]
        top = int(at_top[np.lexsort((samples.received_ns[at_top], samples.broker[at_top]))[-1]])
        lost = behind + np.flatnonzero(start_offsets[behind:] < samples.hw[top])
        shown += [top] * lost.size
        start += lost.tolist()
    tops = np.array(shown, dtype=np.int64)
    evidence_of = columns_of(
        (tops, {"broker_id": samples.broker, "leader_epoch": samples.epoch, "high_watermark": samples.hw}),
        (np.array(start, dtype=np.int64), {"later_epoch": later, "start_offset": start_offsets}),
    )
    return Checks(checked, samples.received_ns[tops], evidence_of)


class _Quiet(NamedTuple):
    """A stretch with a constant leader LEO, which HW reached at ``reached_ns``. ``over_ns``: it was certainly over."""

    leader: int
    isr: tuple[int, ...]
    from_ns: int
    to_ns: int
    leo: int
    hw: int
    reached_ns: int | None
    over_ns: int


def i10_moments(evidence: PartitionEvidence) -> Iterator[int]:
    """Yield the bounds of leaders' states, and when members may be compared after an outage."""
    yield from (change.received_ns for change in evidence.changes)
    for outage in evidence.outages:
        yield from (outage.from_ns, outage.until_ns, outage.until_ns + evidence.max_isr_lag_ns + SETTLE_NS)


def i10_quiescence(evidence: PartitionEvidence) -> Checks:
    """I10 (C4, C12, C18, C25). Checked while the leader's LEO does not change. A member that stops fetching holds HW
    back until the leader evicts it, at most 1.5 x replica.lag.time.max.ms. I10 is violated if HW is still below LEO
    after this limit and the settling time, with the same ISR, also if HW waits for a replica that caught up while it
    was being evicted (HW-WAITS). From 3.7 HW stands still below min.insync.replicas (KIP-966). The ISR is the
    controller's, if available.

    Not checked while a fault may have made controller or leader unreachable. With ZooKeeper the limit is one session
    time-out longer: the unreachable member may have been the controller. A member that was unreachable may have the
    whole log and an old HW: its HW is compared once it was reachable for the whole limit.
    """
    settled_ns = evidence.max_isr_lag_ns + SETTLE_NS
    effective_min_isr = 0 if evidence.lax_min_isr else evidence.effective_min_isr
    checked, violations = 0, []
    begun_ns, ends_ns = evidence.window
    for quiet in _quiet(evidence.samples.with_epoch, evidence.changes, effective_min_isr):
        if not begun_ns < quiet.over_ns <= ends_ns:  # judged in the window in which it ended
            continue
        if _overlapping(evidence.outages, quiet, {None, quiet.leader}):
            continue
        quiet_ns = quiet.to_ns - quiet.from_ns
        waited_ns = (quiet.to_ns if quiet.reached_ns is None else quiet.reached_ns) - quiet.from_ns
        members = list(_last_of_members(evidence.samples, quiet, evidence.outages, settled_ns))
        behind = [one for one in members if (one["log_end_offset"], one["high_watermark"]) != (quiet.leo, quiet.hw)]
        evicted_ns = evidence.lag_limit_ns(quiet.isr, quiet.from_ns, quiet.to_ns) + SETTLE_NS
        limit_ns = settled_ns if behind else evicted_ns
        converged = quiet.reached_ns is not None and waited_ns <= limit_ns and not behind
        checked += converged or quiet_ns > limit_ns
        if not converged and quiet_ns > limit_ns:
            times = {"quiet_ns": quiet_ns, "waited_ns": waited_ns}
            violations.append((quiet.to_ns, _unsettled(evidence.samples, quiet, members, behind) | times))
    violated_ns = np.array([t_ns for t_ns, _ in violations], dtype=np.int64)
    return Checks(checked, violated_ns, lambda place: violations[place][1])


def _unsettled(
    samples: Samples, quiet: _Quiet, members: Sequence[Mapping[str, Any]], behind: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return who did not follow: a member, or the leader, whose HW waits for members."""
    named: dict[str, Any] = {}
    if behind:
        named = {"broker_id": behind[0]["broker_id"], "own_log_end": behind[0]["log_end_offset"]}
    elif awaited := _ending_at_hw(samples, quiet):
        named = {"broker_id": quiet.leader, "awaited": awaited, "t_ns": quiet.from_ns}
    at_rest = {"leader": quiet.leader, "isr": list(quiet.isr), "leader_hw": quiet.hw, "log_end_offset": quiet.leo}
    return {**at_rest, "members": members or None, **named}


def _quiet(samples: Samples, changes: Sequence[Change], effective_min_isr: int) -> Iterator[_Quiet]:
    ends = [*(change.received_ns for change in changes[1:]), FOREVER_NS]
    for change, until_ns in zip(changes, ends, strict=False):
        if len(change.isr) < effective_min_isr:
            continue
        led = samples.of_epoch(change.leader, change.leader_epoch).answered
        begin, end = np.searchsorted(led.received_ns, [change.received_ns, until_ns])
        own = led.take(slice(begin, end))
        own = own.take(own.sent_ns >= change.received_ns)
        yield from _still(own, change, until_ns)


def _still(own: Samples, change: Change, until_ns: int) -> Iterator[_Quiet]:
    if not len(own):
        return
    first = np.flatnonzero(np.concatenate([[True], own.leo[1:] != own.leo[:-1]]))
    last = np.append(first[1:], len(own)) - 1
    highest = np.maximum.reduceat(own.hw, first)
    reached = np.where(own.hw == own.leo, own.received_ns, FOREVER_NS)
    reached_ns = np.minimum.reduceat(reached, first)
    over_ns = np.append(own.received_ns[first[1:]], until_ns)
    # Followers' samples during the last answer may be newer.
    for n in np.flatnonzero(own.sent_ns[last] - own.received_ns[first] >= STRETCH_NS).tolist():
        yield _Quiet(
            change.leader,
            change.isr,
            int(own.received_ns[first[n]]),
            int(own.sent_ns[last[n]]),
            int(own.leo[first[n]]),
            int(highest[n]),
            None if reached_ns[n] == FOREVER_NS else int(reached_ns[n]),
            int(over_ns[n]),
        )


def _overlapping(outages: Sequence[Outage], quiet: _Quiet, whose: set[int | None]) -> bool:
    return any(
        outage.broker_id in whose and outage.from_ns <= quiet.to_ns and outage.until_ns >= quiet.from_ns
        for outage in outages
    )


def _last_of_members(
    samples: Samples, quiet: _Quiet, outages: Sequence[Outage], limit_ns: int
) -> Iterator[dict[str, int]]:
    """Yield in-sync followers' last samples; after an outage only if ``limit_ns`` has passed."""
    for broker_id in sorted(set(quiet.isr) - {quiet.leader}):
        back = [outage.until_ns for outage in outages if _overlapping([outage], quiet, {broker_id})]
        since_ns = max(back) + limit_ns if back else quiet.from_ns
        own = samples.of_broker(broker_id).answered
        begin = np.searchsorted(own.received_ns, since_ns)
        end = np.searchsorted(own.received_ns, quiet.to_ns, side="right")
        within = np.flatnonzero(own.sent_ns[begin:end] >= since_ns)
        if within.size:
            row = int(begin + within[-1])
            yield {
                "broker_id": broker_id,
                "high_watermark": int(own.hw[row]),
                "log_end_offset": int(own.leo[row]),
            }


def _ending_at_hw(samples: Samples, quiet: _Quiet) -> list[int]:
    if quiet.hw == quiet.leo:
        return []
    ending = []
    for broker in sorted(samples.rows_of_broker.keys() - set(quiet.isr)):
        own = samples.of_broker(broker).answered
        answered = int(np.searchsorted(own.received_ns, quiet.to_ns, side="right"))
        ending += [broker] if answered and own.leo[answered - 1] == quiet.hw else []
    return ending


def i26_stable_offset(evidence: PartitionEvidence) -> Checks:
    """I26 (C2, C43), transactional producers. Within one incarnation and epoch. Sound: the last stable offset is the
    smaller of HW and the first open transaction's offset, and HW never falls (I3). Within one reply HW is read first,
    so the two are not compared.
    """
    samples = evidence.samples
    before = samples.before
    violated = (samples.lso[before] > samples.hw) | (samples.lso < samples.log_start)
    asked = evidence.sampled_leaders & _follows(samples) & (samples.lso != NULL)
    return _compared(samples, asked, violated, last_stable_offset=samples.lso, high_watermark=samples.hw)
