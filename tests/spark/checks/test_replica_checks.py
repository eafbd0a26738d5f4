"""The sources of a run folder opened, and the checks on them run."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pytest

from history.events import Event
from history.manifest import NodeInfo
from history.partition import TopicPartition
from history.tables import ISR, POLLS, SENDS
from kafka_files.segments import SEGMENTS
from kafka_files.states import State
from spark.checks import replica_checks
from spark.checks.invariants import Outage
from spark.checks.replica_checks import i16_no_phantom_read, i28_enough_replicas, samples_of, short_rows
from spark.checks.sources import Sources, faults, outages
from spark.checks.watermarks import Facts, Fault
from spark.folder.recorded import open_run
from spark.folder.tables import rows
from tests.spark.folders import MS, TP, S, clean, event, isr_view, manifest, polled, sample, sent


def verdict(spark, *polls):
    """(checked, violations) of I16 on a log of broker 1 that holds record 0 at offset 0, and 1 at offset 1."""
    schema = SEGMENTS.append(pa.field("broker_id", pa.int32()))
    held = [{"node": f"broker-{b}", **TP, "segment": "0.log", "position": 0, "broker_id": b} for b in (1, 2)]
    logs = [{**held[0], "offset": n, "producer_id": "load-1", "seq": n} for n in (0, 1)]
    logs.append({**held[1], "offset": 2, "producer_id": "load-1", "seq": 2})
    final = spark.createDataFrame(
        [("orders", 0, 1, 0)], "topic string, partition int, broker_id int, log_start_offset long"
    )
    found = [
        row["violated"]
        for row in i16_no_phantom_read(rows(spark, POLLS, polls), rows(spark, schema, logs), final).collect()
    ]
    return len(found), sum(found)


def test_i16_a_read_that_does_not_stand(spark):
    """Another record at offset 1, and one that only broker 2's log holds: both were given out and did not stay."""
    assert verdict(spark, polled(0, 0), polled(1, 1)) == (2, 0)
    assert verdict(spark, polled(0, 0), polled(1, 7)) == (2, 1)
    assert verdict(spark, polled(0, 0, final=False), polled(2, 2, final=False)) == (2, 1)
    assert verdict(spark, polled(5, 5, producer_id=None)) == (0, 0)


def test_i28_acknowledged_although_too_few_were_in_sync(spark):
    """ISR [1] from 5 s to 20 s in epoch 3, as leader 1 itself showed at 6 s: a send from 8 s on must be refused."""
    schema = SEGMENTS.append(pa.field("broker_id", pa.int32()))
    held = {"node": "broker-1", **TP, "segment": "0.log", "position": 0, "producer_id": "load-1"}
    logs = [held | {"broker_id": 1, "offset": n, "seq": n, "leader_epoch": 3 if n < 5 else 2} for n in range(6)]
    short = TP | {"broker_id": 1, "leader_epoch": 3, "isr": [1], "from_ns": 5 * S, "until_ns": 20 * S}
    own = isr_view(6 * S, 1, 3, [1])

    def check(at, seq=0, view=own, **other):
        asked = rows(spark, SENDS, [sent(seq, offset=seq, at_ns=int(at * S)) | other])
        told = [rows(spark, schema, logs), rows(spark, ISR, [view]), rows(spark, replica_checks.SHORT, [short])]
        found = [row["violated"] for row in i28_enough_replicas(asked, *told).collect()]
        return len(found), sum(found)

    assert check(9) == (1, 1)
    assert check(9, outcome="fail", offset=None) == (1, 0)  # refused
    assert check(9, done_ns=21 * S) == (1, 0)  # it waited until others were back
    assert check(9, done_ns=None, outcome="info", offset=None) == (1, 0)
    assert check(7) == check(21) == (0, 0)  # before the leader may be held to it, and after the end
    assert check(9, acks="1") == (0, 0)
    assert check(9, seq=5) == (0, 0)  # appended by the leader of epoch 2
    assert check(9, view=own | {"observer": "2"}) == (0, 0)  # another broker knew
    assert check(9, view=own | {"isr": [1, 2]}) == (0, 0)
    assert check(9, view=own | {"sent_ns": 4 * S}) == (0, 0)  # an answer from before


def test_an_isr_is_too_small_below_the_smallest_setting():
    """Two of three are asked for: [1] is short from 5 s on, [1, 2] is not, nor one that nobody leads."""
    states = [
        State("orders", 0, "metadata_log", n, t_ns, leader, 3, n, (1, 2, 3), isr)
        for n, (t_ns, leader, isr) in enumerate([(0, 1, (1, 2)), (5 * S, 1, (1,)), (20 * S, -1, (1,))])
    ]
    known = Facts("orders", 0, states=states, effective_min_isr=2)
    slack = {"from_ns": 5 * S + 100 * MS, "until_ns": 20 * S - 100 * MS}

    assert list(short_rows(known)) == [TP | {"broker_id": 1, "leader_epoch": 3, "isr": [1]} | slack]
    assert list(short_rows(replace(known, lowest_min_isr=1))) == []
    assert list(short_rows(replace(known, outages=[Outage(1, 6 * S, 7 * S)]))) == []
    assert list(short_rows(replace(known, outages=[Outage(2, 6 * S, 7 * S)]))) != []


