"""Partitions judged together: transactions over two of them, read from a run folder."""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evidence.columns import Names, Polls, Sends
from evidence.facts import Cause, Drain, PartitionFacts, Permission, Replica, RunFacts
from evidence.run import open_folder
from evidence.sources import Gaps
from history.folder import RunFolder
from history.manifest import NodeInfo
from history.partition import TopicPartition
from history.tables import POLLS, SENDS
from judge.checks import atomicity
from judge.checks.allowed import LOSS
from judge.checks.log_content import OpenEnds
from judge.run import bring_together, compare_ends, judge_partitions, judge_run, one_by_one
from judge.verdict import evidence
from judge.verdict.decided import cases_decided
from kafka_files.states import History, State
from tests.evidence.folders import MS, S, batch, clean, event, manifest, polled, sent, truncated, values

COMMITTED = {"isolation": "read_committed"}
P0, P1 = {"partition": 0}, {"partition": 1}


def of(name, outcome, *places, transaction=0):
    """Return the records of one transaction: seq n is at ``places[n]`` = (partition, offset)."""
    error = {"ok": None, "fail": "transaction_aborted", "info": "commit _TIMED_OUT"}[outcome]
    own = {"producer_id": name, "outcome": outcome, "error": error, "transaction": transaction}
    return [sent(n, offset=offset, partition=p, **own) for n, (p, offset) in enumerate(places)]


def reads(name, *found, **other):
    """Return final reads of a producer's records: (seq, partition, offset)."""
    return [polled(at, seq, producer_id=name, partition=p, **(COMMITTED | other)) for seq, p, at in found]


# Producer → its sends, the reads, and how many records were read and are lost if its transaction is torn.
# All share two partitions; the last reader reached offset 99 in both.
TORN = {
    "whole": (of("whole", "ok", (0, 0), (1, 0)), reads("whole", (0, 0, 0), (1, 1, 0)), None),
    "torn": (of("torn", "ok", (0, 1), (1, 1)), reads("torn", (0, 0, 1)), (1, 1)),
    "lost": (of("lost", "ok", (0, 2), (1, 2)), [], None),  # all of it: nothing is torn
    "half": (of("half", "info", (0, 3), (1, 3), (0, 4)), reads("half", (0, 0, 3), (2, 0, 4)), (2, 1)),
    "unknown": (of("unknown", "info", (0, 5), (1, 5)), [], None),
    "aborted": (of("aborted", "fail", (0, 6), (1, 6)), reads("aborted", (0, 0, 6)), None),  # an aborted_read instead
    "above": (of("above", "ok", (0, 7), (1, 200)), reads("above", (0, 0, 7)), None),  # above the bound, and in a log
    "cut": (of("cut", "ok", (0, 8), (1, 201)), reads("cut", (0, 0, 8)), (1, 1)),  # above the bound, and in no log
    "none": ([sent(0, producer_id="none", offset=9, **P0), sent(1, producer_id="none", offset=9, **P1)],
             reads("none", (0, 0, 9)), None),  # in no transaction
    "early": (of("early", "info", (0, 10), (1, 10)), reads("early", (0, 0, 10), isolation="read_uncommitted"), None),
    "two": ([*of("two", "ok", (0, 11)), *of("two", "ok", (0, 0), (0, 12), transaction=1)[1:]],
            reads("two", (0, 0, 11)), None),  # each transaction by itself
    "end": ([*of("end", "ok", (0, 99), (1, 99))], reads("end", (0, 0, 99), (1, 1, 99)), None),
}  # fmt: skip


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """A question for each of the two partitions of the histories above."""
    folder = RunFolder(tmp_path_factory.mktemp("run"))
    rows = {"sends": (SENDS, 0), "polls": (POLLS, 1)}
    for name, (schema, place) in rows.items():
        folder.table(name).mkdir()
        every = [row for of_producer in TORN.values() for row in of_producer[place]]
        pq.write_table(pa.Table.from_pylist(every, schema), folder.table(name) / "all.parquet")
    segment = folder.brokers / "broker-1" / "orders-1" / f"{0:020}.log"
    segment.parent.mkdir(parents=True)
    segment.write_bytes(batch(200, values(1, producer_id="above")))
    both = {"drain": Drain(100, 100, True), "assigned": (1,), "ends": {1: 201}}
    run = RunFacts(folder.path, transactional=True, nodes={1: "broker-1"})
    return run, [
        PartitionFacts(TopicPartition("orders", 0), **both),
        PartitionFacts(TopicPartition("orders", 1), replicas=(Replica(1, [segment], None),), **both),
    ]


