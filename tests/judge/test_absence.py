"""Missing evidence: what it leaves undecided by partition and replica, and what stays decided."""

import json
import struct

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from bench import folders
from bench.generated.plan import Plan, Planted
from bench.generated.segments import small_batch
from evidence.run import open_folder
from history.tables import RECORDED
from judge.run import judge_run, one_by_one
from kafka_files.batches import header_slices
from kafka_files.records import values as values_of
from tests.evidence.folders import TP, S, batch, clean, event, values
from tests.kafka_files.written import snapshot_header


def judged(folder):
    """Judge a folder without Spark."""
    return judge_run(open_folder(folder), one_by_one)


def invariants(folder):
    """Return each invariant's (verdict, violations)."""
    rows = judged(folder).tables["invariants"].to_pylist()
    return {row["invariant"]: (row["verdict"], row["violations"]) for row in rows}


def keep(folder, table, rows):
    """Keep the rows of a table for which an expression holds; return how many there are."""
    (file,) = folder.table(table).glob("*.parquet")
    kept = pq.read_table(file).filter(rows)
    pq.write_table(kept, file)
    return kept.num_rows


@pytest.fixture
def two_partitions(tmp_path):
    """A sound run folder with two partitions."""
    return folders.write(Plan(records=200, partitions=2, seconds=10), tmp_path / "run")


def test_a_partition_without_metadata_leaves_its_required_invariants_open(two_partitions):
    """I3 and I15 need to know its leader and ISR; what orders-0 shows proves nothing of orders-1."""
    assert {verdict for verdict, _ in invariants(two_partitions).values()} == {"pass"}
    kept = keep(two_partitions, "isr", pc.field("partition") == 0)
    words = two_partitions.clients / "prober.json"
    words.write_text(json.dumps(json.loads(words.read_text()) | {"isr_rows": kept}))

    found = {row["invariant"]: row for row in judged(two_partitions).tables["invariants"].to_pylist()}
    assert {name: row["verdict"] for name, row in found.items() if row["verdict"] != "pass"} == {
        "I3": "unknown",
        "I15": "unknown",
    }
    assert found["I3"]["reason"] == "nothing that was recorded of orders-1 could be checked"
    assert found["I3"]["checked"] > 0


@pytest.mark.parametrize(("cut", "expected"), [((), ("fail", 1)), ((3,), ("fail", 1)), ((1, 3), ("unknown", 0))])
def test_a_read_that_the_final_log_lacks_is_a_violation_whatever_other_logs_lack(tmp_path, cut, expected):
    """A read that the final log lacks violates I16, whatever other logs lack, unless the final log was cut off."""
    history = clean()
    history.logs = {
        broker: [(0, 0, values(0, 1, 2)), (4, 0, values(*range(4, 40 if broker in cut else 50)))]
        for broker in (1, 2, 3)
    }

    assert invariants(history.write(tmp_path / "run"))["I16"] == expected


def test_a_log_whose_end_no_capture_saw_proves_no_loss(tmp_path):
    """Without the last capture, exports that may end early prove no loss."""
    history = clean()
    history.logs = {broker: [(0, 0, values(*range(40)))] for broker in (1, 2, 3)}
    history.polls, history.end_offset = history.polls[:40], 40
    folder = history.write(tmp_path / "run")
    keep(folder, "offsets", pc.field("capture") != "after")
    found = judged(folder)

    assert found.tables["anomaly_counts"].to_pylist()[0]["anomaly"] == "unseen"
    (delivery,) = found.tables["delivery"].to_pylist()
    assert (delivery["unseen"], delivery["truncated_ack"]) == (10, 0)
    assert invariants(folder)["I15"] == ("unknown", 0)
    assert dict(found.items)["segments of every replica"].startswith(
        "The log of orders-0 on broker 1 may have been exported in part: no capture saw its end."
    )


