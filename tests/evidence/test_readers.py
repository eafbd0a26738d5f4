"""The record of a run's readers at their end."""

from evidence.readers import ReaderFacts, reader_facts
from history.readers import patience_s
from tests.evidence.folders import S, happened, manifest

GROUPED = {"load": {"topic": "orders", "group": {"protocol": "classic", "session_timeout": 6.0, "members": 2}}}
CLIENTS = [
    {"client_id": "consumer", "role": "consumer", "started_ns": 5 * S, "ended_ns": 81 * S, "clean": True},
    {"client_id": "member-1.1", "role": "member", "started_ns": 5 * S, "ended_ns": None, "clean": False},  # killed
    {"client_id": "member-1.2", "role": "member", "started_ns": 15 * S, "ended_ns": 81 * S, "clean": True},
    {"client_id": "member-2.1", "role": "member", "started_ns": 5 * S, "ended_ns": 81 * S, "clean": True},
    {"client_id": "drain", "role": "drain", "started_ns": 30 * S, "ended_ns": 34 * S, "clean": True},
]


def looked(at_s=80, still_s=36, told=("consumer", "member-1.2", "member-2.1")):
    """Return the event of a wait for the readers, each with a report from one second before."""
    detail = {"still_since_ns": still_s * S, "told": dict.fromkeys(told, (at_s - 1) * S)}
    return [happened(at_s * S, "step", step="catch_up", detail=detail)]


def known(events, faults=(), **settings):
    """Return the facts of a run with a group of two members."""
    of = manifest().model_copy(update={"scenario": GROUPED, "patience_s": 42.0, **settings})
    return reader_facts(of, events, CLIENTS, faults)


def test_readers_stand_still_from_the_last_move_the_drain_or_the_last_fault_on():
    """Readers idle from the latest of the last move, the drain and the last fault; an unhealed fault has no end."""
    assert known(looked()).still_ns == 44 * S
    assert known(looked(still_s=33)).still_ns == 46 * S
    assert known(looked(), faults=[(20 * S, 50 * S)]).still_ns == 30 * S
    assert known(looked(), faults=[(20 * S, 2**63 - 1)]).still_ns < 0


def test_a_reader_that_ran_and_reported_nothing_is_silent():
    """A running reader without a recent report is silent; an earlier incarnation of a killed member is not counted."""
    assert known(looked()).silent == frozenset()
    assert known(looked(told=("consumer", "member-1.2"))).silent == {"member-2.1"}
    late = looked()
    late[0].detail["told"]["member-2.1"] = 60 * S
    assert (known(late).silent, known(late).members) == ({"member-2.1"}, ["member-1.2"])


def test_a_run_that_is_older_than_the_positions_has_no_facts():
    """A run from before recorded positions has no facts; without the wait's event its facts list no readers."""
    assert known(looked(), patience_s=None) is None
    assert known([]) == ReaderFacts(42 * S)


def test_members_of_a_share_group_have_no_positions():
    """Members of a share group have no positions, since their records are checked individually."""
    shared = {"load": {"topic": "orders", "group": {"protocol": "share", "lock": 2.0, "members": 2}}}
    found = known(looked(told=["consumer"]), scenario=shared)
    assert (found.topic, found.members, found.silent) == (None, [], frozenset())


def test_the_patience_covers_the_sessions_of_members_that_are_gone():
    """The patience includes a member's session timeout; the live consumer has no session."""
    assert (patience_s(), patience_s(6.0)) == (30.0, 42.0)