@pytest.fixture(scope="module")
def told(asked):
    """The examples of every anomaly, by its name and producer."""
    findings = bring_together(*judge_partitions(*asked, one_by_one), Gaps([]))
    rows = [row | {"anomaly": kind.anomaly} for kind, examples in findings.examples.items() for row in examples]
    return {name: {r["producer_id"]: r for r in rows if r["anomaly"] == name} for name in {r["anomaly"] for r in rows}}


def test_torn_transaction(told):
    """A transaction is torn if some of its records were read and others are lost, unless it was aborted."""
    torn = told["torn_transaction"]

    assert {name: (row["evidence"]["read"], row["evidence"]["gone"]) for name, row in torn.items()} == {
        name: counts for name, (_, _, counts) in TORN.items() if counts
    }
    assert (torn["half"]["seq"], torn["half"]["partition"], torn["half"]["offset"]) == (1, 1, 3)
    assert torn["half"]["explanation"] == (
        "Transaction 0 of half is torn: 2 of its 3 records were read and 1 were lost, first record half/1."
    )


KEPT = State("orders", 0, "metadata_log", 0, 5 * S, 1, 0, 0, (1, 2, 3), (1, 2, 3))
SHRUNK = KEPT._replace(t_ns=11 * S, partition_epoch=1, isr=(1, 2))
OUTSIDER = KEPT._replace(t_ns=12 * S, partition_epoch=1, leader=3, leader_epoch=1, isr=(3,))


@pytest.mark.parametrize(
    ("states", "permits"),
    [
        ([KEPT._replace(isr=(1, 2)), OUTSIDER], True),
        ([KEPT, OUTSIDER], False),  # an ordinary election
        ([KEPT, SHRUNK], False),
        ([SHRUNK], None),
    ],
)
def test_a_transaction_is_torn_by_what_may_have_taken_its_records(asked, states, permits):
    """A torn transaction is permitted by a cause in the partition of its lost record, not by one elsewhere."""
    run, (one, other) = asked
    permitted = {"torn": {"torn_transaction": [Permission("an unclean election", Cause.UNCLEAN_LEADER)]}}
    other = replace(other, states=[state._replace(partition=1) for state in states])
    findings = bring_together(*judge_partitions(replace(run, permitted=permitted), [one, other], one_by_one), Gaps([]))
    kinds = {kind for kind, rows in findings.examples.items() if "torn" in {row["producer_id"] for row in rows}}

    [torn] = [kind for kind in kinds if kind.anomaly == "torn_transaction"]
    assert (torn.allowed_why == "an unclean election") is (permits is True)
    assert torn.allowed is permits


def test_one_record_that_was_read_proves_its_transaction(told):
    """One read record of an unknown transaction proves its commit, so its unread records are lost."""
    assert told["lost_write"].keys() == {"torn", "lost", "half", "none", "two"}


def test_an_aborted_record_that_a_committed_reader_saw(told):
    """A read_committed reader that got an aborted record is the only aborted read."""
    aborted = told["aborted_read"]

    assert [(name, row["seq"], row["offset"]) for name, row in aborted.items()] == [("aborted", 0, 6)]
    assert "failed for good (transaction_aborted)" in aborted["aborted"]["explanation"]


def test_uncommitted_reads_prove_nothing_of_open_transactions():
    """Reads of read_uncommitted consumers count for committed transactions and plain records only."""
    names = Names()
    sends = [*of("ok", "ok", (0, 0)), *of("fail", "fail", (0, 1)), *of("info", "info", (0, 2))]
    sends.append(sent(0, producer_id="x", outcome="fail"))
    columns = Sends.of(pa.Table.from_pylist(sends, SENDS), names)
    early = [polled(n, 0, producer_id=name) for n, name in enumerate(("ok", "fail", "info", "x"))]

    def kept(polls):
        found = atomicity.stable(Polls.of(pa.Table.from_pylist(polls, POLLS), names), columns)
        return sorted(names.name(value)[0] for value in found.value.tolist())

    assert kept(early) == ["ok", "x"]
    assert kept([row | COMMITTED for row in early]) == ["fail", "info", "ok", "x"]


