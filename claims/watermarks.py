"""Claims about HW and LEO: what moves them, and what can be read."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

from claims.answer import Answer, Evidence, refuted, shown, unseen
from claims.moments import Moment, at_rest
from claims.recording import SECOND_NS, Recording, Remote, Sample
from history.partition import TopicPartition
from history.words import counted

NO_REST = "No partition came to rest while its replicas were probed."


def _pair(recording: Recording, moment: Moment, other: Sample, note: str = "") -> list[Evidence]:
    return [recording.saw(moment.where, moment.leader, ", leads"), recording.saw(moment.where, other, note)]


def committed_is_on_all_of_the_isr(recording: Recording) -> Answer:
    """Answer C1."""
    moments = [moment for moment in at_rest(recording) if moment.whole]
    for moment in moments:
        lacking = [s for member in moment.state.isr if (s := moment.known.get(member)) and s.leo < moment.leader.hw]
        if lacking:
            return refuted(
                "Something was committed that a member of the ISR did not have.", _pair(recording, moment, lacking[0])
            )
    for moment in moments:
        if moment.appended and moment.leader.hw < moment.least:
            least = recording.effective_min_isr.get(moment.where.topic, 1)
            why = f": it is smaller than min.insync.replicas={least}" if len(moment.state.isr) < least else ""
            return refuted(
                f"The whole ISR, {list(moment.state.isr)}, had {moment.leader.leo - moment.leader.hw} records that "
                f"were not committed{why}.",
                [recording.saw(moment.where, moment.leader, ", leads"), recording.decided(moment.state)],
            )
    waited = [m for m in moments if m.leader.hw == m.least < m.leader.leo]
    if not waited:
        return unseen("No member of the ISR ever lacked what the leader had.")
    moment = waited[0]
    slow = min((moment.known[member] for member in moment.state.isr if member in moment.known), key=lambda s: s.leo)
    return shown(
        f"While a member of the ISR lacked {moment.leader.leo - moment.leader.hw} records they were not committed; "
        f"in all {len(moments)} moments of rest what was committed was on the whole ISR.",
        _pair(recording, moment, slow, ", in the ISR"),
    )


def consumers_read_up_to_the_hw(recording: Recording) -> Answer:
    """Answer C2."""
    if early := recording.against("precommitted_read"):
        return refuted("A consumer was given a record that the leader did not count as committed.", early)
    for moment in _most_held(recording):
        topic, partition = moment.where
        read = {
            p["offset"]
            for p in recording.polls
            if (p["topic"], p["partition"]) == (topic, partition) and p["received_ns"] <= moment.to_ns
        }
        if (
            moment.leader.hw < moment.leader.leo
            and read >= set(range(moment.leader.log_start, moment.leader.hw))
            and read
        ):
            return shown(
                f"For {(moment.to_ns - moment.from_ns) / SECOND_NS:.1f} s a consumer had all {len(read)} records below "
                f"the HW and none of the {moment.leader.leo - moment.leader.hw} from it on; no poll of "
                f"{len(recording.polls)} was ahead of the leader's HW.",
                [
                    recording.saw(moment.where, moment.leader, ", leads"),
                    Evidence("polls/", recording.at_s(moment.to_ns), f"largest offset read until then: {max(read)}"),
                ],
            )
    return unseen("There were no reads from a partition whose HW was below its leader's LEO.")


def _most_held(recording: Recording) -> list[Moment]:
    moments = [moment for moment in at_rest(recording, SECOND_NS) if moment.whole]
    return sorted(moments, key=lambda moment: moment.leader.hw - moment.leader.leo)


def replicas_keep_hw_and_leo(recording: Recording) -> Answer:
    """Answer C3."""
    told = {(where, sample.broker) for where, samples in recording.samples.items() for sample in samples}
    kept = {(remote.where, remote.leader, remote.follower) for remote in recording.remotes}
    if not recording.remotes:
        return unseen("Every replica reported its HW and LEO, but only DEBUG lines show the LEOs that leaders store.")
    where = recording.remotes[0].where
    own = {s.broker: s for s in recording.samples.get(where, ())}
    return shown(
        f"{len(told)} replicas reported their HW and LEO, and leaders stored the LEOs of {len(kept)} followers.",
        [
            *(recording.saw(where, sample) for sample in own.values()),
            *(recording.noted(r) for r in recording.remotes[:3]),
        ],
    )


def hw_is_the_least_leo_in_the_isr(recording: Recording) -> Answer:
    """Answer C4."""
    moments = [moment for moment in at_rest(recording) if moment.whole]
    if not moments:
        return unseen(NO_REST)
    if other := next((m for m in moments if m.leader.hw != m.least), None):
        return refuted(
            f"The HW was {other.leader.hw} for {(other.to_ns - other.from_ns) / SECOND_NS:.1f} s while the least "
            f"LEO in the ISR was {other.least}: it is at most that.",
            [recording.saw(other.where, other.leader, ", leads"), recording.decided(other.state)],
        )
    held = [m for m in moments if m.leader.hw < m.leader.leo]
    return shown(
        f"At rest, in all {len(moments)} such moments, {len(held)} of them with the HW below the leader's LEO.",
        [recording.saw(m.where, s) for m in (held or moments)[:1] for s in m.known.values()],
    )


def leo_is_the_next_offset(recording: Recording) -> Answer:
    """Answer C7."""
    found = []
    for send, before, after in _alone(recording):
        if send["offset"] != before.leo or after.leo != send["offset"] + 1:
            where = TopicPartition.of(send)
            evidence = [recording.saw(where, before), recording.sent(send), recording.saw(where, after)]
            return refuted(f"LEO was {before.leo} and the next record got offset {send['offset']}.", evidence)
        found.append((send, before, after))
    if not found:
        return unseen("There were no writes to a partition at rest.")
    send, before, after = found[0]
    where = TopicPartition.of(send)
    return shown(
        f"{counted(len(found), 'time')} the next record got the offset that was LEO, which then was one more.",
        [recording.saw(where, before), recording.sent(send), recording.saw(where, after)],
    )


def _alone(recording: Recording) -> Iterator[tuple[Mapping[str, Any], Sample, Sample]]:
    """Yield acknowledged sends without others in between, with the leader's samples before and after."""
    by_partition: dict[TopicPartition, list[Mapping[str, Any]]] = {}
    for send in recording.sends:
        if send["outcome"] != "fail":
            by_partition.setdefault(TopicPartition.of(send), []).append(send)
    for where, sends in by_partition.items():
        lead = recording.lead(where)
        received_ns = [sample.received_ns for sample in lead]
        for number, send in enumerate(sends):
            end_ns = sends[number + 1]["sent_ns"] if number + 1 < len(sends) else 2**63
            begin_ns = sends[number - 1]["done_ns"] if number else 0
            if send["outcome"] != "ok" or send["offset"] is None or begin_ns is None or end_ns is None:
                continue
            earlier = lead[bisect_left(received_ns, begin_ns) : bisect_right(received_ns, send["sent_ns"])]
            later = lead[bisect_left(received_ns, send["done_ns"]) : bisect_right(received_ns, end_ns)]
            before = next((sample for sample in reversed(earlier) if sample.sent_ns >= begin_ns), None)
            after = next((sample for sample in later if sample.sent_ns >= send["done_ns"]), None)
            if before and after:
                yield send, before, after