@pytest.mark.parametrize("segment", ["00000000000000000000", "00000000000000000020"])
def test_a_segment_that_is_missing_proves_no_loss(tmp_path, segment):
    """A log with a missing segment is read up to the gap only, and proves no loss."""
    folder = clean().write(tmp_path / "run", seal=False)
    for log in list(folder.brokers.rglob("orders-0/*.log")):
        write_segments(log.parent, [(0, 20), (20, 40), (40, 50)])
        (log.parent / f"{segment}.log").unlink()
    found = invariants(folder)

    assert {name for name, (verdict, _) in found.items() if verdict == "fail"} == set()
    assert found["I15"] == found["I16"] == ("unknown", 0)
    end = int(segment)
    assert dict(judged(folder).items)["segments of every replica"].startswith(
        f"The log of orders-0 on broker 1 lacks its segments from {end} to {end + 20}."
    )


def write_segments(replica, ranges):
    """Write a replica's log anew, one segment for each range of offsets."""
    for log in replica.glob("*.log"):
        log.unlink()
    for begin, end in ranges:
        (replica / f"{begin:020}.log").write_bytes(batch(begin, values(*range(begin, end))))


def forbidden(folder):
    """Return the anomalies that a folder shows for certain."""
    rows = judged(folder).tables["anomaly_counts"].to_pylist()
    return {row["anomaly"] for row in rows if row["allowed"] is False}


def test_final_reads_that_are_missing_are_no_loss(two_partitions):
    """If rows of the final drain are missing, unread records are no loss."""
    keep_of(two_partitions, "polls-drain", (pc.field("offset") < 20) | (pc.field("offset") > 30))

    assert forbidden(two_partitions) == set()
    assert "every case decided" not in dict(judged(two_partitions).items)  # concluded from the counts
    assert dict(judged(two_partitions).items)["readers ended in order"].startswith("Of 200 rows that drain wrote")


def test_a_loss_stays_one_whatever_else_is_missing(tmp_path):
    """Missing samples, metadata or epoch files of one replica do not turn a proven loss into unknown."""
    folder = folders.write(Plan(records=200, partitions=2, seconds=10, planted=Planted(lost=2)), tmp_path / "run")
    keep(folder, "replicas", pc.field("broker_id") != 3)
    keep(folder, "isr", pc.field("partition") == 0)
    next(folder.brokers.rglob("orders-0/leader-epoch-checkpoint")).unlink()

    assert forbidden(folder) == {"lost_write"}
    assert invariants(folder)["I15"][0] == "unknown"  # which replicas are in sync was seen in the metadata alone


@pytest.mark.parametrize("damage", [lambda log: log[:-1] + b"\xff", lambda log: log[:-9]])
def test_a_history_that_ends_early_says_why(two_partitions, damage):
    """A metadata log with a damaged or torn last batch leaves history invariants undecided, with the reason."""
    (log,) = two_partitions.brokers.rglob("__cluster_metadata-0/*.log")
    log.write_bytes(damage(log.read_bytes()))
    found = judged(two_partitions)

    open_ones = {row["invariant"] for row in found.tables["invariants"].to_pylist() if row["verdict"] == "unknown"}
    assert {"I7", "I9", "I21", "I23"} <= open_ones
    assert dict(found.items)["history of the controller"].startswith("The controller's metadata log is incomplete. ")


def begun_with_a_snapshot(log, at, *changed):
    """Replace the metadata log's first records by a snapshot: orders-0 and orders-1 as created, but for ``changed``."""
    records = [record for rows in header_slices(log) for record in values_of(log, rows)]
    topic, *created = [value for _, _, value in records[:3]]
    created = [with_epoch_1(value) if number in changed else value for number, value in enumerate(created)]
    times = [int(header["max_timestamp"]) for header, _, _ in records]
    kept = [small_batch(n, [records[n][2]], times[n]) for n in range(at, len(records))]
    return snapshot_header(times[at - 1]) + batch(1, [topic, *created]), b"".join(kept)


def with_epoch_1(created):
    """Return a PartitionRecord of replicas 1, 2, 3 after broker 3 has left the ISR."""
    full, cut = (bytes([len(ids) + 1]) + struct.pack(f">{len(ids)}i", *ids) for ids in ((1, 2, 3), (1, 2)))
    epochs = [struct.pack(">iii", 1, 0, partition_epoch) for partition_epoch in (0, 1)]
    assert full * 2 + b"\1\1" + epochs[0] in created
    return created.replace(full * 2 + b"\1\1" + epochs[0], full + cut + b"\1\1" + epochs[1])