def test_what_one_partition_lacks_of_the_history_another_does_not_make_good():
    """A partition without a state is named; the reason why reading stopped early applies to all."""
    places = [TopicPartition("orders", number) for number in (0, 1)]
    run = SimpleNamespace(partitions=places, states={places[0]: [KEPT]}, history=History([]), manifest=manifest())
    gaps = Gaps(evidence._history(run))

    assert gaps.of({"history", "dates"}, places[0]) is None
    assert (
        gaps.of({"history"}, places[1]) == "The controller's metadata log was not collected, or does not know orders-1."
    )
    assert Gaps(evidence._history(replaced(run, history=History([], "It is torn.")))).of({"dates"}, places[0]) == (
        "The controller's metadata log is incomplete. It is torn."
    )


def replaced(run, **changes):
    """Return the run with some attributes changed."""
    return SimpleNamespace(**vars(run) | changes)


def test_the_ends_of_a_transaction_are_compared_over_all_partitions():
    """Ends of a transaction with unknown outcome must agree over all partitions."""
    one = OpenEnds({("p", 0): Counter(abort=2)}, {(("p", 0), "abort"): (5, {"topic": "t", "partition": 0})})
    other = OpenEnds({("p", 0): Counter(commit=1)}, {(("p", 0), "commit"): (7, {"topic": "t", "partition": 1})})

    def tally(*parts):
        found = compare_ends(OpenEnds().merge(parts))
        return found.checked, found.violations

    assert tally(one, other) == (3, 1)
    assert tally(one) == (2, 0)


def replace_cached(run, *, states, **changes):
    """Return an opened run with other fields, and these states as the controller's history."""
    changed = replace(run, **changes)
    changed.__dict__["states"] = states
    return changed


def owing(run):
    """Return the run with a controller, so that its history is required."""
    controller = NodeInfo(name="controller-9", role="controller", address="10.0.0.9")
    manifest = run.manifest.model_copy(update={"nodes": [*run.manifest.nodes, controller]})
    return replace_cached(run, manifest=manifest, states=run.states)


def with_follower_killed(tmp_path, states, **settings):
    """Return a run in which a follower is killed and ten acknowledged records are in no log."""
    history = clean(faults=["kill"], **settings)
    history.logs = {broker: [(0, 0, values(*range(20))), (30, 0, values(*range(30, 50)))] for broker in (1, 2, 3)}
    history.polls = [row for row in history.polls if not 20 <= row["offset"] < 30]
    run = open_folder(history.write(tmp_path / "run"))
    return replace_cached(run, states={TopicPartition("orders", 0): states} if states else {})


ACKS_1 = {"acks": "1", "idempotence": False}
UNCLEAN = {"config": {"unclean.leader.election.enable": "true"}}


@pytest.mark.parametrize(
    ("settings", "states", "permits"),
    [
        (ACKS_1, [KEPT, SHRUNK], False),
        (ACKS_1, [], None),
        (ACKS_1, [SHRUNK], None),  # the history begins with a snapshot, after the records were sent
        (ACKS_1, [SHRUNK._replace(t_ns=8 * S)], False),  # before they were
        (UNCLEAN, [KEPT, SHRUNK], False),
        (UNCLEAN, [], None),
        (UNCLEAN, [SHRUNK], None),
    ],
)
def test_a_fault_permits_a_loss_that_a_new_leader_may_have_brought_about(tmp_path, settings, states, permits):
    """A killed follower permits no loss; without the controller's history the loss is undecided."""
    run = with_follower_killed(tmp_path, states, **settings)
    counted = judge_run(run, one_by_one).tables["anomaly_counts"].to_pylist()

    assert [(row["cases"], row["allowed"]) for row in counted if row["anomaly"] == "lost_write"] == [(10, permits)]


