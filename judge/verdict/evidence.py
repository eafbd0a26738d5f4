"""Check whether a verdict's evidence is complete."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

from evidence.counts import UNREADABLE, Counts, Replica
from evidence.exits import unexplained
from evidence.facts import Input, longest_outside
from evidence.faults import FaultSpan
from evidence.reader import Tables
from evidence.run import Run, drains, producers
from evidence.silences import SILENCE_S, Silence
from evidence.sources import GROUP, SHARE, Gap, Source, sources
from history.errors import LAST_SEEN
from history.events import Event
from history.manifest import Manifest
from history.partition import TopicPartition
from history.readers import CATCH_UP, LIVE_CONSUMER
from history.share_groups import SETTLE
from history.traits import Trait
from history.words import counted as number_of
from judge.verdict.members import unrecorded_members

READERS = ("consumer", "drain")

Item = tuple[str, str | None]

# Items that a run without these sources does not require.
OF_SOURCES: Mapping[str, frozenset[Source]] = {
    "sends ledgered": sources("sends"),
    "something acknowledged": sources("sends"),
    "final drain complete": sources("polls"),
    "every replica probed": sources("replicas"),
    "probe never silent": sources("replicas", "followers"),
    "offsets captured before": sources("offsets"),
    "offsets captured after": sources("offsets"),
    "segments of every replica": sources("segments"),
    "epoch file of every replica": sources("epoch files"),
    "broker logs": sources("server logs"),
    "history of the controller": sources("history"),
}

HAVE_ROWS: tuple[Source, ...] = ("sends", "polls", "replicas", "isr", "offsets")
MAX_SEEN = 150  # characters of a LAST_SEEN part


def watched(events: Sequence[Event]) -> tuple[int, int] | None:
    """Return when the probe must report: first phase to quiescence."""
    begun = next((event.t_ns for event in events if event.kind == "phase_started"), None)
    ended = next((event.t_ns for event in events if _is_quiescence(event)), None)
    return None if begun is None or ended is None else (begun, ended)


def _is_quiescence(event: Event) -> bool:
    return event.kind == "quiesced" or (event.kind, event.step) == ("wait_timed_out", "quiesce")


def assigned(manifest: Manifest) -> set[Replica]:
    """Return all replicas (broker_id, topic, partition)."""
    return {
        (broker_id, name, partition)
        for name, topic in manifest.topics.items()
        for partition, broker_ids in topic.assignment.items()
        for broker_id in broker_ids
    }


def _unreadable(counts: Counts, replica: Replica) -> list[str]:
    return [problem for problem in counts.log_problems.get(replica, []) if problem.startswith(UNREADABLE)]


def gaps(run: Run, counts: Counts) -> dict[str, list[Gap]]:
    """Return required evidence, with what is missing of each."""
    manifest = run.manifest
    if manifest.foreign:
        return _of_foreign(run, counts)
    replicas = assigned(manifest)
    before, after = (
        _without(run, counts.captured.get(name, set()), f"is missing in the capture {name!r}", "offsets")
        for name in ("before", "after")
    )
    found = {
        "no harness error": _anywhere(_errors(run.events)),
        "no server ended by itself": _anywhere(_exits(run)),
        "files readable": _files(run),
        "rows recorded": _without_rows(run, counts),
        "run collected": _anywhere(_collected(run.events)),
        "every phase run": _anywhere(_phases_left(run.events, manifest)),
        "faults took effect": _anywhere(_took_no_effect(run.faults, manifest.faults)),
        "faults healed": _anywhere(_not_healed(run.faults)),
        "sends ledgered": _anywhere(_ledgers(run, counts), "sends"),
        "something acknowledged": _anywhere(_acknowledged(counts)),
        "final drain complete": _drained(run),
        "every replica probed": _unprobed(run, counts),
        "probe never silent": _anywhere(_silent(run.events, counts.silences), "replicas"),
        "probe ended in order": _of_prober(run, counts),
        "readers ended in order": _of_readers(run, counts),
        "members of the group recorded": _anywhere([*unrecorded_members(run), *_unsettled(run.events)], *GROUP, *SHARE),
        "every reader decided": _anywhere(counts.undecided_readers, "rest"),
        "position of every reader": _anywhere(_positions(run), "positions"),
        "every read was answered": _anywhere(_unanswered(run.clients)),
        "offsets captured before": before,
        "offsets captured after": after,
        "segments of every replica": _segments(replicas, counts),
        "epoch file of every replica": _epoch_files(run),
        "everything copied": _anywhere(_copied(run, counts)),
        "broker logs": _anywhere(_broker_logs(run), "server logs"),
        "history of the controller": _history(run) if run.requires_history else [],
    }
    return {name: list(each) for name, each in found.items() if run.profile.allows(OF_SOURCES.get(name, ()))}


def _of_foreign(run: Run, counts: Counts) -> dict[str, list[Gap]]:
    unnamed = counts.unnamed_reads
    found = {
        "files readable": _files(run),
        "run collected": _anywhere(_collected(run.events)),
        "history whole": _anywhere(str(event.detail["message"]) for event in run.events if event.kind == "gap"),
        "something acknowledged": _anywhere(_acknowledged(counts)),
        "something read": _anywhere(
            () if counts.completed_reads else ["The history holds no completed read of a record."]
        ),
        "every value told": _anywhere([_unnamed_values(run.manifest, unnamed)] if unnamed else ()),
    }
    return {name: list(each) for name, each in found.items()}


def _unnamed_values(manifest: Manifest, reads: int) -> str:
    if manifest.origin in ("operations", "jepsen"):  # only tombstones are ambiguous
        tombstones = number_of(reads, "tombstone")
        return f"{tombstones} {_was(reads)} read of keys to which a tombstone was sent without its offset: add that."
    return f"{number_of(reads, 'record')} {_was(reads)} read without {'its value' if reads == 1 else 'their values'}."


def _was(count: int) -> str:
    return "was" if count == 1 else "were"


def items(found: Mapping[str, Sequence[Gap]]) -> list[Item]:
    """Return each item with its first gap."""
    return [(name, first_of(gap.why for gap in of_item)) for name, of_item in found.items()]


def _anywhere(sentences: Iterable[str], *of: str) -> Iterator[Gap]:
    return (Gap(sentence, frozenset(of)) for sentence in sentences)


def _files(run: Run) -> Iterator[Gap]:
    return (Gap(why, frozenset({table})) for table, problems in run.problems.items() for why in problems)


def first_of(sentences: Iterable[str]) -> str | None:
    """Return the first sentence with the number of the others."""
    found = list(sentences)
    if not found:
        return None
    return found[0] if len(found) == 1 else f"{found[0]} ({len(found) - 1} more of this kind)"


def _without_rows(run: Run, counts: Counts) -> Iterator[Gap]:
    for table in HAVE_ROWS:
        if run.profile.allows({table}) and not counts.tallies.rows[table]:
            yield Gap(f"The recorded table {table} has no rows.", sources(table))


def _collected(events: list[Event]) -> Iterator[str]:
    if not any(event.kind == "collected" for event in events):
        yield "The run was never collected to the end."


def _errors(events: list[Event]) -> Iterator[str]:
    for event in events:
        if event.kind == "error":
            what = next((event.detail[name] for name in ("why", "message", "error") if event.detail.get(name)), None)
            where = f" in {event.phase!r}" if event.phase else f" at {event.step}" if event.step else ""
            yield f"The harness failed{where}: {_without_logs(str(what or dict(event.detail) or 'no detail'))}"


def _without_logs(why: str) -> str:
    """Shorten a LAST_SEEN part, which quotes this host's folders."""
    what, _, logs = why.partition(LAST_SEEN)
    return f"{what}; events.jsonl has what was last seen." if len(logs) > MAX_SEEN else why


