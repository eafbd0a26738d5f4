"""Claims about HW and LEO: what moves them, and what can be read."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from claims.answer import Case, Evidence, logged, saw, sent
from claims.recording import SECOND_NS, Recording, cases, checks
from claims.rest import Rest, at_rest, first, last, leads, led, lines, rows_of, state_at
from evidence.columns import FAIL, LIVE, NULL, OK, Polls, groups
from evidence.facts import FOREVER_NS, Row
from evidence.partition import PartitionEvidence
from judge.checks.watermarks import tops


def committed_is_on_all_of_the_isr(recording: Recording) -> Iterator[Case]:
    """Answer C1."""
    yield from (case for case in checks("I7", recording) if not case.holds)
    for rest in (rest for rest in at_rest(recording) if rest.whole):
        held_back = rest.appended and rest.hw < rest.least
        if rest.hw > rest.least or held_back or rest.hw == rest.least < rest.leo:
            yield Case(rest.hw == rest.least, rest.evidence)


def _live(of: PartitionEvidence) -> Polls:
    return of.polls.take(of.polls.pass_ == LIVE)


def consumers_read_up_to_the_hw(recording: Recording) -> Iterator[Case]:
    """Answer C2."""
    yield from cases(["precommitted_read"], recording)
    for rest in (rest for rest in at_rest(recording, SECOND_NS) if rest.whole and rest.hw < rest.leo):
        polls = _live(rest.of)
        read = set(polls.offset[polls.received_ns <= rest.to_ns].tolist())
        below = set(range(int(rest.seen.log_start[rest.row]), rest.hw))
        if read and read >= below:
            text = f"{rest.of.where}: largest offset read until then: {max(read)}"
            yield Case(True, [Evidence("polls/", rest.to_ns, text), *rest.evidence])


def replicas_keep_hw_and_leo(recording: Recording) -> Iterator[Case]:
    """Answer C3."""
    for of in recording.all:
        if recorded := lines(of, "leo_recorded"):
            rows = [int(rows[-1]) for rows in of.samples.answered.rows_of_broker.values()]
            yield Case(True, [*(saw(of, row) for row in rows), *logged(*recorded[:3])])


def hw_is_the_least_leo_in_the_isr(recording: Recording) -> Iterator[Case]:
    """Answer C4."""
    return (Case(rest.hw == rest.least, rest.evidence) for rest in at_rest(recording) if rest.whole)


def leo_is_the_next_offset(recording: Recording) -> Iterator[Case]:
    """Answer C7."""
    for of in recording.all:
        leo, offset = of.samples.answered.leo, of.sends.offset
        for send, before, after in _alone(of):
            holds = bool(offset[send] == leo[before] and leo[after] == offset[send] + 1)
            yield Case(holds, [saw(of, before), sent(of, send), saw(of, after)])


def _alone(of: PartitionEvidence) -> Iterator[tuple[int, int, int]]:
    """Yield sends without others in between, with the leader's rows before and after."""
    sends, seen, lead = of.sends, of.samples.answered, led(of)
    order = np.flatnonzero(sends.outcome != FAIL)
    order = order[np.argsort(sends.due_ns[order], kind="stable")]
    begin_ns = np.append(0, sends.done_ns[order])[: order.size]
    end_ns = np.append(sends.sent_ns[order][1:], FOREVER_NS)[: order.size]
    good = (sends.outcome[order] == OK) & (sends.offset[order] != NULL) & (begin_ns != NULL) & (end_ns != NULL)
    before = np.searchsorted(seen.received_ns[lead], sends.sent_ns[order], side="right") - 1
    after = np.searchsorted(seen.sent_ns[lead], sends.done_ns[order])
    good &= (before >= 0) & (after < lead.size)
    order, before, after, begin_ns, end_ns = (each[good] for each in (order, before, after, begin_ns, end_ns))
    before, after = lead[before], lead[after]
    alone = (seen.sent_ns[before] >= begin_ns) & (seen.received_ns[after] <= end_ns)
    yield from zip(order[alone].tolist(), before[alone].tolist(), after[alone].tolist(), strict=True)


