"""Claims about elections: the next leader, and the replicas' logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from claims.answer import Answer, Evidence, refuted, shown, unseen
from claims.moments import Change, leader_changes
from claims.recording import SECOND_NS, Recording, Sample
from history.partition import TopicPartition
from history.words import counted

NO_CHANGE = "No partition got another leader."


def _lines(recording: Recording, kind: str, where: TopicPartition, broker: int) -> list[Mapping[str, Any]]:
    return [
        line
        for line in recording.lines
        if line["kind"] == kind and line["broker_id"] == broker and (line["topic"], line["partition"]) == where
    ]


def _leader_started(recording: Recording, where: TopicPartition, epoch: int) -> Mapping[str, Any] | None:
    starts = (line for line in recording.lines if line["kind"] == "leader_started")
    own = (line for line in starts if (line["topic"], line["partition"]) == where)
    return next((line for line in own if line["leader_epoch"] == epoch), None)


def new_leader_has_what_was_visible(recording: Recording) -> Answer:
    """Answer C6."""
    evidence: list[Evidence] = []
    count = 0
    for change in leader_changes(recording):
        if change.after.leader not in change.before.isr:
            return refuted("A leader came from outside the ISR.", _both(recording, change))
        start = _leader_started(recording, change.where, change.after.leader_epoch)
        earlier = [s for s in recording.samples.get(change.where, ()) if s.epoch < change.after.leader_epoch]
        if start is None or not earlier:
            continue
        visible = max(earlier, key=lambda s: s.hw)
        if start["log_end_offset"] < visible.hw:
            return refuted(
                "A new leader's log ended below what had been visible.",
                [recording.saw(change.where, visible), recording.said(start)],
            )
        count += 1
        evidence = evidence or [
            recording.saw(change.where, visible, ", the highest HW before"),
            *_both(recording, change),
            recording.said(start),
        ]
    if not count:
        return unseen(NO_CHANGE)
    return shown(
        f"In {count} elections the new leader was in the ISR and its log reached every HW seen before.", evidence
    )


def _both(recording: Recording, change: Change) -> list[Evidence]:
    return [recording.decided(change.before), recording.decided(change.after)]


class Survivor(NamedTuple):
    """A follower that got another leader, and where it truncated before the next one."""

    where: TopicPartition
    started: Mapping[str, Any]
    cut: Mapping[str, Any] | None
    leads: Mapping[str, Any] | None


def _cut_at(hw: int, cut: Mapping[str, Any] | None, leads: Mapping[str, Any] | None) -> bool | None:
    """Return None if the leader's log also ends at HW."""
    if cut is None or cut["log_end_offset"] > hw:
        return False
    return True if leads and leads["log_end_offset"] > hw else None


def _survivors(recording: Recording) -> Iterator[Survivor]:
    for change in leader_changes(recording):
        if change.before.leader in change.after.isr:
            continue
        for broker in change.after.replicas:
            starts = _lines(recording, "follower_started", change.where, broker)
            own = [line for line in starts if line["leader_epoch"] == change.after.leader_epoch]
            boots = _lines(recording, "log_loaded", change.where, broker)
            if broker in (change.after.leader, change.before.leader) or not own:
                continue
            if any((change.before.t_ns or 0) < boot["t_ns"] <= own[0]["t_ns"] for boot in boots):
                continue  # it restarted, which is another claim
            until_ns = min(
                (line["t_ns"] for line in starts if line["leader_epoch"] > change.after.leader_epoch), default=2**63
            )
            cuts = [
                c
                for c in _lines(recording, "truncating", change.where, broker)
                if own[0]["t_ns"] <= c["t_ns"] < until_ns
            ]
            cuts = [c for c in cuts if c["log_end_offset"] < own[0]["log_end_offset"]]
            leads = _leader_started(recording, change.where, change.after.leader_epoch)
            yield Survivor(change.where, own[0], cuts[0] if cuts else None, leads)


