"""Replicas' samples against the controller's own history: what leader and followers may show of HW and LEO.

Every check takes the good samples of one partition, in the order in which they were asked for, and ``Facts``. Sample A
is before sample B when A.received_ns <= B.sent_ns. A state of the history is trusted from ``SLACK_NS`` after its
beginning to ``SLACK_NS`` before its end: it is dated by the controller's wall clock, in milliseconds. Most of them
assume a clean topic (no unclean election, disks that survive): see ``checks``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from history.samples import Sample
from kafka_files.states import State
from spark.checks.invariants import SETTLE_NS, Outage
from spark.checks.tally import Check

SLACK_NS = 100_000_000
UNFENCED_NS = 2_000_000_000  # a follower that was fenced and lives may still move the high watermark so long


class Fault(NamedTuple):
    """A broker that was killed, stopped or paused: asked for, active, and healed."""

    broker_id: int
    asked_ns: int
    from_ns: int
    until_ns: int


@dataclass(frozen=True)
class Facts:
    """What is known of one partition beside its samples.

    ``starts`` maps a leader epoch to the offset where it begins; ``max_isr_lag_ns`` is the longest that a member of
    the ISR may lag;
    ``effective_min_isr`` is min(min.insync.replicas, replicas), the largest that was active, and ``lowest_min_isr``
    the smallest, where a step changed it; a state with fewer replicas needs no more than those (``at_most_all``). Below
    it HW stands still in all versions of the run (``strict_min_isr``), in none of them (``lax_min_isr``), or in some.
    """

    topic: str
    partition: int
    states: Sequence[State] = ()
    starts: Mapping[int, int] = field(default_factory=dict)
    faults: Sequence[Fault] = ()
    outages: Sequence[Outage] = ()
    max_isr_lag_ns: int = 45_000_000_000
    effective_min_isr: int = 1
    lowest_min_isr: int | None = None
    strict_min_isr: bool = True
    lax_min_isr: bool = False

    def check(self, t_ns: int | None, violated: bool, **evidence: Any) -> Check:
        return Check(self.topic, self.partition, t_ns, violated, evidence)

    @property
    def smallest_isr(self) -> int:
        """The ISR below which nothing may be committed, whatever min.insync.replicas was at the moment."""
        return self.effective_min_isr if self.lowest_min_isr is None else self.lowest_min_isr

    @property
    def dated(self) -> list[State]:
        """The states with a time, in order."""
        return [state for state in self.states if state.t_ns is not None]

    @property
    def leaders(self) -> dict[int, int]:
        """Who led which epoch."""
        return {state.leader_epoch: state.leader for state in self.states if state.leader >= 0}

    def disturbed(self, leader: int, from_ns: int, until_ns: int) -> bool:
        """Whether the leader or a controller may have been out of reach for a time: nobody need have been evicted."""
        overlapping = (outage for outage in self.outages if outage.from_ns <= until_ns and outage.until_ns >= from_ns)
        return any(outage.broker_id in {None, leader} for outage in overlapping)

    def stretches(self) -> Iterator[tuple[State, int, int]]:
        """Every state with the time in which it certainly held."""
        dated = self.dated
        for state, following in zip(dated, [*dated[1:], None], strict=False):
            until = 2**63 - 1 if following is None else (following.t_ns or 0) - SLACK_NS
            yield state, (state.t_ns or 0) + SLACK_NS, until


def at_most_all(effective_min_isr: int, state: State) -> int:
    """min.insync.replicas as it is active in a state: all replicas are enough, and ``reassign`` changes how many."""
    return min(effective_min_isr, len(state.replicas) or effective_min_isr)


def i4_follower_falls_once(samples: Sequence[Sample], facts: Facts) -> Iterator[Check]:
    """I4, all versions, clean topics; serves C11 and C46. A replica's HW falls at most once within one epoch and life.

    Sound because a follower sets its HW to the leader's, which never falls within an epoch (I3): only the first answer
    of the epoch's leader may lie below what the follower knew before, a new leader's HW being allowed to lag. A cut of
    the log cannot lower the HW further, as no clean cut goes below it (I6).
    """
    last: dict[tuple[int, int | None, int], Sample] = {}
    falls: dict[tuple[int, int | None, int], list[Sample]] = {}
    for sample in samples:
        life = sample.broker, sample.incarnation, sample.epoch
        before = last.get(life)
        if before is None:
            last[life] = sample
        elif before.received_ns <= sample.sent_ns:
            fallen = falls.setdefault(life, [])
            if sample.hw < before.hw:
                fallen.append(sample)
            last[life] = sample
    for (broker_id, incarnation, leader_epoch), fallen in falls.items():
        yield facts.check(
            fallen[1].received_ns if len(fallen) > 1 else None,
            len(fallen) > 1,
            broker_id=broker_id,
            incarnation=incarnation,
            leader_epoch=leader_epoch,
            fell_to=[sample.hw for sample in fallen],
            at_ns=[sample.received_ns for sample in fallen],
        )


def i7_isr_covers_hw(samples: Sequence[Sample], facts: Facts) -> Iterator[Check]:
    """I7, all versions, clean topics; serves C1, C4, C6 and C10. A member of the ISR holds all that a leader showed.

    For every HW that a leader showed before, a sample of a replica asked while the controller's history has it in the
    ISR has LEO >= HW. Sound across epochs: HW waits for every member, and joining the ISR takes LEO >= HW.
    """
    leaders, stretches = facts.leaders, list(facts.stretches())
    begins = [from_ns for _, from_ns, _ in stretches]
    top: Sample | None = None
    for answered, sample in _interleaved(samples):
        if answered:
            leads = leaders.get(sample.epoch) == sample.broker
            if leads and (top is None or sample.hw > top.hw):
                top = sample
            continue
        at = bisect_right(begins, sample.sent_ns) - 1
        if at < 0 or top is None or sample.sent_ns > stretches[at][2]:
            continue
        state = stretches[at][0]
        if sample.broker in state.isr and sample.broker != top.broker:
            yield facts.check(
                sample.received_ns,
                sample.leo < top.hw,
                broker_id=sample.broker,
                log_end_offset=sample.leo,
                isr=sorted(state.isr),
                partition_epoch=state.partition_epoch,
                leader=top.broker,
                leader_epoch=top.epoch,
                leader_hw=top.hw,
                leader_hw_ns=top.received_ns,
                leo_ns=sample.received_ns,
            )


def i9_follower_below_leader(samples: Sequence[Sample], facts: Facts) -> Iterator[Check]:
    """I9, all versions, clean topics; serves C11, C21 and C47. No follower's HW is ahead of its leader's.

    A follower's HW in epoch E that lies above E's start came from E's leader, because every HW of an earlier epoch lies
    at or below that start (I8): so a later sample of the leader in E shows at least as much.
    """
    leaders = facts.leaders
    tops: dict[int, Sample] = {}
    for answered, sample in _interleaved(samples):
        epoch = sample.epoch
        leads, start = leaders.get(epoch) == sample.broker, facts.starts.get(epoch)
        if epoch not in leaders or start is None:
            continue
        if answered and not leads and sample.hw > start:
            if epoch not in tops or sample.hw > tops[epoch].hw:
                tops[epoch] = sample
        elif not answered and leads and epoch in tops:
            top = tops[epoch]
            yield facts.check(
                sample.received_ns,
                top.hw > sample.hw,
                leader=sample.broker,
                leader_epoch=epoch,
                leader_hw=sample.hw,
                follower=top.broker,
                follower_hw=top.hw,
                follower_hw_ns=top.received_ns,
                leader_hw_ns=sample.received_ns,
                epoch_start=start,
            )


def i11_frozen_below_min_isr(samples: Sequence[Sample], facts: Facts) -> Iterator[Check]:
    """I11, from 3.7.0 (KAFKA-15583, KIP-966), min.insync.replicas > 1; serves C4, C18 and C48.

    While the ISR is smaller than min(min.insync.replicas, replicas), the leader's HW stands still. Checked on each
    state of the controller's history, but for its first two seconds, in which a follower that is fenced and lives may
    still move it. Up to 3.6 HW goes on: then ``hw_below_min_isr`` tells it as a change of behaviour.
    """
    if facts.strict_min_isr:
        yield from _below_min_isr(samples, facts)


def hw_below_min_isr(samples: Sequence[Sample], facts: Facts) -> Iterator[Check]:
    """What I11 forbids from 3.7.0 and is by design before: HW moves while the ISR is below min.insync.replicas."""
    if facts.lax_min_isr:
        yield from _below_min_isr(samples, facts)


def _below_min_isr(samples: Sequence[Sample], facts: Facts) -> Iterator[Check]:
    for state, since_ns, until_ns in facts.stretches():
        effective_min_isr = at_most_all(facts.smallest_isr, state)
        if len(state.isr) >= effective_min_isr or state.leader < 0:
            continue
        shown = [
            sample
            for sample in _of_leader(samples, state)
            if sample.sent_ns >= since_ns - SLACK_NS + UNFENCED_NS and sample.received_ns <= until_ns
        ]
        if len(shown) > 1:
            low = min(shown, key=lambda sample: sample.hw)
            high = max(shown, key=lambda sample: sample.hw)
            yield facts.check(
                high.received_ns,
                high.hw > low.hw,
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                isr=sorted(state.isr),
                effective_min_isr=effective_min_isr,
                from_hw=low.hw,
                to_hw=high.hw,
                samples=len(shown),
            )


def short_of_members(facts: Facts) -> Iterator[tuple[State, int, int]]:
    """The stretches in which a leader's ISR was below min.insync.replicas, it and the controllers being in reach."""
    for state, since_ns, until_ns in facts.stretches():
        short = state.leader >= 0 and len(state.isr) < at_most_all(facts.smallest_isr, state)
        if short and not facts.disturbed(state.leader, since_ns, until_ns):
            yield state, since_ns, until_ns