def _phases_left(events: list[Event], manifest: Manifest) -> Iterator[str]:
    ended = {event.phase for event in events if event.kind == "phase_ended"}
    begun = {event.phase for event in events if event.kind == "phase_started"}
    for name in (name for phase in manifest.scenario.get("phases", []) for name in phase):
        if name not in ended:
            yield f"The phase {name!r} {'was not run to its end' if name in begun else 'was never begun'}."


def _took_no_effect(faults: Iterable[FaultSpan], steps: list[str]) -> Iterator[str]:
    proven: Counter[str] = Counter()
    for fault in faults:
        if fault.took_effect:
            proven[fault.step] += 1
        elif "injected" in fault.events:
            yield f"The fault {fault.step} of {fault.target} did not take effect."
        if fault.is_over and fault.events["healed"].detail.get("held_back") == 0:
            yield f"The fault {fault.step} of {fault.target} never held anything back."
    for step, wanted in Counter(steps).items():
        if proven[step] < wanted:
            yield f"The scenario has {wanted} x {step}, and {proven[step]} of them took effect."


def _not_healed(faults: Iterable[FaultSpan]) -> Iterator[str]:
    for fault in faults:
        if not fault.is_over:
            yield f"The fault {fault.step} of {fault.target} was never healed."
        elif not fault.recovered:
            yield f"Recovery from the fault {fault.step} of {fault.target} was not verified."


