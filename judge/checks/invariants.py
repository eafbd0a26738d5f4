"""The invariants of the replicas; docs/checks.md and the mutations' completeness follow from this table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from evidence.columns import FINAL
from evidence.facts import FOREVER_NS
from evidence.partition import PartitionEvidence
from evidence.samples import Looks
from evidence.sources import GROUP, SHARE, Gaps, counted, sources
from history.partition import TopicPartition
from history.words import in_words
from judge.checks import (
    agreement,
    elections,
    exactly_once,
    groups,
    isr_changes,
    log_content,
    readers,
    replicas,
    shares,
    watermarks,
)
from judge.checks.findings import Checks, Findings, Tally


class Required(Enum):
    """Whether an unchecked invariant is unknown."""

    ALWAYS = "always"
    WITH_HISTORY = "if the run has a controller, or clients on a cluster of others"
    NEVER = "never: it is about something that need not happen"


class Invariant(NamedTuple):
    """An invariant and the functions that check it on one partition.

    ``applies``: it holds (``clean``: only on clean topics);
    ``occasion``: something that it concerns happened, so that ``required`` decides. ``reads``: needed for a pass;
    ``whole``: a gap could look like a violation. ``windowed``: it checks each window of samples, not what is left of
    all. ``moments``: times at which it compares samples.
    """

    title: str
    checks: tuple[Callable[[PartitionEvidence], Checks], ...]
    reads: frozenset[str]
    whole: frozenset[str] = frozenset()
    severity: str = "S1"
    required: Required = Required.WITH_HISTORY
    clean: bool = False
    applies: Callable[[PartitionEvidence], bool] = lambda _: True
    occasion: Callable[[PartitionEvidence], bool] = lambda _: True
    windowed: bool = False
    moments: Callable[[PartitionEvidence], Iterable[int]] = lambda _: ()


def _followed(of: PartitionEvidence) -> bool:
    """Return whether a leader may have had a follower."""
    return not of.states or len(of.assigned) > 1 or any(len(state.replicas) != 1 for state in of.states)


def _in_group(of: PartitionEvidence) -> bool:
    return of.group is not None


def _in_share(of: PartitionEvidence) -> bool:
    return of.share is not None


def _epochs_changed(of: PartitionEvidence) -> bool:
    return len(of.leader_epochs) > 1


def _sampled_before_a_change(of: PartitionEvidence) -> bool:
    sampled = of.samples.with_epoch.epoch
    return bool(sampled.size) and int(sampled.min()) < max(of.leader_epochs)


def _written(of: PartitionEvidence) -> bool:
    return bool(np.any(of.samples.hw > of.log_start))


def _drained(of: PartitionEvidence) -> bool:
    return bool(np.any(of.polls.pass_ == FINAL))


INVARIANTS = {
    "I1": Invariant(
        "0 <= log start <= high watermark on every replica",
        (replicas.i1_bounds,),
        reads=sources("replicas", "followers"),
        required=Required.ALWAYS,
        windowed=True,
    ),
    "I2": Invariant(
        "high watermark <= log end on every replica",
        (replicas.i2_hw_below_leo,),
        reads=sources("replicas", "followers"),
        required=Required.ALWAYS,
        windowed=True,
    ),
    "I3": Invariant(
        "a leader's high watermark and log end never fall within its epoch",
        (replicas.i3_leader_monotonic,),
        reads=sources("replicas", "isr"),
        required=Required.ALWAYS,
        windowed=True,
    ),
    "I4": Invariant(
        "a replica's high watermark falls at most once within an epoch",
        (watermarks.i4_follower_falls_once,),
        reads=sources("replicas", "followers", "starts"),
        whole=sources("starts"),
        clean=True,
    ),
    "I6": Invariant(
        "no replica's log end falls below a high watermark that it has shown",
        (replicas.i6_own_floor,),
        reads=sources("replicas", "followers"),
        required=Required.ALWAYS,
        clean=True,
        windowed=True,
    ),
    "I7": Invariant(
        "every member of the ISR holds all that a leader has shown as committed",
        (watermarks.i7_isr_covers_hw,),
        reads=sources("replicas", "followers", "dates"),
        whole=sources("dates"),
        clean=True,
        applies=_followed,
        windowed=True,
    ),
    "I8": Invariant(
        "a new leader's log starts its epoch at or above every earlier high watermark",
        (replicas.i8_leader_completeness,),
        reads=sources("replicas", "epoch files"),
        required=Required.ALWAYS,
        clean=True,
        applies=_epochs_changed,
        occasion=_sampled_before_a_change,
    ),
    "I9": Invariant(
        "no follower's high watermark is ahead of its leader's",
        (watermarks.i9_follower_below_leader,),
        reads=sources("replicas", "followers", "epoch files", "history"),
        clean=True,
        applies=_followed,
        occasion=_written,
        windowed=True,
    ),
    "I10": Invariant(
        "without produce the high watermark reaches the log end on every in-sync replica",
        (replicas.i10_quiescence,),
        reads=sources("replicas", "followers", "isr", "dates"),
        whole=sources("replicas", "dates"),
        required=Required.ALWAYS,
        windowed=True,
        moments=replicas.i10_moments,
    ),
    "I11": Invariant(
        "below min.insync.replicas the high watermark stands still",
        (watermarks.i11_frozen_below_min_isr,),  # even a leader that lacks records must wait
        reads=sources("replicas", "isr", "dates", "server logs"),
        whole=sources("dates", "server logs"),
        required=Required.NEVER,
        moments=watermarks.i11_moments,
    ),
    "I12": Invariant(
        "below their high watermarks all replicas hold the same bytes",
        (agreement.i12_committed_prefix,),
        reads=sources("segments", "offsets"),
        required=Required.NEVER,
        clean=True,
        applies=lambda of: bool(of.replicas),
    ),
    "I13": Invariant(
        "a batch of one offset and epoch, and all before it, is the same on every replica",
        (agreement.i13_log_matching,),
        reads=sources("segments"),
        required=Required.NEVER,
    ),
    "I14": Invariant(
        "leader epochs go up, and each batch carries the one of its replica's epoch file",
        (
            agreement.i14_epoch_of_batch,
            agreement.i14_epoch_files,
        ),
        reads=sources("segments", "epoch files", "offsets"),
        required=Required.NEVER,
    ),
    "I15": Invariant(
        "a record acknowledged with acks=all is on every replica of the final ISR",
        (log_content.i15_durability,),
        reads=sources("sends", "segments", "offsets", "isr"),
        whole=sources("isr"),
        clean=True,
        applies=lambda of: of.kept and log_content.is_promised(of),
    ),
    "I16": Invariant(
        "the final log has every record that a consumer read",
        (log_content.i16_no_phantom_read,),
        reads=sources("polls", "segments", "offsets", "history"),
        whole=sources("history"),
        clean=True,
        applies=lambda of: of.kept and log_content.is_readable(of),
    ),
    "I17": Invariant(
        "an idempotent producer's sequence numbers follow one another",
        (agreement.i17_sequences,),
        reads=sources("segments", "offsets", "history"),
        whole=sources("history"),
        required=Required.NEVER,
        clean=True,
        applies=lambda of: of.idempotent,
    ),
    "I19": Invariant(
        "a leader epoch has one leader",
        (elections.i19_one_leader_per_epoch,),
        reads=sources("history", "server logs", "isr"),
    ),
    "I20": Invariant(
        "a new leader comes from the ISR, first in the assignment's order",
        (elections.i20_clean_election,),
        reads=sources("history"),
        required=Required.NEVER,
        clean=True,
    ),
    "I21": Invariant(
        "leader, ISR, ELR and epochs make sense in the controller's own history",
        (elections.i21_history_in_order,),
        reads=sources("history"),
    ),
    "I22": Invariant(
        "a new leader's high watermark soon reaches its epoch's start",
        (watermarks.i22_hw_reaches_epoch_start,),
        reads=sources("replicas", "epoch files", "dates"),
        whole=sources("epoch files", "dates"),
        severity="S2",
        required=Required.NEVER,
        clean=True,
        moments=watermarks.i22_moments,
    ),
    "I23": Invariant(
        "a follower that stopped leaves the ISR in time",
        (watermarks.i23_evicted_in_time,),
        reads=sources("replicas", "dates"),
        whole=sources("dates"),
        severity="S2",
        required=Required.NEVER,
        moments=watermarks.i23_moments,
    ),
    "I24": Invariant(
        "a replica that joins the ISR has caught up with the high watermark",
        (watermarks.i24_caught_up_at_join,),
        reads=sources("replicas", "followers", "epoch files", "dates"),
        whole=sources("epoch files", "dates"),
        required=Required.NEVER,
        clean=True,
        moments=watermarks.i24_moments,
    ),
    "I25": Invariant(
        "a boot takes its high watermark from its checkpoint, within its own log",
        (elections.i25_boot_high_watermark,),
        reads=sources("server logs", "offsets", "checkpoints"),
        clean=True,
    ),
    "I26": Invariant(
        "log start <= last stable offset <= every later high watermark of the same leader",
        (replicas.i26_stable_offset,),
        reads=sources("sends", "replicas", "isr"),  # of transactional producers
        required=Required.ALWAYS,
        applies=lambda of: of.run.transactional,
        windowed=True,
    ),
    "I27": Invariant(
        "every log ends a transaction's records with the marker of its outcome",
        (log_content.i27_markers,),
        reads=sources("sends", "segments"),
        clean=True,
        applies=lambda of: of.run.transactional,
        occasion=lambda of: log_content.committed(of).size > 0,
    ),
    "I28": Invariant(
        "below min.insync.replicas nothing is acknowledged with acks=all",
        (log_content.i28_enough_replicas,),
        reads=sources("sends", "segments", "isr", "dates", "server logs"),
        whole=sources("dates", "server logs"),
        required=Required.NEVER,
        applies=lambda of: bool(of.short),
    ),
    "I29": Invariant(
        "a new owner in a consumer group skips no record behind the committed offset",
        (groups.i29_starts_at_committed,),
        reads=sources(*GROUP, "polls"),
        whole=GROUP,
        required=Required.NEVER,
        clean=True,
        applies=_in_group,
    ),
    "I30": Invariant(
        "a new owner in a consumer group reads again only what was not committed",
        (groups.i30_rereads_uncommitted_only,),
        reads=sources(*GROUP),
        required=Required.NEVER,
        clean=True,
        applies=_in_group,
    ),
    "I31": Invariant(
        "the committed offset of a consumer group never falls",
        (groups.i31_commits_never_fall,),
        reads=sources(*GROUP),
        required=Required.NEVER,
        clean=True,
        applies=_in_group,
    ),
    "I32": Invariant(
        "a partition has one owner in a consumer group",
        (groups.i32_one_owner,),
        reads=sources(*GROUP),
        required=Required.NEVER,
        clean=True,
        applies=_in_group,
    ),
    "I33": Invariant(
        "a record that a share group accepted is not delivered again",
        (shares.i33_accepted_for_good,),
        reads=sources(*SHARE, "polls"),
        required=Required.ALWAYS,
        clean=True,
        applies=_in_share,
        occasion=_drained,
    ),
    "I34": Invariant(
        "a record in a share group has one holder until its lock runs out",
        (shares.i34_one_holder,),
        reads=sources(*SHARE),
        required=Required.NEVER,
        clean=True,
        applies=_in_share,
    ),
    "I35": Invariant(
        "a record in a share group is delivered no more often than its limit",
        (shares.i35_delivery_limit,),
        reads=sources(*SHARE, "polls"),
        required=Required.ALWAYS,
        clean=True,
        applies=_in_share,
        occasion=_drained,
    ),
    "I36": Invariant(
        "the delivery count of a record in a share group grows with each delivery",
        (shares.i36_deliveries_counted,),
        reads=sources(*SHARE),
        required=Required.NEVER,
        clean=True,
        applies=_in_share,
    ),
    "I37": Invariant(
        "every live reader comes to the end of what it may read",
        (readers.i37_readers_reach_the_end, shares.i37_nothing_left),
        reads=sources("positions", "rest", "polls", *GROUP, *SHARE),
        whole=sources("positions", *GROUP, *SHARE),
        required=Required.ALWAYS,
        applies=lambda of: of.readers is not None,
    ),
    "I38": Invariant(
        "an ISR change that a leader proposes comes to an end",
        (isr_changes.i38_isr_changes_end,),
        reads=sources("server logs", "dates"),
        whole=sources("server logs", "dates"),
        severity="S2",
        required=Required.NEVER,
        applies=lambda of: any(line["kind"] == "isr_shrinking" for line in of.lines),
    ),
}


def check_window(of: PartitionEvidence, findings: Findings) -> None:
    """Check the windowed invariants that apply to a partition, on one window of its samples."""
    _check(of, findings, windowed=True)


def check(of: PartitionEvidence, findings: Findings) -> None:
    """Check all others that apply, after the last window; note those that checked nothing."""
    _check(of, findings, windowed=False)
    for name, invariant in INVARIANTS.items():
        if _applies(invariant, of) and not findings.tallies[name].checked and invariant.occasion(of):
            findings.unchecked.add(name)


def _check(of: PartitionEvidence, findings: Findings, *, windowed: bool) -> None:
    for name, invariant in INVARIANTS.items():
        if invariant.windowed is windowed and _applies(invariant, of):
            for each in invariant.checks:
                findings.add_checks(of.where, name, each(of))


def _applies(invariant: Invariant, of: PartitionEvidence) -> bool:
    return (of.clean or not invariant.clean) and invariant.applies(of)


def looks(of: PartitionEvidence) -> Looks:
    """Return what checks look at after the last window; ``of`` has no samples yet."""
    moments = {moment for each in INVARIANTS.values() if _applies(each, of) for moment in each.moments(of)}
    moments |= {moment for span in of.run.spans for moment in (span.from_ns, span.to_ns)}
    moments |= {new.t_ns for new in of.new_logs}
    return Looks(
        moments=np.array([min(moment, FOREVER_NS) for moment in sorted(moments)], dtype=np.int64),
        spans=[(stop.from_ns, stop.from_ns + 1_000_000_000) for stop in of.stops],  # I23 counts log end offsets
        levels=np.sort(exactly_once.repeated(of)),
        standing_ns=of.run.transaction_limit_ns if of.run.transactional else FOREVER_NS,
    )


class Verdict(NamedTuple):
    """One partition's result, with why it is undecided or unproven."""

    tally: Tally
    left_open: str | None = None
    doubt: str | None = None