def followers_first_cut_to_their_hw(recording: Recording) -> Answer:
    """Answer C26."""
    above = [s for s in _survivors(recording) if s.started["log_end_offset"] > s.started["high_watermark"]]
    told = [(s, _cut_at(s.started["high_watermark"], s.cut, s.leads)) for s in above]
    # A log cut above its HW is the stronger evidence.
    kept = sorted((s for s, at_hw in told if at_hw is False), key=lambda s: s.cut is None)
    if kept:
        first = kept[0]
        cut = sum(s.cut is not None for s in kept)
        diverged = f"; {cut} cut only what the new leader's log lacked" if cut else ""
        return refuted(
            f"{counted(len(kept), 'follower')} had records above their HW when they got a new leader, and kept "
            f"some{diverged}.",
            [
                *([recording.said(first.leads)] if first.leads else []),
                recording.said(first.started),
                *([recording.said(first.cut)] if first.cut else []),
                *_still_there(recording, first),
            ],
        )
    if cuts := [s.cut for s, at_hw in told if at_hw and s.cut]:
        return shown(
            "Every follower with records above its HW cut them, though its new leader had more.",
            [recording.said(line) for line in cuts],
        )
    return unseen("No follower had records above its HW when it got a new leader whose log reached beyond that HW.")


def _still_there(recording: Recording, survivor: Survivor) -> list[Evidence]:
    own = recording.of(survivor.where, survivor.started["broker_id"])
    since = (survivor.cut or survivor.started)["t_ns"]
    after = next((s for s in own if s.sent_ns > since), None)
    return [recording.saw(survivor.where, after, ", afterwards")] if after else []


def alike_but_not_without_loss(recording: Recording) -> Answer:
    """Answer C27."""
    read = {(poll["producer_id"], poll["seq"]) for poll in recording.final}
    if not read:
        return unseen("No final drain read everything.")
    lost = [s for s in recording.sends if s["outcome"] == "ok" and (s["producer_id"], s["seq"]) not in read]
    kept_all = [s for s in recording.sends if s["outcome"] == "ok" and s["acks"] == "all"]
    lost_all = [s for s in lost if s["acks"] == "all"]
    if not lost:
        return unseen("Nothing that was acknowledged was lost, and no run shows that nothing ever is.")
    return shown(
        f"{len(lost) - len(lost_all)} records acknowledged with acks=1 are lost, and {len(lost_all)} of "
        f"{len(kept_all):,} acknowledged with acks=all.",
        [recording.sent(send) for send in lost],
    )


def replicas_nominate_themselves(recording: Recording) -> Answer:
    """Answer C34."""
    preferred: list[list[Evidence]] = []
    for change in leader_changes(recording):
        elected = _leader_started(recording, change.where, change.after.leader_epoch)
        if change.before.leader in change.after.isr or elected is None:
            continue  # an old leader made way for the preferred one: no candidates competed
        for other in _began_to_follow(recording, change):
            evidence = [recording.said(elected), recording.said(other), *_both(recording, change)]
            if other["log_end_offset"] > elected["log_end_offset"]:
                return refuted(
                    f"Broker {elected['broker_id']} was elected with LEO {elected['log_end_offset']}, though broker "
                    f"{other['broker_id']}, also in the ISR, had {other['log_end_offset']}: the controller takes the "
                    "first in the assignment's order.",
                    evidence,
                )
            order = change.after.replicas
            earlier = order.index(other["broker_id"]) < order.index(change.after.leader)
            if earlier and other["log_end_offset"] < elected["log_end_offset"]:
                preferred.append(evidence)
    if preferred:
        return shown(
            f"{counted(len(preferred), 'time')} a member of the ISR was passed over for one with more data that comes "
            "later in the assignment.",
            preferred[0],
        )
    return unseen("No leader failed whose followers in the ISR had different logs.")