def _exits(run: Run) -> Iterator[str]:
    for event in unexplained(run.events, run.manifest):
        status = event.detail.get("exit_status")
        how = "" if status is None else f" with exit status {status}"
        said = next((line for line in event.detail.get("log", ()) if "ERROR" in line or "FATAL" in line), None)
        yield f"{event.target} ended by itself{how}, and no fault explains it" + (f": {said:.200}" if said else ".")


def _ledgers(run: Run, counts: Counts) -> Iterator[str]:
    words = {client["client_id"]: client for client in run.clients}
    for producer in producers(run):
        name = producer["producer_id"]
        ledger, last_words = counts.ledgers.get(name), words.get(name, {})
        if not producer["clean"]:
            lacking = counts.unrecorded[name]
            known = f", and {lacking:,} that were written are not in it" if lacking else ""
            yield f"Producer {name} did not end cleanly: its ledger may lack sends{known}."
        if ledger is None:
            yield f"Producer {name} left no ledger."
        elif ledger.repeated:
            yield f"The ledger of {name} names {ledger.repeated} sends twice."
        elif ledger.rows < (last_words.get("rows") or 0):
            yield f"The ledger of {name} holds {ledger.rows} of {last_words['rows']} sends."


def unclean_producers(run: Run, sends: Mapping[str, int]) -> frozenset[str]:
    """Return producers whose ledger may lack sends: no clean end, or more rows counted."""
    rows = {client["client_id"]: client.get("rows") or 0 for client in run.clients}
    names = ((each["producer_id"], each["clean"]) for each in producers(run))
    return frozenset(name for name, clean in names if not clean or sends.get(name, 0) < rows.get(name, 0))


def gave_up(run: Run) -> frozenset[str]:
    """Return idempotent, non-transactional producers that may have given up a record."""
    answered = {
        client["client_id"] for client in run.clients if client.get("clean") and not client.get("indeterminate")
    }
    plain = (each for each in run.manifest.producers if each.idempotence and each.transaction_timeout_ms is None)
    return frozenset(each.producer_id for each in plain if each.producer_id not in answered)


def _acknowledged(counts: Counts) -> Iterator[str]:
    if not any(ledger.acked for ledger in counts.ledgers.values()):
        yield "Nothing was acknowledged: an empty history proves nothing."


def _drained(run: Run) -> Iterator[Gap]:
    reached = drains(run.clients)
    for where in sorted({TopicPartition(topic, partition) for _, topic, partition in assigned(run.manifest)}):
        drain = reached.get(where)
        if drain is None:
            yield Gap(f"{where} was not drained.", sources("polls"), where)
        elif not drain.complete or drain.end_offset is None or (drain.position or 0) < drain.end_offset:
            yield Gap(f"The drain of {where} stopped at {drain.position}, before {drain.end_offset}.", where=where)


def _without(run: Run, found: Set[Replica], what: str, source: Source) -> Iterator[Gap]:
    """Yield the missing replicas, or only leaders."""
    if not run.profile.allows({"followers"}):
        there = {(topic, partition) for _, topic, partition in found}
        for where in run.partitions:
            if where not in there:
                yield Gap(f"The leader of {where} {what}.", sources(source), where)
        return
    for broker_id, topic, partition in sorted(assigned(run.manifest) - found):
        where = TopicPartition(topic, partition)
        yield Gap(f"The replica of {where} on broker {broker_id} {what}.", sources(source), where)