def leo_moves_on_append(recording: Recording) -> Answer:
    """Answer C8."""
    for where in recording.samples:
        if ahead := _ahead_of_leader(recording, where):
            return refuted("A follower's LEO was ahead of its leader's.", [recording.saw(where, s) for s in ahead])
    for moment in at_rest(recording):
        behind = [s for m, s in moment.known.items() if m != moment.state.leader and s.leo < moment.leader.leo]
        with_it = [s for s in moment.followers if s.leo == moment.leader.leo]
        if moment.appended and behind and with_it:
            return shown(
                "The leader's LEO moved with the acknowledged append, that of a follower which fetched moved after it, "
                "and that of one which stood still did not.",
                [recording.saw(moment.where, s) for s in (moment.leader, with_it[0], behind[0])],
            )
    return unseen("No follower stood still while its leader appended.")


def _ahead_of_leader(recording: Recording, where: TopicPartition) -> list[Sample]:
    """Return a follower's sample and a smaller, later one of its leader."""
    lead = recording.lead(where)
    largest: dict[int, Sample] = {}
    following = recording.following(where)
    at = 0
    for sample in lead:
        while at < len(following) and following[at].received_ns <= sample.sent_ns:
            known = largest.get(following[at].epoch)
            if known is None or following[at].leo > known.leo:
                largest[following[at].epoch] = following[at]
            at += 1
        other = largest.get(sample.epoch)
        if other and other.leo > sample.leo:
            return [other, sample]
    return []