def i22_hw_reaches_epoch_start(samples: Sequence[Sample], facts: Facts) -> Iterator[Check]:
    """I22, all versions, clean topics, timed; serves C12. A new leader's HW soon reaches its epoch's start.

    Once every member of the ISR has fetched, HW >= the offset where the epoch began. A member that has stopped
    fetching holds it back until it is evicted, so a lower HW is a violation only where one state of the history lasted
    longer than that eviction and the settling time, the leader and the controllers being in reach; from 3.7 only with
    an ISR of at least min.insync.replicas.
    """
    first = min(facts.leaders, default=0)
    for epoch, leader in facts.leaders.items():
        start = facts.starts.get(epoch)
        shown = [sample for sample in samples if (sample.broker, sample.epoch) == (leader, epoch)]
        if start is None or epoch == first or not shown:
            continue
        reached = any(sample.hw >= start for sample in shown)
        late = None if reached else _late(shown, epoch, facts)
        if reached or late is not None:
            yield facts.check(
                late.received_ns if late else None,
                not reached,
                leader=leader,
                leader_epoch=epoch,
                epoch_start=start,
                high_watermark=max(sample.hw for sample in shown),
            )


def _late(shown: Sequence[Sample], epoch: int, facts: Facts) -> Sample | None:
    """The first sample taken when the high watermark had had time enough."""
    needed = 0 if facts.lax_min_isr else facts.effective_min_isr
    for state, since_ns, until_ns in facts.stretches():
        if state.leader_epoch == epoch and len(state.isr) >= at_most_all(needed, state):
            for sample in shown:
                long = since_ns + facts.max_isr_lag_ns + SETTLE_NS < sample.sent_ns and sample.received_ns < until_ns
                if long and not facts.disturbed(state.leader, since_ns, sample.received_ns):
                    return sample
    return None