@pytest.mark.parametrize(("at", "changed"), [(4, [0]), (3, [])])
def test_a_history_that_begins_late_leaves_open_what_rests_on_it(two_partitions, at, changed):
    """If a snapshot has a changed state, invariants that need the history are undecided there, with the reason.

    Others are judged. A snapshot of initial states hides nothing.
    """
    (log,) = two_partitions.brokers.rglob("__cluster_metadata-0/*.log")
    snapshot, rest = begun_with_a_snapshot(log.read_bytes(), at, *changed)
    (log.parent / f"{at:020}-0000000001.checkpoint").write_bytes(snapshot)
    log.unlink()
    (log.parent / f"{at:020}.log").write_bytes(rest)
    found = judged(two_partitions)
    rows = {row["invariant"]: row for row in found.tables["invariants"].to_pylist()}

    why = "The controller's history of orders-0 begins at partition epoch 1 (a snapshot at offset 4)"
    assert {row["verdict"] for row in rows.values()} == ({"pass", "unknown"} if changed else {"pass"})
    assert {row["reason"] for row in rows.values()} == ({None, why} if changed else {None})
    assert dict(found.items)["history of the controller"] == (f"{why}." if changed else None)
    assert {rows[name]["verdict"] for name in ("I7", "I21", "I23")} == ({"unknown"} if changed else {"pass"})
    assert {rows[name]["verdict"] for name in ("I1", "I3", "I12", "I15")} == {"pass"}


def test_an_epoch_file_that_is_missing_is_named(two_partitions):
    """A missing leader-epoch-checkpoint leaves I14 undecided and is named."""
    next(two_partitions.brokers.rglob("broker-3/data/orders-1/leader-epoch-checkpoint")).unlink()

    assert invariants(two_partitions)["I14"] == ("unknown", 0)
    assert dict(judged(two_partitions).items)["epoch file of every replica"] == (
        "The replica of orders-1 on broker 3 has no leader-epoch-checkpoint."
    )


def keep_of(folder, file, rows):
    """Keep the rows of one file of a table for which an expression holds."""
    (path,) = folder.path.rglob(f"{file}.parquet")
    pq.write_table(pq.read_table(path).filter(rows), path)


@pytest.mark.parametrize(
    ("positions", "verdict"),
    [
        (b"torn", "unknown"),
        ([], "unknown"),
        (["consumer"], "fail"),
        (["consumer", "member-1.1"], "pass"),
    ],
)
def test_positions_that_cannot_be_read_prove_no_starved_group(tmp_path, positions, verdict):
    """With an unreadable table of positions I37 is undecided; in a readable one a missing member has no partition."""
    history, words = clean(), {"clean": True, "started_ns": 5 * S, "ended_ns": 130 * S}
    load = {"topic": "orders", "group": {"protocol": "classic", "session_timeout": 6.0, "members": 1}}
    settings = {"scenario": {"load": load, "phases": []}, "patience_s": 42.0}
    history.manifest = history.manifest.model_copy(update=settings)
    history.clients |= {
        "member-1.1": {"role": "member", "group_reads": 0, "rebalances": 0, "commits": 0, **words},
        "consumer": {"role": "consumer", "rows": 0, **words},
    }
    told = {"consumer": 119 * S, "member-1.1": 119 * S}
    history.events.append(event(120 * S, "step", step="catch_up", detail={"still_since_ns": 60 * S, "told": told}))
    folder = history.write(tmp_path / "run", seal=False)
    folder.table("positions").mkdir()
    file = folder.table("positions") / "positions.parquet"
    if isinstance(positions, bytes):
        file.write_bytes(positions)
    else:
        rows = [{"reader": reader, **TP, "position": 50, "told_ns": 119 * S} for reader in positions]
        pq.write_table(pa.Table.from_pylist(rows, RECORDED["positions"]), file)
    folder.seal()

    assert invariants(folder)["I37"][0] == verdict
