"""Check elections and boots by history, logs and checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from evidence.facts import STALE_METADATA_NS, NewLog, Row
from evidence.partition import PartitionEvidence
from evidence.views import last_views
from judge.checks.findings import Check, gathered
from kafka_files.states import State


@gathered
def i19_one_leader_per_epoch(of: PartitionEvidence) -> Iterator[Check]:
    """I19 (C29, C32). Named by the controller's history, log lines "starts at leader epoch", and metadata views. A
    broker that wrongly believes that it leads goes unnoticed unless it logs it: the probe sends no request that only
    leaders answer.
    """
    named: dict[int, dict[int, set[str]]] = {}

    def add(epoch: int, leader: int, source: str) -> None:
        named.setdefault(epoch, {}).setdefault(leader, set()).add(source)

    for state in of.states:
        if state.leader >= 0:
            add(state.leader_epoch, state.leader, state.source)
    for line in of.lines:
        if line["kind"] == "leader_started":
            add(line["leader_epoch"], line["broker_id"], "broker_log")
    for view in last_views(of.where, of.views, of.names):
        if view["leader"] is not None and view["leader"] >= 0 and view["leader_epoch"] is not None:
            add(view["leader_epoch"], view["leader"], "metadata")
    for epoch, leaders in sorted(named.items()):
        said = {str(leader): sorted(sources) for leader, sources in sorted(leaders.items())}
        yield Check(None, len(leaders) > 1, {"leader_epoch": epoch, "leaders": said})


@gathered
def i20_clean_election(of: PartitionEvidence) -> Iterator[Check]:
    """I20 (C6, C34 to C37), unclean.leader.election.enable=false. The first assigned replica in the new ISR; it was in
    the ISR before, or in the ELR, if no member remained (4.0+), also within one record. Excluded: reassignments, and
    elections of the last known leader (KIP-966), a ``behaviour_change``.
    """
    for before, after in pairwise(of.states):
        changed = after.leader >= 0 and after.leader != before.leader
        moved = before.adding or before.removing or before.replicas != after.replicas
        if not changed or moved or last_known_leader(before, after):
            continue
        eligible = set(before.isr) if _stayed(before, after) else {*before.isr, *before.elr}
        first = next((broker_id for broker_id in after.replicas if broker_id in after.isr), None)
        yield Check(
            after.t_ns,
            after.leader not in eligible or (first is not None and after.leader != first),
            {
                "leader": after.leader,
                "leader_epoch": after.leader_epoch,
                "isr_before": sorted(before.isr),
                "elr_before": sorted(before.elr),
                "isr": sorted(after.isr),
                "replicas": list(after.replicas),
                "position": after.position,
            },
        )


def last_known_leader(before: State, after: State) -> bool:
    """With ELR (KIP-966): the controller elected the last known leader, because ISR and ELR were empty, as after an
    unclean shutdown of the last eligible replica.
    """
    nobody = not before.isr and not after.elr
    return nobody and after.recovering and before.last_known_elr == (after.leader,)


def led_from_elr(history: Sequence[State]) -> Iterator[State]:
    """With ELR (KIP-966): the ISR was empty, and a replica of the ELR became leader, which has all committed records.
    Without ELR only the last ISR member may lead.
    """
    last_isr: tuple[int, ...] = ()
    for before, after in pairwise(history):
        last_isr = before.isr or last_isr
        began = after.leader >= 0 and after.leader != before.leader
        if last_isr and began and not _stayed(before, after) and after.leader in set(before.elr) - set(last_isr):
            yield after


def _stayed(before: State, after: State) -> bool:
    return not set(before.isr).isdisjoint(after.isr)


@gathered
def i21_history_in_order(of: PartitionEvidence) -> Iterator[Check]:
    """I21 (C20, C30). The partition epoch grows by one; the leader epoch never falls, and grows with each new leader.
    Leader in ISR, ISR in assignment. ELR and ISR are disjoint; the ELR is empty while the ISR has min.insync.replicas
    members (4.0+).
    """
    for before, after in zip([None, *of.states], of.states, strict=False):
        wrong = [
            text
            for text, found in {
                "the leader is not in the ISR": after.leader >= 0 and after.leader not in after.isr,
                "the ISR is not within the assignment": bool(after.replicas and set(after.isr) - set(after.replicas)),
                "ELR and ISR overlap": bool(set(after.elr) & set(after.isr)),
                "ELR is not empty although the ISR is sufficient": bool(after.elr)
                and len(after.isr) >= of.effective_min_isr,
                **({} if before is None else _out_of_order(before, after)),
            }.items()
            if found
        ]
        yield Check(
            after.t_ns,
            bool(wrong),
            {
                "wrong": wrong,
                "position": after.position,
                "leader": after.leader,
                "leader_epoch": after.leader_epoch,
                "partition_epoch": after.partition_epoch,
                "isr": sorted(after.isr),
                "elr": sorted(after.elr),
                "replicas": list(after.replicas),
            },
        )


def _out_of_order(before: State, after: State) -> dict[str, bool]:
    return {
        "the partition epoch did not grow by one": after.partition_epoch != before.partition_epoch + 1,
        "the leader epoch fell": after.leader_epoch < before.leader_epoch,
        "the leader changed within an epoch": (
            after.leader != before.leader and after.leader_epoch == before.leader_epoch
        ),
    }


@gathered
def i25_boot_high_watermark(of: PartitionEvidence) -> Iterator[Check]:
    """I25 (C39), clean topics. The HW in "Log loaded … with initial high watermark" is at most the replica's log end
    offset at its start; a checkpointed HW at most that of a later capture (I6).
    """
    yield from _loaded_logs(of.lines)
    yield from _checkpoints(of.captures, of.new_logs)


def _loaded_logs(lines: Sequence[Row]) -> Iterator[Check]:
    loaded: dict[tuple[int, str, int], Row] = {}
    for line in lines:
        replica = line["broker_id"], line["topic"], line["partition"]
        if line["kind"] == "log_loaded":
            loaded[replica] = line
        elif line["kind"] in {"leader_started", "follower_started"} and replica in loaded:
            booted = loaded.pop(replica)
            evidence = {
                "broker_id": line["broker_id"],
                "initial_high_watermark": booted["high_watermark"],
                "log_end_offset": line["log_end_offset"],
                "line": booted["line"],
            }
            above = booted["high_watermark"] > line["log_end_offset"]
            yield Check(booted["t_ns"], above, evidence)


def _checkpoints(captures: Sequence[Row], new_logs: Sequence[NewLog]) -> Iterator[Check]:
    kept: dict[tuple[int, str, int], Row] = {}
    for row in sorted(captures, key=lambda row: row["sent_ns"]):
        replica = row["broker_id"], row["topic"], row["partition"]
        if replica in kept and _is_new(row, kept[replica]["sent_ns"], new_logs):
            del kept[replica]
        if replica in kept and row["log_end_offset"] is not None and kept[replica]["received_ns"] <= row["sent_ns"]:
            evidence = {
                "broker_id": row["broker_id"],
                "checkpoint_high_watermark": kept[replica]["checkpoint_high_watermark"],
                "capture": kept[replica]["capture"],
                "log_end_offset": row["log_end_offset"],
                "later_capture": row["capture"],
            }
            above = kept[replica]["checkpoint_high_watermark"] > row["log_end_offset"]
            yield Check(row["received_ns"], above, evidence)
        if row["checkpoint_high_watermark"] is not None:
            kept[replica] = row


def _is_new(row: Row, since_ns: int, new_logs: Sequence[NewLog]) -> bool:
    return any(
        since_ns <= new.t_ns <= row["received_ns"]
        and new.broker_id in {None, row["broker_id"]}
        and new.topic in {None, row["topic"]}
        for new in new_logs
    )


def disagreements(
    history: Sequence[State], lines: Sequence[Row], views: Sequence[Row], starts: Mapping[int, int]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Two sources contradict each other about one partition. The check compares the controller's last state with each
    observer's last metadata view, requested over two seconds later; each epoch's leader with the brokers' log lines;
    each epoch's smallest start in the epoch files with the log end offset in its leader's log line.
    """
    if history and history[-1].t_ns is not None:
        yield from _of_views(history[-1], views)
    leaders = {state.leader_epoch: state.leader for state in history if state.leader >= 0}
    begun: set[int] = set()  # a leader that restarts logs its epoch again
    for line in lines:
        if line["kind"] != "leader_started":
            continue
        epoch, broker_id, offset = line["leader_epoch"], line["broker_id"], line["log_end_offset"]
        if epoch in leaders and leaders[epoch] != broker_id:
            yield (
                f"Broker {broker_id} said to lead in epoch {epoch}; the controller had chosen {leaders[epoch]}.",
                {"broker_log": broker_id, "controller": leaders[epoch], "leader_epoch": epoch, "line": line["line"]},
            )
        if epoch in starts and starts[epoch] != offset and epoch not in begun:
            yield (
                f"Broker {broker_id} began epoch {epoch} at offset {offset}; epoch files begin it at {starts[epoch]}.",
                {"broker_log": offset, "epoch_file": starts[epoch], "leader_epoch": epoch, "line": line["line"]},
            )
        begun.add(epoch)


def _of_views(last: State, views: Sequence[Row]) -> Iterator[tuple[str, dict[str, Any]]]:
    latest: dict[str, Row] = {}
    for view in sorted(views, key=lambda view: view["received_ns"]):
        latest[view["observer"]] = view
    state = last.leader, last.leader_epoch, sorted(last.isr)
    for observer, view in sorted(latest.items()):
        if view["isr"] is None or view["sent_ns"] < (last.t_ns or 0) + STALE_METADATA_NS:
            continue
        seen = view["leader"], view["leader_epoch"], sorted(view["isr"])
        if seen != state:
            yield (
                f"Broker {observer} still showed leader {seen[0]}, epoch {seen[1]}, ISR {seen[2]}; the controller's "
                f"last word was leader {state[0]}, epoch {state[1]}, ISR {state[2]}.",
                {"observer": observer, "metadata": seen, "controller": state, "seen_ns": view["sent_ns"]},
            )