def i23_evicted_in_time(samples: Sequence[Sample], facts: Facts) -> Iterator[Check]:
    """I23, all versions, timed; serves C16, C17 and C38. With traffic a follower that stopped leaves the ISR in time.

    That is within 1.5 x replica.lag.time.max.ms (or its session, if that ends sooner), plus a settling time. Violated
    only where the leader stayed the same, answered, and took three different log ends within the first second: a
    stopped follower whose LEO equals the leader's is never evicted by lag. Nor is one while no controller acts, or none
    is in the leader's reach.
    """
    limit_ns = facts.max_isr_lag_ns + SETTLE_NS
    for fault in facts.faults:
        before = [state for state in facts.dated if (state.t_ns or 0) <= fault.asked_ns]
        if not before or fault.broker_id not in before[-1].isr or fault.broker_id == before[-1].leader:
            continue
        later = [state for state in facts.dated if (state.t_ns or 0) > fault.asked_ns]
        left = next((state for state in later if fault.broker_id not in state.isr), None)
        taken_ns = None if left is None else (left.t_ns or 0) - fault.from_ns
        in_time = taken_ns is not None and taken_ns <= limit_ns
        disturbed = facts.disturbed(before[-1].leader, fault.asked_ns, fault.from_ns + limit_ns)
        if in_time or (not disturbed and _had_to_go(samples, before[-1], fault, limit_ns, later)):
            yield facts.check(
                fault.from_ns,
                not in_time,
                broker_id=fault.broker_id,
                isr=sorted(before[-1].isr),
                stopped_ns=fault.from_ns,
                taken_ms=None if taken_ns is None else taken_ns // 1_000_000,
                limit_ms=limit_ns // 1_000_000,
            )


