"""Missing evidence is named; complete evidence is not mentioned."""

from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clusters.scenario.steps.catalog import traits_by_step
from evidence import counts as counted
from evidence.columns import Names, Polls, Seeks, Sends
from evidence.facts import Input
from evidence.faults import fault_spans
from evidence.gather import gather
from evidence.log_rows import last_offsets_of, log_rows
from evidence.partition import Unreadable
from evidence.reader import Tables
from evidence.run import open_folder, producers
from evidence.samples import Samples
from evidence.silences import silences
from expectations.tallies import Tallies
from history.errors import EvidenceError
from history.events import Event
from history.folder import RunFolder
from history.partition import TopicPartition
from history.tables import RECORDED
from judge.checks.premises import Premises
from judge.run import partition_facts, run_facts
from judge.verdict import evidence
from kafka_files.segments import segment_files
from tests.evidence.folders import MS, S, clean, event, happened, manifest, sample, truncated

WHERE = TopicPartition("orders", 0)


def count(run):
    """Return the counts of a run with the single partition orders-0."""
    tables, names = Tables(run.folder), Names()
    read = {name: tables.read(name, WHERE) for name in ("sends", "polls", "seeks", "replicas")}
    columns = (Sends.of(read["sends"], names), Polls.of(read["polls"], names), Seeks.of(read["seeks"], names))
    samples, rows = Samples.of(read["replicas"]), {name: tables.rows(name) for name in ("replicas", "isr")}
    phases, brokers = run.phases, {broker_id for broker_id, _, _ in evidence.assigned(run.manifest)}
    silent = silences(run.files["replicas"], evidence.watched(run.events), brokers, [])
    tallies = Tallies(rows=Counter({name: tables.rows(name) for name in evidence.HAVE_ROWS}))
    return counted.Counts(silences=silent, tallies=tallies).merge(
        [
            counted.of_clients(*columns, names),
            counted.of_replicas(WHERE, samples, phases, rows=rows["replicas"], isr_rows=rows["isr"]),
            counted.of_captures(run.captures),
            *_logs(run),
        ]
    )


def _logs(run):
    for node in run.manifest.brokers:
        if files := segment_files(run.folder.brokers / node.name):
            rows = pa.concat_tables(map(log_rows, files))
            end = counted.log_end(files[-1], max(last_offsets_of(rows).values(), default=None))
            unreadable = [Unreadable(node.node_id, node.name, None, p) for p in rows["problem"].drop_null().to_pylist()]
            yield counted.of_logs(WHERE, {node.node_id: end}, unreadable, {})


def members(run):
    """Return the brokers of the final ISR whose logs are known to be whole."""
    premises = Premises(run)
    (facts,) = partition_facts(premises)
    return set(gather(run_facts(premises), facts).evidence.members)


def missing(history, path, spoil=None):
    """Return item → missing evidence of a written history; ``spoil`` damages the folder first."""
    folder = history.write(path)
    if spoil:
        spoil(folder)
    run = open_folder(folder)
    return {item: what for item, what in evidence.items(evidence.gaps(run, count(run))) if what}


def test_a_complete_run_lacks_nothing(tmp_path):
    """A complete run has no missing evidence."""
    assert missing(truncated(), tmp_path / "run") == {}


@pytest.mark.parametrize(
    ("letters", "told"), [(100, "; last seen: xxx"), (400, "; events.jsonl has what was last seen.")]
)
def test_the_ends_of_logs_are_no_reason(letters: int, told: str, tmp_path: Path) -> None:
    """A harness time-out is reported with its condition, and with the last observation only if that is short."""
    history = truncated()
    history.events = [event(S, "error", detail={"why": f"Waited 60 s for 3 brokers; last seen: {'x' * letters}"})]
    reason = missing(history, tmp_path / "run")["no harness error"]

    assert "Waited 60 s for 3 brokers" in reason
    assert told in reason
    assert len(reason) < 200