def _unprobed(run: Run, counts: Counts) -> Iterator[Gap]:
    """Yield replicas never probed, and brokers without a good answer in a phase.

    Only phases with ``SILENCE_S`` without a fault count.
    """
    replicas = assigned(run.manifest)
    yield from _without(run, counts.sampled, "was never seen by the probe", "replicas")
    for node in run.manifest.brokers if run.profile.allows({"followers"}) else ():
        number = node.node_id
        if number not in {broker_id for broker_id, _, _ in replicas & counts.sampled}:
            continue
        mute = list(_mute(run.faults, run.manifest, node.name))
        for name, from_ns, to_ns, completed in run.phases:
            unseen = completed and (name, number) not in counts.probed_in
            if unseen and longest_outside(mute, from_ns, to_ns) >= SILENCE_S * 1e9:
                yield Gap(
                    f"The probe had no good answer of broker {number} in the phase {name!r}.", sources("replicas")
                )


def _mute(faults: Iterable[FaultSpan], manifest: Manifest, name: str) -> Iterator[tuple[int, int]]:
    """Yield when a fault may have silenced a broker; while replicas move, any."""
    for fault in faults:
        silent = name in fault.nodes and manifest.has(fault.step, Trait.SILENCES_PROBE)
        if silent or manifest.has(fault.step, Trait.MOVES_REPLICAS):
            yield fault.from_ns, fault.at_ns("healed")


def _silent(events: list[Event], silences: Iterable[Silence]) -> Iterator[str]:
    begun = [event for event in events if event.kind == "phase_started"]
    for at, broker_id, before in silences:
        phase = next((event.phase for event in reversed(begun) if event.t_ns <= before), "")
        yield f"The probe said nothing of broker {broker_id} for {(at - before) / 1e9:.1f} s, from {phase!r} on."


def _of_prober(run: Run, counts: Counts) -> Iterator[Gap]:
    probers = [client for client in run.clients if client["role"] == "prober"]
    if not probers:
        yield Gap("The prober wrote no final report.", sources("replicas", "isr"))
    for client in probers:
        yield from _watched(client, counts.probed, {"rows": sources("replicas"), "isr_rows": sources("isr")})


def _of_readers(run: Run, counts: Counts) -> Iterator[Gap]:
    reads = sum(key == "read" for key, _ in run.manifest.steps)
    required = {LIVE_CONSUMER} if run.manifest.loads else set()
    required |= {f"read-{number}" for number in range(1, reads + 1)} | counts.read.keys() | counts.sought.keys()
    tables = {"rows": sources("polls"), "seeks": sources("seeks")}
    for name in sorted(required - {client["client_id"] for client in run.clients}):
        yield Gap(f"The reader {name} wrote no final report: how much it read is unknown.", sources("polls", "seeks"))
    for client in run.clients:
        if client["role"] in READERS:
            name = client["client_id"]
            held = {"rows": counts.read.get(name, 0), "seeks": counts.sought.get(name, 0)}
            yield from _watched(client, held, tables)


def _watched(client: Mapping[str, Any], held: Mapping[str, int], tables: Mapping[str, frozenset[str]]) -> Iterator[Gap]:
    name, every = client["client_id"], frozenset().union(*tables.values())
    if client.get("clean") is not True:
        yield Gap(f"The {client['role']} {name} did not end cleanly: it may have seen less than there was.", every)
    for where, why in (client.get("unreadable") or {}).items():
        yield Gap(f"The {client['role']} {name} read {where} no further, {why}.", every)
    for what, there in held.items():
        if there < (client.get(what) or 0):
            gone = f"Of {client[what]} {what.replace('_', ' ')} that {name} wrote {there} are there."
            yield Gap(gone, tables[what])


def _unsettled(events: Sequence[Event]) -> Iterator[str]:
    for event in events:
        if (event.kind, event.step) == ("wait_timed_out", SETTLE):
            yield f"The share group did not come to rest before its members ended: {event.detail['condition']}."