def _began_to_follow(recording: Recording, change: Change) -> Iterator[Mapping[str, Any]]:
    """The first line's LEO precedes the first fetch."""
    for member in set(change.after.isr) & set(change.before.isr) - {change.after.leader}:
        starts = _lines(recording, "follower_started", change.where, member)
        yield from [line for line in starts if line["leader_epoch"] == change.after.leader_epoch][:1]


def first_live_member_in_order_leads(recording: Recording) -> Answer:
    """Answer C35."""
    if another := recording.against("I20"):
        return refuted("Another than the first member of the ISR was elected.", another)
    changes = [change for change in leader_changes(recording) if not change.after.recovering]
    if not changes:
        return unseen(NO_CHANGE)
    return shown(f"In all {len(changes)} elections.", [e for c in changes[:3] for e in _both(recording, c)])


def elections_only_when_leaders_fail(recording: Recording) -> Answer:
    """Answer C36."""
    count = 0
    for change in leader_changes(recording):
        count += 1
        at_ns = change.after.t_ns or 0
        old = recording.of(change.where, change.before.leader)
        before = [s for s in old if at_ns - SECOND_NS < s.received_ns <= at_ns]
        after = [s for s in old if at_ns < s.sent_ns < at_ns + SECOND_NS]
        if before and after and change.before.leader in change.after.isr:
            return refuted(
                f"Broker {change.before.leader} answered before and after, stayed in the ISR, and lost the lead to "
                f"broker {change.after.leader}.",
                [
                    recording.saw(change.where, before[-1]),
                    *_both(recording, change),
                    recording.saw(change.where, after[0]),
                ],
            )
    return shown(f"In all {count} elections the leader had failed.") if count else unseen(NO_CHANGE)


def preferred_election_restores_the_first(recording: Recording) -> Answer:
    """Answer C37."""
    for event in recording.events:
        if event.kind != "elected" or event.detail["refused"] or event.detail.get("who") != "preferred":
            continue
        moved = []
        for where in recording.states:
            before, after = (
                recording.state_at(where, event.t_ns - 2 * SECOND_NS),
                recording.state_at(where, event.t_ns + SECOND_NS),
            )
            if before and after and before.leader != before.replicas[0]:
                moved.append((before, after))
        if moved:
            wrong = [pair for pair in moved if pair[1].leader != pair[1].replicas[0]]
            evidence = [recording.decided(state) for pair in (wrong or moved) for state in pair]
            if wrong:
                return refuted("A preferred election left another leader.", evidence)
            return shown(f"{counted(len(moved), 'partition')} had the first replica as leader again.", evidence)
    return unseen("No preferred election had anything to change.")


class Boot(NamedTuple):
    """A replica that restarted, with its first truncation."""

    where: TopicPartition
    loaded: Mapping[str, Any]
    started: Mapping[str, Any]
    cut: Mapping[str, Any] | None
    leads: Mapping[str, Any] | None


def _boots(recording: Recording) -> Iterator[Boot]:
    for where in recording.states:
        for broker in {s.broker for s in recording.samples.get(where, ())}:
            for loaded in _lines(recording, "log_loaded", where, broker):
                starts = [
                    s
                    for kind in ("follower_started", "leader_started")
                    for s in _lines(recording, kind, where, broker)
                    if s["t_ns"] >= loaded["t_ns"]
                ]
                starts.sort(key=lambda s: s["t_ns"])
                if starts and starts[0]["kind"] == "follower_started" and starts[0]["log_end_offset"]:
                    cuts = [
                        c
                        for c in _lines(recording, "truncating", where, broker)
                        if c["t_ns"] >= loaded["t_ns"] and c["log_end_offset"] < starts[0]["log_end_offset"]
                    ]
                    leads = _leader_started(recording, where, starts[0]["leader_epoch"])
                    yield Boot(where, loaded, starts[0], cuts[0] if cuts else None, leads)