def test_everything_that_can_be_missing_is_named(tmp_path):
    """In a run without most of its evidence, each item names what is missing."""
    history = clean(faults=["kill"])
    history.events = [event(S, "error", detail={"message": "the disk is full"})]
    history.sends = []
    history.replicas = [row for row in history.replicas if row["broker_id"] != 3]
    history.logs[2] = [(0, 0, [b"short"])]
    history.clients = {"load-1": {"role": "producer", "clean": False}, "drain-1": {"role": "drain", "clean": True}}

    def spoil(folder: RunFolder):
        (folder.brokers / "broker-1" / "server.log").unlink()
        (folder.table("polls") / "all.parquet").write_bytes(b"PAR1")

    history.manifest = history.manifest.model_copy(update={"scenario": {"phases": [{"steady": []}]}})
    found = missing(history, tmp_path / "run", spoil)

    assert next(iter(found)) == "no harness error"
    assert set(found) == {
        "files readable", "rows recorded", "run collected", "no harness error", "every phase run",
        "faults took effect", "sends ledgered", "something acknowledged",
        "final drain complete", "every replica probed", "offsets captured before", "offsets captured after",
        "segments of every replica", "broker logs",
    }  # fmt: skip
    assert "the disk is full" in found["no harness error"]
    assert found["rows recorded"] == "The recorded table sends has no rows. (1 more of this kind)"
    assert "'steady' was never begun" in found["every phase run"]
    assert "exported up to 1; its end was 50" in found["segments of every replica"]
    assert "on broker 3 was never seen" in found["every replica probed"]


CRASH = {"incarnation": 1, "exit_status": 1, "log": ["[main] ERROR kafka.Kafka - out of luck", "bye"]}
CORRUPT = {"incarnation": 1, "exit_status": 1, "log": ["[main] ERROR CorruptRecordException: CRC", "bye"]}
SESSION = {"incarnation": 2, "exit_status": 1, "log": ["KeeperException$NodeExistsException: NodeExists", "bye"]}


@pytest.mark.parametrize(
    ("mode", "fault", "detail", "found"),
    [
        ("kraft", ("kill", "broker-1", 15), CRASH, True),  # of another broker
        ("kraft", ("kill", "broker-2", 15), CRASH, False),  # until its healing begins
        ("kraft", ("kill", "broker-2", 11), CRASH, True),  # on its way back
        ("kraft", ("flip_bit", "broker-2", 11), CRASH, True),  # for a reason that is not its files
        ("kraft", ("flip_bit", "broker-2", 11), CORRUPT, False),  # what it changed stays changed
        ("zookeeper", ("kill", "broker-2", 11), SESSION, False),
        ("kraft", ("kill", "broker-2", 11), SESSION, True),
    ],
)
def test_a_server_that_ended_by_itself_is_missing_evidence(tmp_path, mode, fault, detail, found):
    """A server that ended by itself is missing evidence, unless its fault or the ZooKeeper session explains it."""
    step, target, healed_s = fault
    history = clean()
    history.manifest = history.manifest.model_copy(update={"mode": mode, "traits": traits_by_step()})
    history.events = [
        event(10 * S, "inject", step=step, target=target),
        event(12 * S, "server_exited", target="broker-2", detail=detail),
        event(healed_s * S, "heal", step=step, target=target),
    ]
    what = missing(history, tmp_path / "run").get("no server ended by itself", "")

    assert bool(what) == found
    if found:
        assert what.startswith("broker-2 ended by itself with exit status 1, and no fault explains it")
    if found and detail == CRASH:
        assert what.endswith("explains it: [main] ERROR kafka.Kafka - out of luck")


@pytest.mark.parametrize("answers", [True, False])
def test_the_probe_is_never_silent(tmp_path, answers):
    """Seconds without any row about a broker are missing evidence; a row with an error is evidence."""
    history = clean()
    history.events = [event(10 * S, "phase_started", phase="steady"), event(19 * S, "quiesced")]
    silent = {"error": "timeout", "leader_epoch": None}
    words = [sample(b, 11 * S + n * 500 * MS, None, None, **silent) for n in range(8) for b in (1, 2, 3)]
    history.replicas += [row for row in words if answers or row["broker_id"] != 2]
    run = open_folder(history.write(tmp_path / "run"))

    found = list(evidence._silent(run.events, count(run).silences))
    assert found == ([] if answers else ["The probe said nothing of broker 2 for 4.5 s, from 'steady' on."])