def test_an_undecided_loss_names_what_the_history_lacks(tmp_path):
    """An undecided loss names the gap of the history, and invariants that need the history have the same reason."""
    judged = judge_run(owing(with_follower_killed(tmp_path, [SHRUNK], **ACKS_1)), one_by_one)
    counted = judged.tables["anomaly_counts"].to_pylist()
    [why] = {row["undecided"] for row in counted if row["anomaly"] == "lost_write"}
    invariants = {row["invariant"]: row for row in judged.tables["invariants"].to_pylist()}

    assert why == "the controller's history of orders-0 begins at partition epoch 1 (a snapshot at offset 0)"
    assert (invariants["I9"]["verdict"], invariants["I9"]["reason"]) == ("unknown", f"T{why[1:]}")
    item, sentence = cases_decided([row for row in counted if row["anomaly"] == "lost_write"])
    assert (item, sentence) == ("every case decided", f"Whether 10 x lost_write violate a guarantee is unknown: {why}.")


def test_where_nobody_led_uncleanly_all_is_checked_that_a_clean_topic_owes(tmp_path):
    """If the history shows no unclean election, all invariants of a clean topic are checked, such as I15."""

    def checked(name, states):
        run = with_follower_killed(tmp_path / name, states, **UNCLEAN)
        return {row["invariant"]: row["verdict"] for row in judge_run(run, one_by_one).tables["invariants"].to_pylist()}

    assert checked("told", [KEPT, SHRUNK])["I15"] == "fail"
    assert "I15" not in checked("untold", [])


@pytest.mark.parametrize(
    ("settings", "states", "untold"),
    [
        (UNCLEAN, [KEPT, SHRUNK], False),
        (UNCLEAN, [SHRUNK], True),
        (UNCLEAN, [SHRUNK, OUTSIDER._replace(partition_epoch=2)], False),  # an unclean election, as the rest shows
        ({}, [SHRUNK], False),  # the topic permits none
    ],
)
def test_a_topic_is_not_left_unchecked_for_want_of_a_history(tmp_path, settings, states, untold):
    """If the history cannot show whether a replica outside the ISR led, evidence is missing."""
    run = owing(with_follower_killed(tmp_path, states, **settings))
    missing = dict(judge_run(run, one_by_one).items)["elections told"]

    assert missing == (
        "Whether a replica from outside the ISR led orders-0 is unknown: its history is not whole." if untold else None
    )


UNCLEAN_END = "Producer load-1 did not end cleanly: its ledger may lack sends"


@pytest.mark.parametrize(
    ("kept", "clean_end", "lacking"),
    [
        (47, False, f"{UNCLEAN_END}, and 3 that were written are not in it."),
        (50, False, f"{UNCLEAN_END}."),
        (47, True, "The ledger of load-1 holds 47 of 50 sends."),
    ],
)
def test_what_a_killed_producer_did_not_record_is_counted(tmp_path, kept, clean_end, lacking):
    """Records that a killed producer did not record are counted once each, from reads and logs."""
    history = clean()
    history.sends = history.sends[:kept]
    words = {"rows": 50, "last_seq": 49} if clean_end else {}
    history.clients = {"load-1": {"role": "producer", "clean": clean_end, **words}}
    judged = judge_run(open_folder(history.write(tmp_path / "run")), one_by_one)

    assert dict(judged.items)["sends ledgered"] == lacking


def test_a_leader_that_takes_over_may_take_what_acks_1_acknowledged(tmp_path):
    """A leader change permits the loss of records acknowledged with acks=1, as the controller's history shows."""
    run = open_folder(truncated().write(tmp_path / "run"))
    taken = KEPT._replace(t_ns=10 * S + 398 * MS, leader=2, leader_epoch=1, partition_epoch=1, isr=(2, 3))
    run.__dict__["states"] = {TopicPartition("orders", 0): [KEPT, taken]}
    counted = judge_run(run, one_by_one).tables["anomaly_counts"].to_pylist()

    found = {row["anomaly"]: row["allowed"] for row in counted if row["anomaly"] in LOSS}
    assert found == dict.fromkeys(
        ("lost_write", "inconsistent_offset", "nonmonotonic_send", "realtime_order_violation"), True
    )


