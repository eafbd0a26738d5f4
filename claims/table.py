"""The claims as data: text, deciding experiments, and where and why answers differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from claims import cluster, elections, isr, storage, watermarks
from claims.answer import Case
from claims.recording import Recording, cases, checks
from history.kafka_versions import RELEASES

EXPERIMENTS = ("propagation", "eviction", "elections")  # scenarios/claims_<experiment>.yaml
WALKTHROUGHS = ("log_start", "factor")  # also recorded, for the walk-throughs


class Note(NamedTuple):
    """A note's subject, and the numbers of its claims."""

    about: str
    claims: tuple[int, ...]


NOTES = {
    "N0": Note("what HW and LEO are, and when they move", (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13)),
    "N1": Note("HW, LEO and ISR illustrated", (2, 4, 7, 8, 11, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24)),
    "N2": Note("how Kafka 3.0 handles the failure of a leader", (6, 7, 8, 25, 26, 27)),
    "N3": Note(
        "replicas, controller, elections and failures in Kafka 3.x",
        (6, 15, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41),
    ),
    "N4": Note("log storage, and how the HW spreads", (2, 7, 9, 11, 21, 29, 35, 41, 42, 43, 44, 45, 46, 47, 48)),
}
LINES = tuple(release.minor_release for release in RELEASES)


class Query(NamedTuple):
    """The experiments to query, in order, and what yields a recording's cases."""

    experiments: tuple[str, ...]
    cases: Callable[[Recording], Iterable[Case]]


class Claim(NamedTuple):
    """One claim.

    ``known`` is the answer of Kafka's source and KIPs; answers do not use it. ``changes``: why the answer depends on
    version or mode. ``unobservable``: why no experiment can decide it.
    """

    text: str
    known: str
    query: Query | None = None
    shows: str = ""
    refutes: str = ""
    changes: str = ""
    unobservable: str = ""


P, E, L = EXPERIMENTS
S, _ = WALKTHROUGHS