def test_every_broker_is_probed_in_every_phase(tmp_path):
    """Every broker needs one good answer per phase, unless a fault left it less than 3 s."""
    history = clean()  # no sample from 10.5 s to 15 s
    history.events = [
        event(10 * S, "phase_started", phase="steady"), event(11 * S, "phase_ended", phase="steady"),
        event(11 * S, "phase_started", phase="dark"), event(14 * S + 500 * MS, "phase_ended", phase="dark"),
        event(14 * S + 500 * MS, "phase_started", phase="later"), event(19 * S, "phase_ended", phase="later"),
        event(12 * S, "inject", phase="dark", step="pause", target="broker-1, broker-2"),
        event(13 * S, "healed", phase="dark", step="pause", target="broker-1, broker-2"),
    ]  # fmt: skip
    late = {"error": "timeout", "high_watermark": None, "log_end_offset": None}
    history.replicas += [sample(3, 12 * S, None, None) | late]
    run = open_folder(history.write(tmp_path / "run"))
    counts = count(run)

    assert counts.probed_in == {(phase, number) for phase in ("steady", "later") for number in (1, 2, 3)}
    (gap,) = evidence._unprobed(run, counts)
    assert gap.why == "The probe had no good answer of broker 3 in the phase 'dark'."


@pytest.mark.parametrize(
    ("step", "target", "mute"),
    [
        ("kill", "broker-1", [(1, 9)]),
        ("kill", "broker-11", []),
        ("disconnect", "broker-1", []),  # the probe's port stays open
        ("reassign", "broker-2", [(1, 9)]),  # its replicas may be elsewhere
    ],
)
def test_some_faults_keep_a_broker_from_answering(step, target, mute):
    """Only faults that keep a broker from answering excuse it, and a reassignment counts for its target."""
    told = [happened(at, kind, step=step, target=target) for at, kind in ((1, "inject"), (9, "healed"))]

    assert list(evidence._mute(fault_spans(told), manifest(), "broker-1")) == mute


CUT_OFF = "did not end cleanly: it may have seen less than there was."


@pytest.mark.parametrize(
    ("name", "words", "said"),
    [
        ("prober", {"clean": True, "rows": 9, "isr_rows": 4}, []),
        ("prober", {"rows": 9, "isr_rows": 4}, [f"The prober c {CUT_OFF}"]),
        ("prober", {"clean": True, "rows": 9, "isr_rows": 5}, ["Of 5 isr rows that c wrote 4 are there."]),
        ("consumer", {"clean": True, "rows": 7}, []),
        ("consumer", {"clean": True, "rows": 8}, ["Of 8 rows that c wrote 7 are there."]),
        ("consumer", {"clean": True, "rows": 7, "seeks": 1}, []),
        ("consumer", {"clean": True, "rows": 7, "seeks": 2}, ["Of 2 seeks that c wrote 1 are there."]),
        ("consumer", {"clean": False, "rows": 0}, [f"The consumer c {CUT_OFF}"]),
        ("producer", {"clean": False, "rows": 8}, []),
        ("drain", {"clean": True, "rows": 7, "unreadable": {}}, []),
        (
            "drain",
            {"clean": True, "rows": 7, "unreadable": {"orders-0": "from offset 5 on: EOFError: no end"}},
            ["The drain c read orders-0 no further, from offset 5 on: EOFError: no end."],
        ),
    ],
)
def test_who_watched_must_have_ended_in_order(name, words, said):
    """Prober and readers must have ended in order, with all rows that they reported."""
    run = SimpleNamespace(clients=[PROBED, {"client_id": "c", "role": name, **words}], manifest=manifest())
    counts = SimpleNamespace(read={"c": 7}, sought={"c": 1}, probed={"rows": 9, "isr_rows": 4})

    gaps = [*evidence._of_prober(run, counts), *evidence._of_readers(run, counts)]
    assert [gap.why for gap in gaps] == said


PROBED = {"client_id": "probe-1", "role": "prober", "clean": True}
NOBODY_KNOWS = "wrote no final report: how much it read is unknown."