def leo_moves_on_append(recording: Recording) -> Iterator[Case]:
    """Answer C8."""
    for of in recording.all:
        yield from (Case(False, [saw(of, row) for row in rows]) for rows in _ahead_of_leader(of))
    for rest in at_rest(recording):
        behind = [row for row in rest.known.values() if rest.seen.leo[row] < rest.leo]
        level = [row for row in rest.followers if rest.seen.leo[row] == rest.leo]
        if rest.appended and behind and level:
            yield Case(True, rest.evidence)


def _ahead_of_leader(of: PartitionEvidence) -> Iterator[tuple[int, int]]:
    """Yield a follower's row and its leader's later one with a smaller LEO."""
    seen, leading = of.samples.answered, leads(of)
    for _, rows in groups(seen.epoch):
        lead, follow = rows[leading[rows]], rows[~leading[rows]]
        earlier = np.searchsorted(seen.received_ns[follow], seen.sent_ns[lead], side="right") - 1
        lead, earlier = lead[earlier >= 0], earlier[earlier >= 0]
        largest = follow[tops(seen.leo[follow])[earlier]]
        ahead = seen.leo[largest] > seen.leo[lead]
        yield from zip(largest[ahead].tolist(), lead[ahead].tolist(), strict=True)


def leaders_note_leos_that_followers_lack(recording: Recording) -> Iterator[Case]:
    """Answer C10; one example is enough."""
    recorded = [(of, *each) for of in recording.all for each in _with_what_followed(of)]
    lacking = [each for each in recorded if each[0].samples.answered.leo[each[2]] < each[1]["log_end_offset"]]
    yield from (Case(True, [*logged(line), saw(of, row)]) for of, line, row in lacking)
    for of, broker, lead in _unanswered(recording) if not lacking else ():
        seen, own = of.samples.answered, rows_of(of, broker)
        asked_ns = seen.received_ns[lead]
        noted = [line for each, line, _ in recorded if each is of and line["follower"] == broker]
        noted = [line for line in noted if line["t_ns"] <= asked_ns]
        back = first(own, seen.sent_ns[own] > asked_ns)
        if noted and back is not None:
            yield Case(False, [saw(of, lead, ", leads"), *logged(noted[-1]), saw(of, back, ", is back")])


def _with_what_followed(of: PartitionEvidence) -> Iterator[tuple[Row, int]]:
    """Yield notes with the follower's next row in the same epoch."""
    seen = of.samples.answered
    for line in lines(of, "leo_recorded"):
        own, state = rows_of(of, line["follower"]), state_at(of, line["t_ns"])
        place = np.searchsorted(seen.sent_ns[own], line["t_ns"], side="right")
        if state is None or state.leader != line["broker_id"] or place == own.size:
            continue
        if seen.epoch[own[place]] == state.leader_epoch:
            yield line, int(own[place])


def _unanswered(recording: Recording) -> Iterator[tuple[PartitionEvidence, int, int]]:
    """Yield paused brokers, with the last row of a leader that appended."""
    for fault in recording.faults("pause"):
        for of in recording.all:
            seen, rows = of.samples.answered, led(of)
            paused = (seen.sent_ns[rows] >= fault.from_ns) & (seen.sent_ns[rows] <= fault.until_ns)
            lead = rows[paused & (seen.broker[rows] != fault.broker_id)]
            if lead.size and seen.leo[lead[-1]] > seen.leo[lead[0]]:
                yield of, fault.broker_id, int(lead[-1])


def _followers(recording: Recording) -> Iterator[tuple[int, int, Rest, list[Evidence]]]:
    for rest in at_rest(recording):
        for row in rest.followers:
            evidence = [saw(rest.of, rest.row, ", leads"), saw(rest.of, row)]
            yield int(rest.seen.hw[row]), int(rest.seen.leo[row]), rest, evidence


def follower_hw_is_the_lesser(recording: Recording) -> Iterator[Case]:
    """Answer C11."""
    return (Case(hw == min(leo, rest.hw), evidence) for hw, leo, rest, evidence in _followers(recording))


def leader_hw_is_the_partitions(recording: Recording) -> Iterator[Case]:
    """Answer C13."""
    yield from cases(["precommitted_read"], recording)
    for of in recording.all:
        polls, seen, follow = _live(of), of.samples.answered, np.flatnonzero(~leads(of))
        follow = follow[np.argsort(seen.sent_ns[follow], kind="stable")]
        place = np.searchsorted(seen.sent_ns[follow], polls.received_ns, side="right")
        read = np.flatnonzero(place < follow.size)
        row = follow[place[read]]
        ahead = (seen.hw[row] <= polls.offset[read]) & (seen.epoch[row] == polls.leader_epoch[read])
        for poll, behind in zip(read[ahead].tolist(), row[ahead].tolist(), strict=True):
            text = f"{of.where}: offset {polls.offset[poll]} read"
            yield Case(True, [Evidence("polls/", int(polls.received_ns[poll]), text), saw(of, behind, ", follows")])