def verdict(where: TopicPartition, name: str, found: Findings, gaps: Gaps, *, requires_history: bool) -> Verdict:
    """Return one partition's result for an applicable invariant."""
    invariant, tally = INVARIANTS[name], found.tallies[name]
    left_open = gaps.of(invariant.reads, where)
    required = {Required.ALWAYS, Required.WITH_HISTORY} if requires_history else {Required.ALWAYS}
    if left_open is None and invariant.required in required and name in found.unchecked:
        left_open = f"nothing that was recorded of {where} could be checked"
    return Verdict(tally, left_open, gaps.of(invariant.whole, where) if tally.violations else None)


def row(name: str, found: Iterable[Verdict], origin_ns: int | None = None) -> dict[str, Any] | None:
    """Return a row of ``history.tables.INVARIANTS``; None if no check was made or required."""
    total, proven, whys = Tally(), Tally(), list[str]()
    for each in found:
        total.add(each.tally.checked, each.tally.violations, each.tally.first)
        if each.doubt is None:
            proven.add(0, each.tally.violations, each.tally.first)
        if why := each.doubt or each.left_open:
            whys.append(why)
    if not (total.checked or whys):
        return None
    state, reason, evidence, first_on = "pass", None, None, None
    if proven.first:
        _, where, evidence = proven.first
        first_on = str(where)
        state, reason = "fail", f"first violation on {where}: {in_words(json.loads(evidence), origin_ns)}"
    elif whys:
        state, reason = "unknown", counted(whys, "partition")
        evidence = total.first[2] if total.first else None
    return {
        "invariant": name,
        "title": INVARIANTS[name].title,
        "severity": INVARIANTS[name].severity,
        "checked": total.checked,
        "violations": total.violations,
        "verdict": state,
        "reason": reason,
        "evidence": evidence,
        "first_on": first_on,
        "known_bug": "",
    }