@pytest.mark.parametrize(
    ("scenario", "words", "said"),
    [
        ({}, {"probe-1": "prober", "consumer-1": "consumer", "drain-1": "drain"}, []),
        ({}, {"probe-1": "prober", "drain-1": "drain"}, [f"The reader consumer-1 {NOBODY_KNOWS}"]),
        ({}, {"consumer-1": "consumer", "drain-1": "drain"}, ["The prober wrote no final report."]),
        (
            {"load": {"topic": "orders"}, "phases": [{"one": [{"read": {}}]}, {"two": [{"read": {}}]}]},
            {"probe-1": "prober", "consumer-1": "consumer", "drain-1": "drain", "read-1": "consumer"},
            [f"The reader consumer {NOBODY_KNOWS}", f"The reader read-2 {NOBODY_KNOWS}"],
        ),
        (
            {"load": {"topic": "orders"}},
            {"probe-1": "prober", "consumer": "consumer", "consumer-1": "consumer", "drain-1": "drain"},
            [],
        ),
    ],
)
def test_who_watched_must_have_left_words(scenario, words, said):
    """Prober, consumer and readers that the scenario requires must have left a summary."""
    clients = [{"client_id": name, "role": role, "clean": True} for name, role in words.items()]
    run = SimpleNamespace(clients=clients, manifest=manifest().model_copy(update={"scenario": scenario}))
    counts = SimpleNamespace(read={"consumer-1": 7, "drain-1": 7}, sought={"consumer-1": 1}, probed={})

    gaps = [*evidence._of_prober(run, counts), *evidence._of_readers(run, counts)]
    assert [gap.why for gap in gaps] == said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"answers": 1, "errors": {"timeout": 3}}, []),
        ({"rows": 0}, []),  # a load's consumer, or a summary without the count
        (
            {"answers": 0, "errors": {"timeout": 3, "NOT_LEADER_OR_FOLLOWER": 1}},
            ["1 x NOT_LEADER_OR_FOLLOWER, 3 x timeout"],
        ),
        ({"answers": 0, "errors": {}}, ["it asked nothing"]),
    ],
)
def test_a_read_must_have_been_answered(words, said):
    """A read step needs one good answer; missing counts prove nothing."""
    told = [f"The consumer read-1 had no good answer: {why}." for why in said]

    assert list(evidence._unanswered([{"client_id": "read-1", "role": "consumer", **words}])) == told


def of(kind, t_ns=0, **detail):
    """Return an event about a pause of broker-1."""
    return Event(t_ns, "", kind, "p", "pause", "broker-1", detail)


def test_a_fault_must_take_effect_and_heal():
    """A fault needs a verified effect and a verified recovery."""
    bit, gone = of("injected", effect_verified=True), of("healed", 1, recovery_verified=True)

    assert list(evidence._took_no_effect(fault_spans([bit]), ["pause"])) == []
    assert len(list(evidence._took_no_effect(fault_spans([bit]), ["pause", "pause"]))) == 1
    assert len(list(evidence._took_no_effect(fault_spans([of("injected", effect_verified=False)]), ["pause"]))) == 2
    assert list(evidence._not_healed(fault_spans([bit, gone]))) == []
    assert len(list(evidence._not_healed(fault_spans([bit])))) == 1
    assert len(list(evidence._not_healed(fault_spans([bit, of("healed", 1, recovery_verified=False)])))) == 1


def test_a_limit_must_hold_something_back():
    """A limit must have held something back; bytes through it show only that it existed."""
    bit, bound, idle = (
        of("injected", effect_verified=True),
        of("healed", recovery_verified=True, held_back=3),
        of("healed", recovery_verified=True, held_back=0),
    )

    assert list(evidence._took_no_effect(fault_spans([bit, bound]), ["pause"])) == []
    assert list(evidence._took_no_effect(fault_spans([bit, of("healed", recovery_verified=True)]), ["pause"])) == []
    assert list(evidence._took_no_effect(fault_spans([bit, idle]), ["pause"])) == [
        "The fault pause of broker-1 never held anything back."
    ]