def slow_member_holds_the_hw(recording: Recording) -> Iterator[Case]:
    """Answer C19."""
    for rest in at_rest(recording, SECOND_NS):
        if rest.whole and rest.least < rest.leo and rest.least <= rest.hw:
            yield Case(rest.least == rest.hw, rest.evidence)


def fetch_carries_leo_and_brings_hw(recording: Recording) -> Iterator[Case]:
    """Answer C21."""
    for of in recording.all:
        for before, line in pairwise(lines(of, "leo_recorded")):
            if before["follower"] != line["follower"] and (rows := _moved_by(of, line)):
                behind, after, follower = rows
                evidence = [saw(of, behind, ", leads"), *logged(line), saw(of, after, ", leads")]
                yield Case(True, [*evidence, saw(of, follower, ", follows")])


def _moved_by(of: PartitionEvidence, line: Row) -> tuple[int, int, int] | None:
    """Return the rows that show how a fetch moved the HW."""
    seen, rows, own = of.samples.answered, led(of), rows_of(of, line["follower"])
    t_ns, leo = line["t_ns"], line["log_end_offset"]
    rows = rows[seen.broker[rows] == line["broker_id"]]
    behind = last(rows, (seen.received_ns[rows] < t_ns) & (seen.hw[rows] < leo))
    after = first(rows, (seen.sent_ns[rows] > t_ns) & (seen.hw[rows] == leo))
    if behind is None or after is None:
        return None
    follower = first(own, (seen.sent_ns[own] > seen.received_ns[after]) & (seen.hw[own] == leo))
    soon = follower is not None and seen.sent_ns[follower] - t_ns < SECOND_NS
    return (behind, after, follower) if follower is not None and soon else None


def follower_leo_is_leaders_plus_one(recording: Recording) -> Iterator[Case]:
    """Answer C22."""
    return (Case(leo > rest.leo, rows) for _, leo, rest, rows in _followers(recording) if leo >= rest.leo)


def moving_hw_commits_and_deletes(recording: Recording) -> Iterator[Case]:
    """Answer C23."""
    committed = any(recording.run.folder.brokers.glob("*/data/__consumer_offsets-*"))
    for of in recording.all if not committed else ():
        seen, rows = of.samples.answered, led(of)
        same = seen.broker[rows][1:] == seen.broker[rows][:-1]
        moved = same & (seen.hw[rows][1:] > seen.hw[rows][:-1])
        if moved.sum() > 1 and seen.log_start[rows[-1]] == seen.log_start[rows[0]]:
            note = f", log start {seen.log_start[rows[-1]]}"
            yield Case(False, [saw(of, int(rows[0]), note), saw(of, int(rows[-1]), note)])


def hw_is_least_of_all_plus_one(recording: Recording) -> Iterator[Case]:
    """Answer C25."""
    for rest in at_rest(recording):
        if len(rest.known) == len(rest.state.replicas) and rest.leo:
            least = min(rest.seen.leo[row] for row in rest.known.values())
            yield Case(bool(rest.hw == least + 1), rest.evidence)


def follower_hw_is_a_fetch_behind(recording: Recording) -> Iterator[Case]:
    """Answer C47."""
    for of in recording.all:
        seen = of.samples.answered
        for send, lead, _ in _alone(of):
            offset, done_ns = of.sends.offset[send], of.sends.done_ns[send]
            for broker, own in seen.rows_of_broker.items():
                later = own[np.searchsorted(seen.sent_ns[own], done_ns, side="right") :]
                above = (seen.leo[later] > offset) & (seen.hw[later] <= offset)
                caught = first(later, seen.hw[later] > offset)
                behind = first(later, above & (later < (caught or 0)))
                if broker != seen.broker[lead] and behind is not None and caught is not None:
                    yield Case(True, [sent(of, send), saw(of, behind, ", follows"), saw(of, caught, ", follows")])