CLAIMS: dict[str, Claim] = {
    "C1": Claim(
        "A record is committed as soon as all replicas in the ISR have it, and not before.",
        "partly: from 3.7 also only while the ISR has min.insync.replicas members",
        Query((P, E), watermarks.committed_is_on_all_of_the_isr),
        "a member of the ISR lacks records, and until it has them the HW stays below them",
        "the HW is above the LEO of a member, or stays below records that a leader appended and all members have",
        "from 3.7 an ISR below min.insync.replicas commits nothing (KAFKA-15583)",
    ),
    "C2": Claim(
        "Consumers can read everything below the HW, and nothing from it on.",
        "yes; with read_committed the last stable offset is the bound",
        Query((P,), watermarks.consumers_read_up_to_the_hw),
        "while the HW is below the LEO, a consumer has exactly the records below the HW",
        "a consumer receives an offset that is still above the leader's HW in a later sample",
    ),
    "C3": Claim(
        "Leader and followers each keep a HW and a LEO; the leader also keeps its followers' LEOs.",
        "yes; the latter in memory only",
        Query((P,), watermarks.replicas_keep_hw_and_leo),
        "every replica answers with its own, and the leader's DEBUG lines name its followers' LEOs",
        "(nothing: a replica that had none would give no sample)",
    ),
    "C4": Claim(
        "The leader's HW is the least LEO in the ISR.",
        "partly: it is at most that",
        Query((P, E), watermarks.hw_is_the_least_leo_in_the_isr),
        "whenever a partition is at rest they are equal",
        "at rest the HW is below the least LEO in the ISR",
        "at rest shown on 3.1 to 3.6; below it from 3.7 under min.insync.replicas (KAFKA-15583), in 2.8 to 3.0 after a "
        "shrink (KAFKA-13091)",
    ),
    "C5": Claim(
        "Replicas out of the ISR do not count for the HW.",
        "partly: one that was caught up a moment ago still does",
        Query((E, L), isr.outsiders_do_not_count),
        "at rest the HW is past the LEO of a replica that is out of the ISR",
        "(nothing: that takes one that was caught up a moment ago and left the ISR all the same)",
        "at rest in all versions; one that was caught up within the lag's limit counts for that long, from 3.6 on only "
        "if it may join the ISR (KAFKA-15021)",
    ),
    "C6": Claim(
        "A new leader comes from the ISR and has everything that was visible.",
        "yes for clean elections; from 4.1 on also from the ELR (KIP-966)",
        Query((L,), elections.new_leader_has_what_was_visible),
        "each new leader was in the ISR, and its log reaches the highest HW shown before",
        "a new leader was not, or its log begins its epoch below that HW",
        "where ELR is on (by default from 4.1) one of it leads once the ISR is empty (KIP-966); not provoked here",
    ),
    "C7": Claim(
        "LEO is the offset that the next record gets.",
        "yes",
        Query((P,), watermarks.leo_is_the_next_offset),
        "a record written at rest gets the offset that was LEO, which then is one more",
        "any other offset",
    ),
    "C8": Claim(
        "A leader's LEO moves when it appends, a follower's when it has written what it fetched.",
        "yes; it also falls on truncation",
        Query((P,), watermarks.leo_moves_on_append),
        "a follower that stands still keeps its LEO while the others' move",
        "a follower's LEO ahead of its leader's",
    ),
    "C9": Claim(
        "On a fetch the leader reads its log, then notes the follower's LEO, then answers.",
        "yes",
        unobservable="The order inside the handling of one request leaves no trace in answers, files or log lines; "
        "that the note is of the offset asked for, and not of what is sent, is C10.",
    ),
    "C10": Claim(
        "A leader may note a LEO that the follower does not have, if its answer is lost.",
        "no, but for KAFKA-13141 in 2.8.0 or a lost disk",
        Query((L,), watermarks.leaders_note_leos_that_followers_lack),
        "a noted LEO above the follower's own afterwards",
        "answers that cannot reach a follower, and no note ahead of it",
        "in 2.8.0 after a divergence (KAFKA-13141)",
    ),
    "C11": Claim(
        "A follower's HW is the lesser of its LEO and the HW that its leader sent.",
        "yes, and at least the log start",
        Query((P, E), watermarks.follower_hw_is_the_lesser),
        "at rest a follower's HW is the lesser of both",
        "at rest a follower's HW is not the lesser of both",
    ),
    "C12": Claim(
        "The leader looks at its HW again on append, on election, when the ISR changes and when a follower fetches.",
        "yes; late after a shrink in 2.8 to 3.0 (KAFKA-13091)",
        Query((E,), isr.hw_is_looked_at_again),
        "the HW moves with each of them and nothing else",
        "an ISR shrinks at rest, and the HW stays where the member that left had held it",
        "after a shrink only from 3.1 on (KAFKA-13091)",
    ),
    "C13": Claim(
        "The leader's HW is the partition's and decides what consumers see.",
        "yes; a follower's own decides for reads from it (KIP-392)",
        Query((P, L), watermarks.leader_hw_is_the_partitions),
        "consumers read what the leader has committed before a follower's HW covers it",
        "a consumer reads ahead of the leader's HW",
    ),
    "C14": Claim(
        "HW is at most LEO on every replica.",
        "yes",
        Query((P, E, L), partial(checks, "I2")),
        "HW is at most LEO in every sample",
        "HW is above LEO in a sample",
        "up to 3.4.0 a follower with a diverging log may briefly show the contrary (KAFKA-14704); a probe meets that "
        "by luck",
    ),
    "C15": Claim(
        "A follower joins the ISR when its LEO has reached the leader's HW.",
        "partly: and the epoch's start, unfenced, and the controller agrees",
        Query((E, L), partial(checks, "I24")),
        "each follower that joined had reached the HW",
        "one that joined had not reached the HW or its epoch's start",
        "in 2.8.0 one whose log diverges is taken in for the LEO that it had before it cut it (KAFKA-13141)",
    ),
    "C16": Claim(
        "A follower that has not fetched for replica.lag.time.max.ms is taken out of the ISR.",
        "partly: one that did not *catch up* for so long",
        Query((E,), isr.leaves_when_it_does_not_fetch),
        "each that is silent for 1.5 times as long leaves every ISR",
        "one that is silent for so long stays, because it has all that its leader has",
    ),
    "C17": Claim(
        "That lag is 10 s by default, and looked at every 10 s.",
        "no: 30 s since 2.5 (KIP-537), looked at every half of it",
        Query((E, P), isr.lag_is_10_s),
        "the broker names 10000 as its default",
        "the broker names another default",
        "it was 10 s before 2.5 (KIP-537)",
    ),
    "C18": Claim(
        "When a replica has left the ISR, the HW is taken anew over those that are left.",
        "yes; see C12, and no advance below min.insync.replicas from 3.7",
        Query((E,), isr.hw_is_taken_over_who_is_left),
        "nothing is written, the ISR shrinks, and the HW moves to the least LEO that is left",
        "the HW stays where the member that left had held it",
        "only with the next append or fetch in 2.8 to 3.0 (KAFKA-13091); never below min.insync.replicas from 3.7",
    ),
    "C19": Claim(
        "A slow follower in the ISR holds the HW back.",
        "yes",
        Query((P,), watermarks.slow_member_holds_the_hw),
        "the HW equals its LEO while the leader's is ahead",
        "the HW goes past it",
    ),
    "C20": Claim(
        "The leader is always in the ISR.",
        "yes while there is a leader",
        Query((P, E, L), isr.leader_is_in_the_isr),
        "the leader is in the ISR in every state that the controller wrote",
        "a state with a leader outside of it",
    ),
    "C21": Claim(
        "A follower's fetch carries its LEO, with which the leader may move the HW, and the answer carries that HW.",
        "yes; the HW is that from before this fetch",
        Query((P,), watermarks.fetch_carries_leo_and_brings_hw),
        "the leader notes a LEO, its HW reaches it, and later the follower's does",
        "(none: samples are too far apart to show which LEO moved a HW)",
    ),
    "C22": Claim(
        "A follower sets its LEO to its leader's plus one.",
        "no: to its own last offset plus one",
        Query((P, E), watermarks.follower_leo_is_leaders_plus_one),
        "at rest a follower's LEO is one more than its leader's",
        "at rest both are equal",
    ),
    "C23": Claim(
        "A HW that moves commits consumers' offsets and deletes records.",
        "no",
        Query((P, E), watermarks.moving_hw_commits_and_deletes),
        "(nothing: what moves at the same time need not be moved by it)",
        "the HW moves again and again, and neither log start nor committed offsets do",
    ),
    "C24": Claim(
        "On a new partition followers enter the ISR after a first sync.",
        "no: all live assigned replicas are in it from the start",
        Query((P, E, L), isr.joins_after_a_first_sync),
        "the first state that the controller wrote lacks replicas in the ISR",
        "the first state has all replicas in the ISR",
    ),
    "C25": Claim(
        "The HW is the least LEO of all replicas, plus one.",
        "no, twice",
        Query((P, E), watermarks.hw_is_least_of_all_plus_one),
        "at rest the HW is that",
        "at rest the HW is another",
    ),
    "C26": Claim(
        "When a leader fails, the other followers first cut their logs at their HW.",
        "no since 0.11: only where logs diverge (KIP-101, KAFKA-10554)",
        Query((L,), elections.followers_first_cut_to_their_hw),
        "all with records above their HW cut them, though the new leader's log reaches further",
        "one keeps some of them: only what differs from the new leader's log is cut",
        "before 0.11 it was so (KIP-101); from 2.8 on the leader's answer names the point (KAFKA-10554)",
    ),
    "C27": Claim(
        "All of this keeps replicas alike; it does not exclude that records are lost or duplicated.",
        "yes, but acks=all with min.insync.replicas of 2 excludes loss, idempotence duplicates",
        Query((L,), partial(cases, ("lost_write", "truncated_ack"), hold=True)),
        "records acknowledged with acks=1 are lost after the leader's death",
        "(none: a run cannot show that something never happens)",
    ),
    "C28": Claim(
        "The default replication factor is 1.",
        "yes",
        Query((P,), partial(cluster.default_is, "default.replication.factor", "1")),
        "the broker names 1 as its default",
        "the broker names another",
    ),
    "C29": Claim(
        "Producers send to the leader only, and followers fetch from it.",
        "yes",
        Query((P,), cluster.only_leaders_take_records),
        "a follower refuses a record, and the leader notes its fetches",
        "a broker that does not lead acknowledges a record",
    ),
    "C30": Claim(
        "The assigned replicas are the ISR and those out of sync.",
        "yes",
        Query((E, L), isr.assigned_are_in_or_out_of_sync),
        "every state's ISR is part of its assignment",
        "a member of the ISR that is not assigned",
    ),
    "C31": Claim(
        "The ISR's lag limit is 30 s by default.",
        "yes since 2.5",
        Query((P,), partial(cluster.default_is, isr.LAG, "30000")),
        "the broker names 30000 as its default",
        "the broker names another",
    ),
    "C32": Claim(
        "One broker is the controller, elects leaders, and depends on ZooKeeper.",
        "in ZooKeeper mode only; gone in 4.0",
        Query((P, E, L), cluster.controller_depends_on_zookeeper),
        "leaders and ISR are in znodes",
        "leaders and ISR are in a metadata log, and no ZooKeeper runs",
        "in ZooKeeper mode, which ended with 3.9; by default of these runs up to 3.2",
    ),
    "C33": Claim(
        "Kafka can do without ZooKeeper (KRaft), from 2.8 on.",
        "yes, for production from 3.3",
        Query((P, E, L), cluster.kraft_exists),
        "it runs with dedicated controllers",
        "(it does not start)",
        "a preview up to 3.2, which is not run here",
    ),
    "C34": Claim(
        "Replicas nominate themselves, and the newest data, lag and health decide.",
        "no: the controller takes the first live ISR member in AR order",
        Query((L,), elections.replicas_nominate_themselves),
        "a leader fails, and one with more data is elected over one that is earlier in the assignment",
        "one with less data is elected because it is first in the assignment",
    ),
    "C35": Claim(
        "The new leader is the first live member of the ISR in the assignment's order.",
        "yes, unless the present one may stay",
        Query((L,), partial(checks, "I20")),
        "the first live member is elected each time",
        "another is elected",
    ),
    "C36": Claim(
        "Elections happen only when the leader has failed.",
        "no: also preferred ones, rebalancing, reassignment, controlled shutdown",
        Query((L,), elections.elections_only_when_leaders_fail),
        "every leader that lost the lead had failed",
        "one that answers and stays in the ISR loses it",
    ),
    "C37": Claim(
        "A preferred election gives the lead back to the first assigned replica.",
        "yes, if it is alive and in the ISR",
        Query((L,), elections.preferred_election_restores_the_first),
        "each partition's first replica leads afterwards",
        "another does",
    ),
    "C38": Claim(
        "A stopped replica leaves the ISR and is taken into it again after its return.",
        "yes; the order of the list means nothing",
        Query((L,), isr.stopped_replica_leaves_and_returns),
        "it leaves with the stop and comes back",
        "it stays while it is stopped, or is not back half a minute after its start",
    ),
    "C39": Claim(
        "A replica that comes back cuts its log at the HW on its disk, and fetches from there.",
        "no since 0.11: it starts at its LEO",
        Query((L,), elections.returning_replica_cuts_to_hw_on_disk),
        "each that has records above that HW cuts them, though its leader's log reaches further",
        "one keeps records above it: it begins at its LEO",
        "before 0.11 it was so (KIP-101)",
    ),
    "C40": Claim(
        "Below the HW every replica has the data, so that cutting above it is safe.",
        "partly: a follower's HW is only a lower bound",
        Query((L,), elections.cutting_above_hw_is_safe),
        "no replica's own HW is below what is committed",
        "a replica's own HW is below what is committed, so that a cut there would take committed records",
    ),
    "C41": Claim(
        "A segment rolls at 1 GiB.",
        "yes; also after 7 days, or with a full index",
        Query((P,), storage.segments_roll_at_1_gib),
        "the broker names 1073741824 as its default, and segments stay below the limit",
        "the broker names another, or a segment grows beyond",
    ),
    "C42": Claim(
        "A replica's folder has .log, .index and .timeindex files, and look-ups go through the sparse indexes.",
        "partly: there are more",
        Query((P,), storage.files_are_log_index_timeindex),
        "they are there (with others), and look-ups through the indexes find the batch that a scan finds",
        "one is missing, or an index leads elsewhere",
    ),
    "C43": Claim(
        "A log starts at 0; retention and DeleteRecords move its start.",
        "yes",
        Query((P, S), storage.log_start_moves),
        "a log start is 0 and then more",
        "a new log that starts elsewhere",
    ),
    "C44": Claim(
        "A follower's log start is its leader's.",
        "partly: retention runs on each replica",
        Query((P, S), storage.log_starts_are_equal),
        "at rest they are equal after the leader's was moved",
        "log starts differ for longer than a parked fetch waits",
    ),
    "C45": Claim(
        "A follower may read up to its leader's LEO.",
        "yes",
        Query((P,), storage.followers_read_up_to_the_leo),
        "a follower has records above the HW",
        "at rest the HW is below the leader's LEO, and all followers that answer stop at the HW",
    ),
    "C46": Claim(
        "Because of the HW no consumer sees records vanish when leaders change.",
        "partly: the HW may dip; KAFKA-14704 showed uncommitted records up to 3.4.0",
        Query((L,), elections.nothing_read_vanishes),
        "all records that were read before and after are in the final log",
        "a record that was read is lost",
        "up to 3.4.0 a follower with a diverging log may give out what was never committed (KAFKA-14704); not provoked "
        "here, as consumers read from leaders",
    ),
    "C47": Claim(
        "A follower's HW is one fetch behind.",
        "partly: one or two",
        Query((P,), watermarks.follower_hw_is_a_fetch_behind),
        "a follower has a record and not yet the HW that covers it",
        "(nothing: what comes between two samples looks as if it came at once)",
    ),
    "C48": Claim(
        "Alone in the ISR a leader has HW = LEO at once.",
        "up to 3.6, or with min.insync.replicas 1 (KAFKA-15583)",
        Query((E,), isr.alone_hw_is_leo),
        "it appends alone, and its HW is its LEO",
        "the HW of a leader that appends alone stays below its LEO",
        "from 3.7 not below min.insync.replicas (KAFKA-15583)",
    ),
}


def notes_of(claim: str) -> list[str]:
    """Return a claim's notes."""
    return [name for name, note in NOTES.items() if int(claim[1:]) in note.claims]