def leaders_note_leos_that_followers_lack(recording: Recording) -> Answer:
    """Answer C10."""
    checked: dict[tuple[TopicPartition, int], list[Remote]] = {}
    for remote, later in _with_what_followed(recording):
        if later.leo < remote.leo:
            return shown(
                f"The leader noted LEO {remote.leo}, and the follower was at {later.leo} afterwards.",
                [recording.noted(remote), recording.saw(remote.where, later)],
            )
        checked.setdefault((remote.where, remote.follower), []).append(remote)
    for where, broker, lead in _unanswered(recording):
        notes = [note for note in checked.get((where, broker), ()) if note.t_ns <= lead.received_ns]
        back = next((s for s in recording.of(where, broker) if s.sent_ns > lead.received_ns), None)
        if notes and back:
            return refuted(
                "A note is the offset that a follower asks for, so that it has what lies below: of "
                f"{sum(map(len, checked.values())):,} notes none was ahead of the follower, not even while answers "
                "could not reach it.",
                [
                    recording.saw(where, lead, ", leads"),
                    recording.noted(notes[-1]),
                    recording.saw(where, back, ", is back"),
                ],
            )
    return unseen("The run has no lost answer to a fetch at a time when the leader logged stored LEOs.")


def _with_what_followed(recording: Recording) -> Iterator[tuple[Remote, Sample]]:
    """Skip later epochs, in which the follower may have truncated."""
    replicas = {(remote.where, remote.follower) for remote in recording.remotes}
    own = {replica: recording.of(*replica) for replica in replicas}
    asked = {replica: [sample.sent_ns for sample in samples] for replica, samples in own.items()}
    for remote in recording.remotes:
        replica = remote.where, remote.follower
        at = bisect_right(asked[replica], remote.t_ns)
        state = recording.state_at(remote.where, remote.t_ns)
        if state is None or state.leader != remote.leader or at == len(asked[replica]):
            continue
        if own[replica][at].epoch == state.leader_epoch:
            yield remote, own[replica][at]


def _unanswered(recording: Recording) -> Iterator[tuple[TopicPartition, int, Sample]]:
    for broker, from_ns, until_ns in recording.faults("pause"):
        for where in recording.states:
            lead = [s for s in recording.lead(where) if s.broker != broker and from_ns <= s.sent_ns <= until_ns]
            if lead and lead[-1].leo > lead[0].leo:
                yield where, broker, lead[-1]


def follower_hw_is_the_lesser(recording: Recording) -> Answer:
    """Answer C11."""
    seen: list[tuple[Moment, Sample]] = []
    for moment in at_rest(recording):
        for follower in moment.followers:
            if follower.hw != min(follower.leo, moment.leader.hw):
                return refuted(
                    f"A follower's HW {follower.hw} was not min({follower.leo}, {moment.leader.hw}).",
                    _pair(recording, moment, follower),
                )
            seen.append((moment, follower))
    if not seen:
        return unseen(NO_REST)
    return shown(f"{counted(len(seen), 'time')} at rest.", _pair(recording, *seen[0]))


