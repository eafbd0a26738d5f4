"""Damage to the replicas' files, and to what the controller and the brokers logged."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.mutations.kind import SECOND_NS, kind, middle
from tests.mutations.recording import NoPlaceError, Recording, edit, edit_history, header, with_crc, with_field

# --- the replicas' files ---------------------------------------------------------------------------


def _in_one_batch(run: Recording, change: Callable[[bytearray], bytearray]) -> str:
    broker_id = run.choose(list(run.brokers))
    found = run.batches(broker_id)
    at = run.choose(range(len(found)))
    found[at] = change(found[at])
    run.put_batches(broker_id, found)
    return f"broker {broker_id} at offset {header(found[at])['base_offset']}"


def _moved(batch: bytearray, name: str, by: int) -> bytearray:
    return with_field(batch, name, header(batch)[name] + by)


@kind("corrupt_record")
def bit_flipped(run: Recording) -> str:
    """One bit of one replica's log is flipped."""

    def flipped(batch: bytearray) -> bytearray:
        batch[run.choose(range(70, len(batch)))] ^= 1 << run.choose(range(8))
        return batch

    return _in_one_batch(run, flipped)


@kind("I12")
def committed_batch_differs(run: Recording) -> str:
    """A committed batch of one replica has another timestamp, with a valid checksum."""
    return _in_one_batch(run, lambda batch: _moved(batch, "base_timestamp", 1))


@kind("I13")
def records_of_one_replica_differ(run: Recording) -> str:
    """A batch of one replica has other records of the same epoch, with a valid checksum."""

    def other(batch: bytearray) -> bytearray:
        batch[-12] ^= 1
        return with_crc(batch)

    return _in_one_batch(run, other)


@kind("I14")
def batch_of_another_epoch(run: Recording) -> str:
    """A batch of one replica has another leader epoch than its epoch file states."""
    return _in_one_batch(run, lambda batch: _moved(batch, "leader_epoch", 1))


@kind("I14")
def epoch_file_out_of_order(run: Recording) -> str:
    """Two entries of one replica's epoch file are in the wrong order."""
    file = run.choose(run.epoch_files())
    lines = file.read_text().splitlines()
    at = run.choose(range(2, len(lines) - 1))
    lines[at], lines[at + 1] = lines[at + 1], lines[at]
    edit(file, lambda _: "\n".join(lines) + "\n")
    return file.parts[-4]


@kind("I15")
def in_sync_log_lacks_a_batch(run: Recording) -> str:
    """One replica of the final ISR lacks a batch of acknowledged records."""
    broker_id = run.choose(list(run.brokers))
    found = run.batches(broker_id)
    gone = found.pop(run.choose(range(1, len(found) - 1)))
    run.put_batches(broker_id, found)
    return f"broker {broker_id} at offset {header(gone)['base_offset']}"


@kind("I16")
def read_record_in_no_log(run: Recording) -> str:
    """Records that consumers received are in no replica's log."""
    at = run.choose(middle([header(batch)["base_offset"] for batch in run.batches(1)]))
    for broker_id in run.brokers:
        run.put_batches(broker_id, [b for b in run.batches(broker_id) if header(b)["base_offset"] != at])
    return f"offset {at}"


@kind("I17")
def sequence_repeated(run: Recording) -> str:
    """An idempotent producer's sequence numbers repeat, in all logs alike."""
    at = run.choose(middle([header(batch)["base_offset"] for batch in run.batches(1)]))
    for broker_id in run.brokers:
        found = run.batches(broker_id)
        changed = [_moved(b, "base_sequence", -1) if header(b)["base_offset"] == at else b for b in found]
        run.put_batches(broker_id, changed)
    return f"offset {at}"


# --- what the controller and the brokers logged ----------------------------------------------------

_STARTED = re.compile(
    r"^.*\[Broker id=(\d+)\] Leader orders-0 .*?starts at leader epoch (\d+) from offset (\d+).*\n", re.M
)