def _positions(run: Run) -> Iterator[str]:
    looked = next((event for event in run.events if event.step == CATCH_UP), None)
    reported = looked.detail.get("told", {}) if looked else {}
    held = Tables(run.folder).counted("positions", "reader")
    if reported and not held:
        yield f"The table of positions is empty, and {', '.join(sorted(reported))} reported theirs."
    elif LIVE_CONSUMER in reported and not held[LIVE_CONSUMER]:
        yield f"The table of positions lacks those of the live consumer {LIVE_CONSUMER}, which reported them."


def _unanswered(clients: list[dict[str, Any]]) -> Iterator[str]:
    for client in clients:
        if client.get("answers") == 0:
            errors = ", ".join(f"{count} x {name}" for name, count in sorted((client.get("errors") or {}).items()))
            yield f"The consumer {client['client_id']} had no good answer: {errors or 'it asked nothing'}."


def _segments(replicas: Iterable[Replica], counts: Counts) -> Iterator[Gap]:
    for replica in sorted(replicas):
        if lacking := _lacking(replica, counts):
            broker_id, topic, partition = replica
            where = TopicPartition(topic, partition)
            yield Gap(f"The log of {where} on broker {broker_id} {lacking}.", sources("segments"), where)


def _lacking(replica: Replica, counts: Counts) -> str | None:
    end = counts.log_ends.get(replica)
    if replica in counts.log_gaps:
        return "lacks its segments from {} to {}".format(*counts.log_gaps[replica])
    if end is None:
        return "has no exported segment"
    if problems := _unreadable(counts, replica):
        return f"cannot be read to the end: {', '.join(problems)}"
    if replica not in counts.ends:
        return "may have been exported in part: no capture saw its end"
    return f"was exported up to {end}; its end was {counts.ends[replica]}" if end < counts.ends[replica] else None


def _epoch_files(run: Run) -> Iterator[Gap]:
    for where, replicas in run.replicas.items():
        for each in replicas:
            if each.epochs is None and where.topic in run.manifest.topics:
                why = f"The replica of {where} on broker {each.broker_id} has no leader-epoch-checkpoint."
                yield Gap(why, sources("epoch files"), where)


def _history(run: Run) -> Iterator[Gap]:
    what = "ZooKeeper's transaction log" if run.manifest.mode == "zookeeper" else "the controller's metadata log"
    if run.history.problem:
        yield Gap(f"{what[0].upper()}{what[1:]} is incomplete. {run.history.problem}", sources("history", "dates"))
    for where in run.partitions:
        if not run.states.get(where):
            unknown = where if run.states else "the run's topics"
            why = f"{what[0].upper()}{what[1:]} was not collected, or does not know {unknown}."
            yield Gap(why, sources("history", "dates"), where)


def _broker_logs(run: Run) -> Iterator[str]:
    for node in run.manifest.brokers:
        log = run.folder.brokers / node.name / "server.log"
        if not log.is_file() or log.stat().st_size == 0:
            yield f"The server log of {node.name} was not collected."


def input_of(run: Run, where: TopicPartition) -> Input | None:
    """Return what a copier read to write a partition."""
    copier, loads = run.manifest.scenario.get("copier"), run.manifest.loads
    if not copier or not loads or copier["to"] != where.topic:
        return None
    read = loads[copier.get("load") or next(iter(loads))]
    of = TopicPartition(read["topic"], where.partition)
    words = next((client for client in run.clients if client["role"] == "copier"), {})
    drain = drains(run.clients).get(of)
    return Input(of, (words.get("committed") or {}).get(str(of), 0), drain is not None and drain.complete)


def _copied(run: Run, counts: Counts) -> Iterator[str]:
    copier = run.manifest.scenario.get("copier")
    if not copier:
        return
    words = next((client for client in run.clients if client["role"] == "copier"), {})
    if words.get("clean") is not True:
        yield "The copier did not end cleanly: how far it came is unknown."
    for where, copies in sorted(counts.copies.items()):
        if copies.left:
            yield f"{copies.left} records to copy to {where} are above the offset that the copier's group committed."
    if not any(copies.required for copies in counts.copies.values()):
        yield "The copier committed nothing: no copy was required."