def leader_hw_is_the_partitions(recording: Recording) -> Answer:
    """Answer C13."""
    if early := recording.against("precommitted_read"):
        return refuted("A consumer was given what the leader did not count as committed.", early)
    ahead, first = 0, None
    for where in recording.states:
        polls = [p for p in recording.polls if (p["topic"], p["partition"]) == where]
        for poll, sample in _next_samples(polls, recording.following(where)):
            if sample.hw <= poll["offset"] and sample.epoch == poll["leader_epoch"]:
                ahead += 1
                first = first or (where, poll, sample)
    if first is None:
        return unseen("No follower's HW was seen behind what consumers read.")
    where, poll, sample = first
    text = f"{where}: offset {poll['offset']} read"
    return shown(
        f"{ahead:,} records were read before a follower's HW had passed them, and none before the leader's had.",
        [Evidence("polls/", recording.at_s(poll["received_ns"]), text), recording.saw(where, sample, ", follows")],
    )


def _next_samples(
    polls: Sequence[Mapping[str, Any]], samples: Sequence[Sample]
) -> Iterator[tuple[Mapping[str, Any], Sample]]:
    at = 0
    for poll in polls:
        while at < len(samples) and samples[at].sent_ns <= poll["received_ns"]:
            at += 1
        if at < len(samples):
            yield poll, samples[at]


def hw_is_at_most_leo(recording: Recording) -> Answer:
    """Answer C14."""
    if above := recording.against("I2"):
        return refuted("A replica's HW was above its LEO.", above)
    count = sum(sample.single for samples in recording.samples.values() for sample in samples)
    if not count:
        return unseen("The run has no samples of replicas.")
    where, samples = next(iter(recording.samples.items()))
    return shown(f"In all {count:,} samples.", [recording.saw(where, sample) for sample in samples[:3]])


def slow_member_holds_the_hw(recording: Recording) -> Answer:
    """Answer C19."""
    for moment in _most_held(recording):
        members = [moment.known[m] for m in moment.state.isr]
        slow = min(members, key=lambda s: s.leo)
        if slow.leo == moment.leader.hw < moment.leader.leo:
            return shown(
                f"For {(moment.to_ns - moment.from_ns) / SECOND_NS:.1f} s the HW equalled the slowest member's LEO.",
                [*_pair(recording, moment, slow, ", in the ISR"), recording.decided(moment.state)],
            )
        if slow.leo < moment.leader.hw:
            return refuted(
                "The HW went past the LEO of a member of the ISR.", _pair(recording, moment, slow, ", in the ISR")
            )
    return unseen("No member of the ISR fell behind.")


def fetch_carries_leo_and_brings_hw(recording: Recording) -> Answer:
    """Answer C21."""
    for before, note in pairwise([r for r in recording.remotes if r.where in set(recording.states)]):
        if (before.where, before.follower) == (note.where, note.follower):
            continue
        lead = [s for s in recording.lead(note.where) if s.broker == note.leader]
        after = next((s for s in lead if s.sent_ns > note.t_ns and s.hw == note.leo), None)
        behind = next((s for s in reversed(lead) if s.received_ns < note.t_ns and s.hw < note.leo), None)
        told = [
            s
            for s in recording.of(note.where, note.follower)
            if after and s.sent_ns > after.received_ns and s.hw == note.leo
        ]
        if after and behind and told and told[0].sent_ns - note.t_ns < SECOND_NS:
            return shown(
                f"With a fetch from offset {note.leo} the leader's HW reached {note.leo}, and an answer brought it to "
                "the follower.",
                [
                    recording.saw(note.where, behind, ", leads"),
                    recording.noted(note),
                    recording.saw(note.where, after, ", leads"),
                    recording.saw(note.where, told[0], ", follows"),
                ],
            )
    return unseen("The run does not show which fetch moved a HW; that needs the leader's DEBUG lines.")