@kind("I19")
def two_leaders_in_one_epoch(run: Recording) -> str:
    """A second broker's log reports that it began to lead in another leader's epoch."""
    logs = run.server_logs()
    found = [match for file in logs.values() for match in _STARTED.finditer(file.read_text())]
    match = run.choose(found)
    other = run.choose([broker_id for broker_id in logs if str(broker_id) != match[1]])
    line = match[0].replace(f"[Broker id={match[1]}]", f"[Broker id={other}]")
    edit(logs[other], lambda text: text + line)
    return f"brokers {match[1]} and {other} in epoch {match[2]}"


@kind("I19")
def view_of_another_leader(run: Recording) -> str:
    """One broker's metadata names another leader in one epoch."""
    view = run.choose([row for row in run.rows("isr") if (row["leader"] or -1) > 0])
    view["leader"] = run.choose([broker_id for broker_id in run.brokers if broker_id != view["leader"]])
    run.put("isr", run.rows("isr"))
    return f"epoch {view['leader_epoch']}"


@kind("I20")
def wrong_leader_elected(run: Recording) -> str:
    """The controller elected an ISR member that is not the first of the assignment."""
    edit_history(run, lambda isr, leader: (isr, next(broker_id for broker_id in isr if broker_id != leader)))
    return "one election"


@kind("I21")
def isr_outside_assignment(run: Recording) -> str:
    """The controller wrote an ISR with a broker that holds no replica."""
    edit_history(run, lambda isr, leader: ([9 if broker_id != leader else leader for broker_id in isr], leader))
    return "one election"


@kind("I25")
def boot_above_log_end(run: Recording) -> str:
    """A replica started with a high watermark above its log end."""
    boot = re.compile(r"(Log loaded for partition orders-0 with initial high watermark )(\d+)")
    logs = {broker_id: file for broker_id, file in run.server_logs().items() if boot.search(file.read_text())}
    broker_id = run.choose(list(logs))
    edit(logs[broker_id], lambda text: boot.sub(r"\g<1>9\2", text))
    return f"broker {broker_id}"


@kind("source_disagreement")
def leader_began_elsewhere(run: Recording) -> str:
    """In a broker's log, its epoch begins at another offset than in the epoch files."""
    logs = run.server_logs()
    broker_id = run.choose([broker_id for broker_id, file in logs.items() if _STARTED.search(file.read_text())])
    edit(logs[broker_id], lambda text: re.sub(r"(Leader orders-0 .*? from offset )(\d+)", r"\g<1>1\2", text))
    return f"broker {broker_id}"


@kind("I38", scenario="group_members")
def isr_change_without_an_end(run: Recording) -> str:
    """The last leader proposed a smaller ISR, but its metadata stayed unchanged for another two minutes."""
    led = [
        row for row in run.rows("isr") if row["partition"] == run.partition and row["observer"] == str(row["leader"])
    ]
    last = max(led, key=lambda row: int(row["received_ns"]), default=None)
    if last is None or len(last["isr"]) < 2:
        raise NoPlaceError
    leader, isr = last["leader"], sorted(last["isr"])
    gone = run.choose([member for member in isr if member != leader])
    log = run.server_logs()[leader]
    stamp = re.findall(r"^\d{4}-\S+ \[.*?\] ", log.read_text(), re.MULTILINE)[-1]
    before, after = (",".join(map(str, members)) for members in (isr, [each for each in isr if each != gone]))
    line = (
        f"{stamp}INFO kafka.cluster.Partition - [Partition {run.topic}-{run.partition} broker={leader}] Shrinking ISR "
        f"from {before} to {after}. Leader: (highWatermark: 1, endOffset: 2). Out of sync replicas: (brokerId: {gone}, "
        "endOffset: 1).\n"
    )
    edit(log, lambda text: text + line)
    later = {name: last[name] + 120 * SECOND_NS for name in ("sent_ns", "received_ns")}
    run.put("isr", [*run.rows("isr"), last | later])
    return f"broker {leader} without {gone}"
