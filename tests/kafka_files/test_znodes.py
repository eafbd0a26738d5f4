"""ZooKeeper's transaction log, written by hand in the server's layout."""

import json
import struct

import pytest

from kafka_files.clock import Clock
from kafka_files.states import up_to_damage
from kafka_files.znodes import read_znodes, states, writes

CREATE, SET, DELETE, MULTI = 1, 5, 2, 14
TOPIC, STATE = "/brokers/topics/orders", "/brokers/topics/orders/partitions/0/state"


def sized(data):
    """Return the bytes after their length."""
    return struct.pack(">i", len(data)) + data


def written(path, value, version=None):
    """Return the body of a znode's creation, or of its change to a version."""
    tail = b"\0\0\0\0" if version is None else struct.pack(">i", version)
    return sized(path.encode()) + sized(json.dumps(value).encode()) + tail


def entry(zxid, kind, body):
    """Return one transaction."""
    data = struct.pack(">qiqqi", 1, 1, zxid, 1000 + zxid, kind) + body
    return struct.pack(">q", 0) + sized(data) + b"B"


def state(leader, epoch, isr):
    """Return a partition's state as the controller writes it."""
    return {"controller_epoch": 1, "leader": leader, "version": 1, "leader_epoch": epoch, "isr": isr}


def history(log, clock):
    """Return the states up to the first damage."""
    return up_to_damage(states(writes(log), clock))


HEADER = b"ZKLG" + bytes(12)
LOG = HEADER + b"".join(
    [
        entry(1, CREATE, written(TOPIC, {"version": 3, "partitions": {"0": [1, 2, 3]}, "adding_replicas": {}})),
        entry(2, CREATE, written(STATE, state(1, 0, [1, 2, 3]))),
        entry(3, SET, written(STATE, state(1, 0, [1, 2]), version=1)),
        entry(4, DELETE, sized(b"/admin")),
        entry(5, MULTI, struct.pack(">ii", 1, SET) + sized(written(STATE, state(-1, 1, [2]), version=2))),
    ]
)


def test_states_are_told_in_order():
    """States are in order from a creation, a change and a multi; the znode's version is the partition epoch."""
    found = history(LOG, Clock([(0, 0)])).states

    assert [(s.position, s.t_ns, s.leader, s.leader_epoch, s.partition_epoch, s.isr) for s in found] == [
        (2, 1_002_000_000, 1, 0, 0, (1, 2, 3)),
        (3, 1_003_000_000, 1, 0, 1, (1, 2)),
        (5, 1_005_000_000, -1, 1, 2, (2,)),
    ]
    assert {(s.source, s.topic, s.replicas) for s in found} == {("znode", "orders", (1, 2, 3))}


def test_zeros_and_a_torn_transaction_end_the_log(tmp_path):
    """Preallocated zeros, or a torn transaction after a kill, end the log."""
    whole = len(list(writes(LOG)))
    (tmp_path / "zookeeper" / "version-2").mkdir(parents=True)
    (tmp_path / "zookeeper" / "version-2" / "log.1").write_bytes(LOG + bytes(1 << 18))

    assert len(list(writes(LOG + bytes(100)))) == whole
    assert history(LOG, Clock([])).problem is history(LOG + bytes(100), Clock([])).problem is None
    torn = history(LOG[:-2], Clock([]))
    assert torn.states == history(LOG, Clock([])).states[:-1]
    assert torn.problem is not None
    assert torn.problem.endswith("of ZooKeeper's log is torn.")
    assert len(read_znodes(tmp_path, Clock([])).states) == 3


def test_a_restarted_server_continues_in_another_file(tmp_path):
    """Each start of ZooKeeper begins a file; states there have the assignment that an earlier file holds."""
    folder = tmp_path / "zookeeper" / "version-2"
    folder.mkdir(parents=True)
    (folder / "log.1").write_bytes(LOG)
    (folder / "log.10").write_bytes(HEADER + entry(16, SET, written(STATE, state(2, 2, [2]), version=3)))
    found = read_znodes(tmp_path, Clock([])).states

    assert [(s.partition_epoch, s.replicas) for s in found[2:]] == [(2, (1, 2, 3)), (3, (1, 2, 3))]
    (folder / "log.1").unlink()
    assert [(s.partition_epoch, s.replicas) for s in read_znodes(tmp_path, Clock([])).states] == [(3, ())]


def test_znodes_of_other_kinds_tell_no_state():
    """A state that is no JSON, and a path that only looks like a state's, yield no state."""
    log = HEADER + entry(1, CREATE, written(STATE + "/x", state(1, 0, [1]))) + entry(2, CREATE, written(STATE, "x"))

    assert history(log, Clock([])).states == []


@pytest.mark.parametrize(
    "body",
    [
        (CREATE, struct.pack(">i", 5) + b"\xff\xff\xff\xff\xff" + sized(b"{}") + bytes(4)),  # a path that is no text
        (SET, sized(STATE.encode()) + sized(b"{}") + b"\0"),  # a version that is cut
        (MULTI, struct.pack(">iii", 2**31 - 1, SET, -8)),  # two thousand million transactions of -8 bytes each
        (MULTI, struct.pack(">ii", 1, MULTI) + sized(struct.pack(">i", 0))),  # one of several in another one
    ],
)
def test_a_damaged_transaction_ends_the_log(body):
    """A damaged transaction ends the log after the states before it, without an error or an endless loop."""
    log = HEADER + entry(1, CREATE, written(STATE, state(1, 0, [1]))) + entry(2, *body)

    assert [s.position for s in history(log, Clock([])).states] == [1]


@pytest.mark.parametrize(
    "said",
    [{"leader": 1}, {"leader": "1", "leader_epoch": 0, "isr": [1]}, {"leader": 1, "leader_epoch": 0, "isr": 1}],
)
def test_a_state_that_lacks_something_tells_none(said):
    """A state with a missing or malformed leader, epoch or ISR yields no state."""
    assert history(HEADER + entry(1, CREATE, written(STATE, said)), Clock([])).states == []


@pytest.mark.parametrize("topic", [{"partitions": 5}, {"partitions": {"0": "x"}}, {"partitions": {"0": [2**40]}}])
def test_an_assignment_that_is_none_has_no_replicas(topic):
    """A malformed assignment yields a state without replicas."""
    log = HEADER + entry(1, CREATE, written(TOPIC, topic)) + entry(2, CREATE, written(STATE, state(1, 0, [1])))

    assert [s.replicas for s in history(log, Clock([])).states] == [()]
