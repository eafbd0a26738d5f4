"""Test the model of a cluster: its parts are consistent, and its group behaves like Kafka's."""

from itertools import product

from tests.model.cluster import Plan, Recorded, play
from tests.model.consumer_group import FLAWS
from tests.model.parts import Step
from tests.model.plans import plan_of

TWO = ((1, 2, 3), (2, 3, 1))
# Writes to both partitions, by the producers with acks=all (0, 1) and acks=1 (2, 3).
WRITTEN: tuple[Step, ...] = (*(("also_write", whom, 2) for whom in range(4)), ("wait", 0, 1))
MEMBER_KILLED: tuple[Step, ...] = (*WRITTEN, ("kill_member", 0, 0), ("wait", 0, 6), ("write", 0, 2), ("wait", 0, 1))


def sequence(recorded: Recorded, target: str) -> list[str]:
    """Return a node's events in order."""
    return [f"{event.kind} {event.step}" for event in recorded.events if event.target == target]


def owners(recorded: Recorded, partition: int) -> list[tuple[str, str]]:
    """Return a partition's assignments and revocations by member."""
    return [(row["member"], row["change"]) for row in recorded.group.rebalances if row["partition"] == partition]


def test_one_plan_gives_one_history():
    """A seed determines everything."""
    one, other = (play(plan_of(7)) for _ in range(2))

    assert (one.partitions, one.events) == (other.partitions, other.events)
    assert play(plan_of(8)).partitions != one.partitions


def test_what_happens_to_a_broker_happens_to_its_replica_of_each_partition():
    """Broker 1 leads one partition and follows in the other; both remove it from the ISR."""
    recorded = play(Plan((*WRITTEN, ("kill", 0, 0), ("wait", 0, 4), ("restart", 0, 0)), TWO))
    leaders = [[state.leader for state in history.states] for history in recorded.partitions.values()]

    assert [led[:2] for led in leaders] == [[1, 2], [2, 2]]
    assert all(any(1 not in state.isr for state in history.states) for history in recorded.partitions.values())
    assert sequence(recorded, "broker-1") == ["inject kill", "injected kill", "heal kill", "healed kill"]


def test_a_producers_numbers_are_those_of_all_its_partitions():
    """Numbers are unique."""
    recorded = play(Plan(WRITTEN, TWO, ends_quietly=True))
    own = [
        row["seq"] for history in recorded.partitions.values() for row in history.sends if row["producer_id"] == "all-0"
    ]

    assert sorted(own) == list(range(len(own)))
    assert len(own) == 6


def test_a_member_that_is_killed_gives_its_partitions_up_when_its_session_ends():
    """It sends no notice; the next owner continues at the committed offset, up to the end."""
    recorded = play(Plan(MEMBER_KILLED, TWO, members=2))

    assert owners(recorded, 0)[:2] == [("member-1.1", "assigned"), ("member-2.1", "assigned")]
    assert owners(recorded, 1)[0] == ("member-2.1", "assigned")
    read = [row for row in recorded.group.reads if row["partition"] == 0]
    assert {row["member"] for row in read} >= {"member-1.1", "member-2.1"}
    assert max(row["last_offset"] for row in read) == recorded.partitions[0].drain_end - 1


def test_a_paused_member_has_its_commits_refused_when_it_returns():
    """Only after its session, when it has lost its partitions; a shorter pause changes nothing."""
    steps = (
        *WRITTEN,
        ("write", 0, 2),
        ("pause_member", 0, 0),
        ("wait", 0, 5),
        ("write", 0, 2),
        ("resume_member", 0, 0),
    )
    after = play(Plan((*steps, ("wait", 0, 2)), TWO, members=2))
    before = play(Plan((*WRITTEN, ("pause_member", 0, 0), ("resume_member", 0, 0), ("wait", 0, 2)), TWO, members=2))

    assert ("member-1.1", "lost") in owners(after, 0)
    assert ("member-1.1", "lost") not in owners(before, 0)


def test_a_starved_reader_stands_still_and_others_do_not():
    """The first of two readers stops polling."""
    recorded = play(Plan((*WRITTEN, ("poll", 1, 0), ("write", 0, 2)), readers=2, starved=0))
    read = [row["consumer_id"] for row in recorded.partitions[0].polls]

    assert "consumer" not in read
    assert read.count("consumer-2") == recorded.partitions[0].drain_end


def test_a_history_that_ends_early_has_no_last_capture_and_faults_without_end():
    """Nothing is healed and there is no rest."""
    steps = (*WRITTEN, ("kill", 0, 0), ("wait", 0, 1))
    early, whole = (play(Plan(steps, TWO, ends_early=ends)) for ends in (True, False))

    def captured(recorded: Recorded) -> set[str]:
        return {row["capture"] for row in recorded.partitions[0].captures}

    assert ("after" in captured(early), "after" in captured(whole)) == (False, True)
    assert sequence(early, "broker-1") == ["inject kill", "injected kill"]


def test_each_flaw_of_a_group_can_take_effect():
    """Member 1 leaves and returns, so its partitions change owners twice; without a flaw nothing is wrong."""
    steps = [*WRITTEN]
    for polls, verb in product((2, 3, 4), ("stop_member", "start_member")):
        steps += [("write", 0, 4), *[("poll", 0, 0)] * polls, (verb, 0, 0), ("wait", 0, 4)]
    fired = {flaw: play(Plan(tuple(steps), TWO, members=2, group_flaw=flaw)).group.fired for flaw in ("", *FLAWS)}

    assert [flaw for flaw, has in fired.items() if not has] == [""]