def test_a_fault_has_three_times():
    """Asked for, active, healed; another step is none, and one that was never healed lasts."""
    where = {"phase": "p", "step": "pause", "target": "broker-2"}
    told = [
        event(1 * S, "inject", **where),
        event(2 * S, "injected", **where),
        event(3 * S, "injected", phase="p", step="slow", target="broker-1"),
        event(5 * S, "heal", **where),
        event(6 * S, "inject", **(where | {"step": "kill"})),
        event(7 * S, "injected", **(where | {"step": "kill"})),
    ]

    assert list(faults([Event(**each) for each in told], manifest())) == [
        Fault(2, 1 * S, 2 * S, 5 * S),
        Fault(2, 6 * S, 7 * S, 2**63 - 1),
    ]


def test_an_outage_lasts_from_the_order_to_the_proof_that_it_is_gone():
    """Of a broker, or of a controller (None); a limit on traffic is none."""
    where = {"phase": "p", "step": "disconnect", "target": "broker-2"}
    controllers = {"phase": "p", "step": "kill", "target": "controller, broker-1"}
    told = [
        event(1 * S, "inject", **where),
        event(2 * S, "injected", **where),
        event(3 * S, "inject", **controllers),
        event(4 * S, "inject", phase="p", step="limit_bandwidth", target="broker-1"),
        event(5 * S, "heal", **where),
        event(6 * S, "healed", **where),
    ]
    node = NodeInfo(name="controller", role="controller", address="10.0.0.9", node_id=100)
    run = manifest().model_copy(update={"nodes": [*manifest().nodes, node]})

    assert list(outages([Event(**each) for each in told], run)) == [
        Outage(2, 1 * S, 6 * S),
        Outage(None, 3 * S, 2**63 - 1),
        Outage(1, 3 * S, 2**63 - 1),
    ]


def test_samples_come_in_the_order_of_their_questions():
    """And without those that name no epoch."""
    literal = [sample(1, 5, 1, 1), sample(2, 3, 1, 1), sample(3, 4, 1, 1, epoch=None)]

    assert [(s.broker, s.sent_ns) for s in samples_of(pa.Table.from_pylist(literal))] == [(2, 3), (1, 5)]


@pytest.fixture
def judged(spark, tmp_path):
    """Rows of the invariants table of a clean run by name; ``nodes`` are added to its manifest."""

    def run(*nodes):
        history = clean()
        history.manifest = history.manifest.model_copy(update={"nodes": [*history.manifest.nodes, *nodes]})
        sources = Sources(open_run(spark, history.write(tmp_path / f"run-{len(nodes)}")))
        return {row["invariant"]: row for row in replica_checks.invariants(spark, sources)}

    return run


def test_behaviour_change_is_permitted_and_source_disagreement_is_not():
    """The last known leader led again, and a broker began its epoch elsewhere than the epoch files say."""
    where = TopicPartition("orders", 0)
    before = State(*where, "metadata_log", 0, 0, -1, 1, 0, (1, 2, 3), (), last_known_elr=(3,))
    after = State(*where, "metadata_log", 1, S, 3, 2, 1, (1, 2, 3), (3,), recovering=True)
    said = {"kind": "leader_started", "broker_id": 3, **TP, "leader_epoch": 2, "log_end_offset": 30, "line": 7}

    def found(states, start):
        told = SimpleNamespace(partitions=[where], states={where: states}, lines=[said], views=[])
        told.starts, told.facts = lambda _: {2: start}, lambda _: Facts(*where, states=states)
        return [(row["anomaly"], row["severity"], row["allowed"]) for row in replica_checks.anomalies(told)]

    assert found([before, after], 29) == [("source_disagreement", "S2", False), ("behaviour_change", "S2", True)]
    assert found([before, after._replace(recovering=False)], 30) == []


def test_a_history_that_is_not_owed_is_not_asked_for(judged):
    """Without a controller in the manifest only what samples, logs and views tell is judged; all of it holds."""
    found = judged()

    assert {name: row["verdict"] for name, row in found.items()} == dict.fromkeys(
        ["I4", "I12", "I13", "I14", "I16", "I19"], "pass"
    )


def test_a_history_that_is_owed_and_missing_is_unknown(judged):
    """The manifest names a controller: its log has to be there."""
    found = judged(NodeInfo(name="controller", role="controller", address="10.0.0.9", node_id=100))

    assert found["I12"]["verdict"] == "pass"
    assert found["I21"]["verdict"] == "unknown"
    assert found["I7"]["reason"] == "the controller's metadata log was not collected, or does not know the run's topics"
    assert not any(json.loads(row["evidence"] or "{}") for row in found.values())