def test_a_leader_that_was_killed_does_not_excuse_what_its_successor_loses(tmp_path):
    """The end of the former leader does not permit losses of records that its successor acknowledged."""
    history = truncated()
    history.polls = [row for row in history.polls if row["seq"] not in {45, 46}]
    log = [(0, 0, values(*range(30))), (30, 1, values(*range(40, 45))), (37, 1, values(47, 48, 49))]
    history.logs = dict.fromkeys(history.logs, log)
    run = open_folder(history.write(tmp_path / "run"))
    taken = KEPT._replace(t_ns=10 * S + 398 * MS, leader=2, leader_epoch=1, partition_epoch=1, isr=(2, 3))
    judged = judge_run(replace_cached(run, states={TopicPartition("orders", 0): [KEPT, taken]}), one_by_one)
    found = [row for row in judged.tables["anomalies"].to_pylist() if row["anomaly"] == "lost_write"]

    assert {row["seq"]: row["allowed"] for row in found} == dict.fromkeys(range(30, 40), True) | {45: False, 46: False}


@pytest.mark.parametrize(
    ("events", "timeout_s", "permits"),
    [
        ([], 10.0, False),
        ([], None, None),
        ([], 0.001, True),
        ([event(10 * S, "inject", step="pause", target="broker-1")], 10.0, True),
        ([event(10 * S, "inject", step="pause", target="member-1")], 10.0, False),
    ],
)
def test_a_record_stands_twice_only_where_its_client_may_have_sent_it_again(tmp_path, events, timeout_s, permits):
    """A duplicate is permitted only if its client may have retried: a late answer, or a fault of a broker."""
    history = clean(idempotence=False, load="producer")
    timed = {} if timeout_s is None else {"request_timeout": timeout_s}
    history.manifest = history.manifest.model_copy(update={"scenario": {"load": {"topic": "orders", **timed}}})
    history.polls.append(polled(50, 7))
    history.logs = {broker: [(0, 0, values(*range(50), 7))] for broker in history.logs}
    history.end_offset = 51
    history.events[2:2] = events
    run = open_folder(history.write(tmp_path / "run"))
    judged = judge_run(replace_cached(run, states={TopicPartition("orders", 0): [KEPT]}), one_by_one)
    counted = judged.tables["anomaly_counts"].to_pylist()

    assert [row["allowed"] for row in counted if row["anomaly"] == "duplicate"] == [permits]


def judged_reader(folder, position, still_s):
    """Return I37's verdict and the missing evidence; the live consumer stayed at this position for ``still_s``."""
    history = clean()
    history.manifest = history.manifest.model_copy(update={"patience_s": 30.0})
    told = {"still_since_ns": (90 - still_s) * S, "told": {"consumer": 89 * S}}
    history.events.append(event(90 * S, "step", step="catch_up", detail=told))
    history.clients["consumer"] = {"role": "consumer", "clean": True, "started_ns": 9 * S, "ended_ns": 91 * S}
    written = history.write(folder)
    written.table("positions").mkdir()
    row = {"reader": "consumer", "topic": "orders", "partition": 0, "position": position, "told_ns": 89 * S}
    types = [("reader", pa.string()), ("topic", pa.string()), ("partition", pa.int32())]
    schema = pa.schema(
        [pa.field(*of, nullable=False) for of in types]
        + [pa.field("position", pa.int64()), pa.field("told_ns", pa.int64(), nullable=False)]
    )
    pq.write_table(pa.Table.from_pylist([row], schema), written.table("positions") / "positions.parquet")
    judged = judge_run(open_folder(written), one_by_one)
    verdicts = {row["invariant"]: row["verdict"] for row in judged.tables["invariants"].to_pylist()}
    return verdicts.get("I37"), [why for _, why in judged.items if why and "stood at" in why]


def test_a_live_consumer_with_none_of_the_records_does_not_pass(tmp_path):
    """A live consumer without the drained records fails I37; one that read all of them passes."""
    assert judged_reader(tmp_path / "stuck", 0, still_s=60) == ("fail", [])
    assert judged_reader(tmp_path / "read", 50, still_s=60) == ("pass", [])


def test_a_reader_that_may_yet_come_to_the_end_leaves_the_run_undecided(tmp_path):
    """A reader that has not yet exceeded its time leaves the run undecided."""
    verdict, missing = judged_reader(tmp_path / "early", 20, still_s=10)
    assert verdict == "unknown"
    assert missing == [
        "The reader consumer of orders-0 stood at 20 of 50 when the clients were ended; it had been so for 10 s of "
        "the 30 s that prove a reader stuck."
    ]