def test_a_phase_must_be_run_to_its_end():
    """A phase that began must have ended."""
    config = manifest().model_copy(update={"scenario": {"phases": [{"p": []}]}})
    begun, ended = Event(0, "", "phase_started", "p"), Event(1, "", "phase_ended", "p")

    assert list(evidence._phases_left([begun, ended], config)) == []
    assert list(evidence._phases_left([begun], config)) == ["The phase 'p' was not run to its end."]


COPIES = TopicPartition("copies", 0)
COPIER = {"client_id": "copier", "role": "copier", "clean": True, "committed": {"orders-0": 40}}


def copying(*clients):
    """Return a run in which a copier reads orders and writes copies."""
    told = manifest()
    settings = {**told.scenario, "load": {"topic": "orders"}, "copier": {"to": "copies"}}
    return SimpleNamespace(clients=list(clients), manifest=told.model_copy(update={"scenario": settings}))


def test_a_copiers_input_is_the_partition_of_the_same_number():
    """A copier's input is the partition of the same number, with the committed offset and whether it was drained."""
    drained = {"partitions": {"orders-0": {"position": 40, "end_offset": 40, "complete": True}}}
    run = copying(COPIER, {"client_id": "drain", "role": "drain", "clean": True, **drained})

    assert evidence.input_of(run, COPIES) == Input(WHERE, 40, whole=True)
    assert evidence.input_of(copying(), COPIES) == Input(WHERE, 0, whole=False)
    assert evidence.input_of(run, WHERE) is None
    assert evidence.input_of(SimpleNamespace(clients=[COPIER], manifest=manifest()), COPIES) is None


def test_a_copiers_input_is_the_topic_of_the_load_that_it_names():
    """With several loads, a copier's input is the topic of the load that it names."""
    run = copying(COPIER)
    loads = {"a": {"topic": "logs"}, "b": {"topic": "orders"}}
    settings = {"load": None, "loads": loads, "copier": {"to": "copies", "load": "b"}}
    named = SimpleNamespace(clients=[COPIER], manifest=run.manifest.model_copy(update={"scenario": settings}))

    assert evidence.input_of(named, COPIES) == Input(WHERE, 40, whole=False)


@pytest.mark.parametrize(
    ("clients", "copies", "why"),
    [
        ([COPIER], counted.Copies(40, 0), []),
        ([COPIER], counted.Copies(30, 10), ["10 records to copy to copies-0 are above the offset"]),
        ([COPIER], counted.Copies(0, 0), ["The copier committed nothing"]),
        ([{**COPIER, "clean": False}], counted.Copies(40, 0), ["The copier did not end cleanly"]),
        ([], counted.Copies(40, 0), ["The copier did not end cleanly"]),
    ],
)
def test_a_copier_that_did_not_come_to_the_end_leaves_it_open(clients, copies, why):
    """A copier that did not reach the end leaves missing evidence."""
    held = counted.Counts(copies={COPIES: copies})
    found = list(evidence._copied(copying(*clients), held))

    assert len(found) == len(why)
    assert all(sentence.startswith(start) for sentence, start in zip(found, why, strict=True))
    assert list(evidence._copied(SimpleNamespace(clients=[], manifest=manifest()), counted.Counts())) == []


def test_events_that_are_no_events_are_bad_evidence(tmp_path):
    """An invalid event line is rejected with the file's name."""
    folder = clean().write(tmp_path / "run")
    folder.events.write_text("{}\n")

    with pytest.raises(EvidenceError, match=r"Line 1 of events\.jsonl is no event"):
        open_folder(folder)


@pytest.mark.parametrize(("kept", "rows", "whole"), [(50, 50, True), (49, 50, False), (0, 50, False), (50, 49, True)])
def test_a_ledger_that_was_cut_short_is_not_whole(tmp_path, kept, rows, whole):
    """A ledger with fewer sends than its producer reported is incomplete."""
    history = clean()
    history.sends = history.sends[:kept]
    history.clients = {"load-1": {"role": "producer", "clean": True, "rows": rows, "last_seq": 49}}
    run = open_folder(history.write(tmp_path / "run"))

    sends = Tables(run.folder).counted("sends", "producer_id")
    assert evidence.unclean_producers(run, sends) == (set() if whole else {"load-1"})