def follower_leo_is_leaders_plus_one(recording: Recording) -> Answer:
    """Answer C22."""
    seen = [(m, s) for m in at_rest(recording) for s in m.followers if s.leo >= m.leader.leo]
    if not seen:
        return unseen(NO_REST)
    if equal := [pair for pair in seen if pair[1].leo == pair[0].leader.leo]:
        return refuted(
            f"{counted(len(equal), 'time')} at rest a follower's LEO was its leader's, and never more.",
            _pair(recording, *equal[0]),
        )
    return shown("At rest followers' LEOs were one more than their leader's.", _pair(recording, *seen[0]))


def moving_hw_commits_and_deletes(recording: Recording) -> Answer:
    """Answer C23."""
    committed = [folder for data in recording.data.values() for folder in data.glob("__consumer_offsets-*")]
    for where in recording.states:
        lead = recording.lead(where)
        moved = [later for earlier, later in pairwise(lead) if earlier.broker == later.broker and later.hw > earlier.hw]
        if len(moved) > 1 and lead[-1].log_start == lead[0].log_start and not committed:
            start = lead[-1].log_start
            return refuted(
                f"The HW of {where} moved {counted(len(moved), 'time')}, to {lead[-1].hw}; its log "
                f"start stayed at {start}, and no broker has a topic of committed offsets, though consumers read.",
                [recording.saw(where, lead[0]), recording.saw(where, lead[-1], f", log start {start}")],
            )
    return unseen("No HW moved, or offsets were committed for another reason.")


def hw_is_least_of_all_plus_one(recording: Recording) -> Answer:
    """Answer C25."""
    moments = [m for m in at_rest(recording) if len(m.known) == len(m.state.replicas) and m.leader.leo]
    for moment in moments:
        least = min(sample.leo for sample in moment.known.values())
        if moment.leader.hw != least + 1:
            return refuted(
                f"The least LEO of all replicas was {least} and the HW {moment.leader.hw}.",
                [recording.saw(moment.where, sample) for sample in moment.known.values()],
            )
    if not moments:
        return unseen(NO_REST)
    return shown(f"In all {len(moments)} moments of rest.", [recording.saw(moments[0].where, moments[0].leader)])


def follower_hw_is_a_fetch_behind(recording: Recording) -> Answer:
    """Answer C47."""
    late_ns: list[int] = []
    evidence: list[Evidence] = []
    replicas = {where: list(_replicas(recording, where)) for where in recording.samples}
    for send, before, _ in _alone(recording):
        where, offset = TopicPartition.of(send), send["offset"]
        for own, asked_ns, highest in replicas[where]:
            first = bisect_right(asked_ns, send["done_ns"])
            if own[0].broker == before.broker or first == len(own) or highest[first] <= offset:
                continue
            caught = next(at for at in range(first, len(own)) if own[at].hw > offset)
            behind = next((s for s in own[first:caught] if s.leo > offset >= s.hw), None)
            if behind:
                late_ns.append(own[caught].received_ns - send["done_ns"])
                evidence += [
                    recording.sent(send),
                    recording.saw(where, behind, ", follows"),
                    recording.saw(where, own[caught], ", follows"),
                ]
    if not late_ns:
        return unseen("The samples show no follower between its append and the HW of a later answer.")
    return shown(
        f"{counted(len(late_ns), 'time')} a follower had a record and not yet the HW that covers it, which came with a "
        f"later answer, {min(late_ns) / 1e6:.0f} to {max(late_ns) / 1e6:.0f} ms after the append.",
        evidence,
    )


def _replicas(recording: Recording, where: TopicPartition) -> Iterator[tuple[list[Sample], list[int], list[int]]]:
    """Yield samples, request times, and the highest HW from each one on."""
    for broker in {sample.broker for sample in recording.samples[where]}:
        own = recording.of(where, broker)
        highest = list(accumulate((sample.hw for sample in reversed(own)), max))[::-1]
        yield own, [sample.sent_ns for sample in own], highest