def returning_replica_cuts_to_hw_on_disk(recording: Recording) -> Answer:
    """Answer C39."""
    above = [b for b in _boots(recording) if b.started["log_end_offset"] > b.loaded["high_watermark"]]
    if not above:
        return unseen("No replica came back with records above the HW on its disk.")
    told = [(b, _cut_at(b.loaded["high_watermark"], b.cut, b.leads)) for b in above]
    kept = sorted((b for b, at_hw in told if at_hw is False), key=lambda b: b.cut is None)
    if kept:
        boot = kept[0]
        cut = f"cut it at {boot.cut['log_end_offset']}, where it left its leader's" if boot.cut else "kept it"
        return refuted(
            f"A replica came back with HW {boot.loaded['high_watermark']} on its disk and a log up to "
            f"{boot.started['log_end_offset']}, and {cut}.",
            [recording.said(line) for line in (boot.loaded, boot.started, boot.leads, boot.cut) if line],
        )
    if cuts := [b.cut for b, at_hw in told if at_hw and b.cut]:
        return shown(
            "Each that came back with records above the HW on its disk cut them, though its leader had more.",
            [recording.said(line) for line in cuts],
        )
    return unseen("No replica that came back with records above the HW on its disk had a leader that had some, too.")


class Floor(NamedTuple):
    """A replica's own HW, the highest HW shown by any replica, and its log's end."""

    own: int
    committed: int
    end: int
    evidence: list[Evidence]

    @property
    def gone(self) -> int:
        return min(self.committed, self.end) - self.own


def cutting_above_hw_is_safe(recording: Recording) -> Answer:
    """Answer C40."""
    floors = list(_floors(recording))
    if not floors:
        return unseen("No replica came back or got another leader.")
    worst = max(floors, key=lambda floor: floor.gone)
    if worst.gone > 0:
        return refuted(
            f"A replica's own HW was {worst.own} when {worst.committed} was committed: a cut there would have taken "
            f"{worst.gone} committed records from it.",
            worst.evidence,
        )
    return shown(f"In {len(floors)} cases a replica's own HW covered all of its log that was committed.")


def _floors(recording: Recording) -> Iterator[Floor]:
    told = [(s.where, s.started, s.started) for s in _survivors(recording)]
    told += [(boot.where, boot.loaded, boot.started) for boot in _boots(recording)]
    for where, said, started in told:
        earlier = [sample for sample in recording.samples.get(where, ()) if sample.received_ns < said["t_ns"]]
        own = [sample for sample in earlier if sample.broker == said["broker_id"]]
        # it has no records of an epoch that it did not follow
        known = [sample for sample in earlier if own and sample.epoch <= own[-1].epoch]
        if known:
            highest = max(known, key=lambda sample: sample.hw)
            evidence = [recording.saw(where, highest), recording.said(said), recording.said(started)]
            yield Floor(said["high_watermark"], highest.hw, started["log_end_offset"], evidence)


def nothing_read_vanishes(recording: Recording) -> Answer:
    """Answer C46."""
    changes = list(leader_changes(recording))
    if not (changes and recording.final and recording.polls):
        return unseen("No leader changed while consumers read.")
    if gone := recording.against("nonrepeatable_read", "I16"):
        return refuted("Records that were read are lost.", gone)
    evidence = [row for change in changes[:1] for row in _both(recording, change)]
    dip = next(_dips(recording, changes), None)
    dipped = f" The HW itself fell from {dip[1].hw} to {dip[2].hw} with a new leader." if dip else ""
    evidence += [recording.saw(dip[0], sample) for sample in dip[1:]] if dip else []
    return shown(
        f"All {len(recording.polls):,} records that were read were in the log after {len(changes)} leader "
        f"changes.{dipped}",
        evidence,
    )


def _dips(recording: Recording, changes: list[Change]) -> Iterator[tuple[TopicPartition, Sample, Sample]]:
    for change in changes:
        lead = recording.lead(change.where)
        before = [sample for sample in lead if sample.epoch < change.after.leader_epoch]
        after = [sample for sample in lead if sample.epoch == change.after.leader_epoch]
        if before and after and after[0].hw < before[-1].hw:
            yield change.where, before[-1], after[0]