def _had_to_go(samples: Sequence[Sample], state: State, fault: Fault, limit_ns: int, later: Sequence[State]) -> bool:
    until_ns = fault.from_ns + limit_ns
    led = [s for s in _of_leader(samples, state) if fault.from_ns <= s.sent_ns and s.received_ns <= until_ns]
    early = {sample.leo for sample in led if sample.sent_ns <= fault.from_ns + 1_000_000_000}
    same = all(each.leader == state.leader for each in later if (each.t_ns or 0) <= until_ns)
    lasting = bool(led) and led[-1].received_ns >= until_ns - 1_000_000_000
    return fault.until_ns >= until_ns and same and lasting and len(early) >= 3


def i24_caught_up_at_join(samples: Sequence[Sample], facts: Facts) -> Iterator[Check]:
    """I24, all versions (KAFKA-7128), clean topics; serves C15, C24 and C38.

    A replica that joins the ISR has LEO >= the leader's HW of the moment and >= the start of the leader's epoch. Seen
    in the replica's first sample after the join, within the same state: it does not truncate while it is a member.
    """
    for (before, after), (_, since_ns, until_ns) in zip(
        pairwise(facts.dated), list(facts.stretches())[1:], strict=True
    ):
        joined = set(after.isr) - set(before.isr)
        if after.leader < 0 or before.leader != after.leader:
            continue
        shown = [s.hw for s in _of_leader(samples, after) if s.received_ns <= (after.t_ns or 0)]
        floor = max([*shown, facts.starts.get(after.leader_epoch, 0)])
        for broker_id in sorted(joined):
            seen = next((s for s in samples if s.broker == broker_id and s.sent_ns >= since_ns), None)
            if seen is not None and seen.received_ns <= until_ns:
                yield facts.check(
                    seen.received_ns,
                    seen.leo < floor,
                    broker_id=broker_id,
                    log_end_offset=seen.leo,
                    floor=floor,
                    leader=after.leader,
                    leader_epoch=after.leader_epoch,
                    partition_epoch=after.partition_epoch,
                )


def _of_leader(samples: Sequence[Sample], state: State) -> list[Sample]:
    asked = state.leader, state.leader_epoch
    return [sample for sample in samples if (sample.broker, sample.epoch) == asked]


def _interleaved(samples: Sequence[Sample]) -> Iterator[tuple[bool, Sample]]:
    """Every sample twice, in time: as asked for (False) and as answered (True); an answer precedes a question of the
    same nanosecond, as "before" is defined.
    """
    moments = [(s.received_ns, 0, n) for n, s in enumerate(samples)] + [
        (s.sent_ns, 1, n) for n, s in enumerate(samples)
    ]
    for _, asked, n in sorted(moments):
        yield not asked, samples[n]


CHECKS = {
    "I4": i4_follower_falls_once,
    "I7": i7_isr_covers_hw,
    "I9": i9_follower_below_leader,
    "I11": i11_frozen_below_min_isr,
    "I22": i22_hw_reaches_epoch_start,
    "I23": i23_evicted_in_time,
    "I24": i24_caught_up_at_join,
}
ON_ALL_TOPICS = {"I11", "I23"}  # whatever a leader lacks: it waits, and evicts, as any other


def checks(*, clean: bool) -> dict[str, Callable[[Sequence[Sample], Facts], Iterator[Check]]]:
    """The checks that hold on a topic of which nothing committed may be missing, or on any."""
    return {name: check for name, check in CHECKS.items() if clean or name in ON_ALL_TOPICS}