@pytest.mark.parametrize(
    ("words", "settings", "gave_up"),
    [
        ({"indeterminate": 3}, {}, True),
        ({"clean": False}, {}, True),  # the summary has no count
        ({}, {}, False),
        ({"indeterminate": 3}, {"idempotence": False}, False),  # nothing of it depends on an epoch
        ({"indeterminate": 3}, {"transaction_timeout_ms": 60_000}, False),  # its transaction is aborted instead
    ],
)
def test_who_may_have_raised_its_epoch(tmp_path, words, settings, gave_up):
    """An idempotent producer with unanswered records may have raised its epoch."""
    history = clean()
    history.manifest = manifest(**settings)
    history.clients = {"load-1": {"role": "producer", "clean": True, "rows": 50, "indeterminate": 0} | words}
    run = open_folder(history.write(tmp_path / "run"))

    assert evidence.gave_up(run) == ({"load-1"} if gave_up else set())


@pytest.mark.parametrize(("engine", "words", "whole"), [
    ("raw", [], False),
    ("raw", [{"client_id": "load-1", "clean": True}], True),
    ("kafka-python", [], False),
    ("foreign", [], True),
    ("copier", [], None),
])  # fmt: skip
def test_who_left_no_last_words_has_no_whole_ledger(engine, words, whole):
    """A producer without a summary has an incomplete ledger; imported producers need none."""
    told = manifest()
    producer = told.producers[0].model_copy(update={"engine": engine})
    run = SimpleNamespace(clients=words, manifest=told.model_copy(update={"producers": [producer]}))

    assert producers(run) == ([] if whole is None else [{"producer_id": "load-1", "clean": whole}])


def test_a_log_that_was_not_exported_to_its_end_proves_no_absence(tmp_path):
    """Only logs that were exported to their end are checked for missing records."""
    history = clean()
    history.logs[2] = [(0, 0, history.logs[2][0][2][:10])]
    run = open_folder(history.write(tmp_path / "run"))
    for file in (run.folder.brokers / "broker-3").rglob("*.log"):
        file.unlink()

    assert members(run) == {1}


def test_a_log_of_which_all_was_deleted_is_whole(tmp_path):
    """A log whose records were all deleted is whole if its empty segment is named after the log end."""
    history = clean()
    history.replicas = [row | {"log_start_offset": 50} for row in history.replicas]
    run = open_folder(history.write(tmp_path / "run"))
    for name, base in (("broker-2", 50), ("broker-3", 49)):
        (segment,) = (run.folder.brokers / name).rglob("orders-0/*.log")
        segment.unlink()
        (segment.parent / f"{base:020}.log").touch()
    counts = count(open_folder(run.folder))

    assert members(run) == {1, 2}
    assert [gap.why for gap in evidence.gaps(run, counts)["segments of every replica"]] == [
        "The log of orders-0 on broker 3 was exported up to 49; its end was 50."
    ]


@pytest.mark.parametrize(
    ("told", "readers", "said"),
    [
        (["consumer", "member-1.1"], ["consumer", "member-1.1"], []),
        (["consumer", "member-1.1"], ["consumer"], []),  # a member may have no partition
        (["consumer"], ["member-1.1"], ["The table of positions lacks those of the live consumer consumer,"]),
        (["member-1.1"], [], ["The table of positions is empty, and member-1.1 reported theirs."]),
        ([], [], []),
    ],
)
def test_readers_that_reported_positions_are_in_the_table(tmp_path, told, readers, said):
    """Readers that reported a position must be in the positions table."""
    history, of_readers = clean(), {"told": dict.fromkeys(told, 34 * S)}
    history.events.append(event(35 * S, "step", step="catch_up", detail=of_readers))
    folder = history.write(tmp_path / "run")
    folder.table("positions").mkdir()
    rows = [{"topic": "orders", "partition": 0, "position": 50, "told_ns": 34 * S, "reader": each} for each in readers]
    pq.write_table(pa.Table.from_pylist(rows, RECORDED["positions"]), folder.table("positions") / "one.parquet")
    found = list(evidence._positions(open_folder(folder)))
    assert len(found) == len(said)
    assert all(sentence.startswith(start) for sentence, start in zip(found, said, strict=True))
