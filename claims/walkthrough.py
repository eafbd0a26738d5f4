"""Tables of expected and observed values, from recordings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from claims.recording import SECOND_NS, Recording
from claims.rest import last, lines, rows_of
from evidence.columns import OK, groups, producer_of
from evidence.facts import Row
from evidence.partition import PartitionEvidence

Table = dict[str, Any]
ROUNDS = 24
BEFORE_NS, AFTER_NS = 50_000_000, 1_000_000_000  # around a write
LOOK_NS = 100_000_000  # two probes


def walkthroughs(recordings: Mapping[str, Recording]) -> list[Table]:
    """Return every table that these recordings provide."""
    makers = {"propagation": rounds, "elections": described, "log_start": out_of_range, "factor": factor_costs}
    return [table for name, make in makers.items() if name in recordings for table in make(recordings[name])]


def rounds(recording: Recording) -> Iterator[Table]:
    """Yield the fetches around an idle partition's first record."""
    for of in recording.all:
        quiet = np.isin(producer_of(of.sends.value), of.names.held(["write-2"])) & (of.sends.outcome == OK)
        recorded = lines(of, "leo_recorded")
        if quiet.any() and recorded:
            yield {
                "title": "One record, fetch by fetch",
                "short": "Fetches",
                "words": f"{of.where} is idle, and one record is written with acks=1 at 0 ms. A row is a fetch that "
                "the leader logged. It starts at the follower's LEO; the HW is then the least of the leader's LEO and "
                "the stored ones. Seen is each replica's last answer before the next fetch with an effect; –: there "
                "was no probe in between.",
                "columns": [
                    *("ms", "fetch of", "asks from", "noted LEOs", "leader LEO"),
                    *("HW expected", "HW seen", "follower LEO", "follower HW"),
                ],
                "rows": [*_rounds(of, recorded, int(of.sends.sent_ns[quiet].min()))],
            }


def _rounds(of: PartitionEvidence, recorded: Sequence[Row], at_ns: int) -> Iterator[list[Any]]:
    known = {line["follower"]: line["log_end_offset"] for line in recorded if line["t_ns"] < at_ns - BEFORE_NS}
    around = [line for line in recorded if at_ns - BEFORE_NS < line["t_ns"] < at_ns + AFTER_NS][:ROUNDS]
    for number, line in enumerate(around, 1):
        known[line["follower"]] = line["log_end_offset"]
        moving = (later["t_ns"] for later in around[number:] if known.get(later["follower"]) != later["log_end_offset"])
        until_ns = min(next(moving, at_ns + AFTER_NS), line["t_ns"] + LOOK_NS)
        lead, follower = (_seen(of, broker, line["t_ns"], until_ns) for broker in (line["broker_id"], line["follower"]))
        end = _end(of, line)
        yield [
            round((line["t_ns"] - at_ns) / 1e6),
            f"broker {line['follower']}",
            line["log_end_offset"],
            ", ".join(f"{broker}: {leo}" for broker, leo in sorted(known.items())),
            end,
            min([end, *known.values()]),
            lead[0],
            *reversed(follower),
        ]


def _seen(of: PartitionEvidence, broker: int, from_ns: int, until_ns: int) -> list[int | None]:
    seen, own = of.samples.answered, rows_of(of, broker)
    row = last(own, (seen.sent_ns[own] >= from_ns) & (seen.received_ns[own] <= until_ns))
    return [None, None] if row is None else [int(seen.hw[row]), int(seen.leo[row])]


def _end(of: PartitionEvidence, line: Row) -> int:
    seen, sends, own = of.samples.answered, of.sends, rows_of(of, line["broker_id"])
    leo = seen.leo[own[seen.received_ns[own] <= line["t_ns"]]]
    acked = sends.offset[(sends.outcome == OK) & (sends.done_ns <= line["t_ns"])] + 1
    return max(int(leo.max(initial=0)), int(acked.max(initial=0)))


def described(recording: Recording) -> Iterator[Table]:
    """Yield the brokers' descriptions of a topic."""
    rows = [
        [
            f"{_at_s(recording, event.t_ns):.1f} s",
            _before(recording, event.t_ns),
            f"{event.target}-{part['partition']}",
            part["leader"],
            *(", ".join(map(str, part[name])) for name in ("replicas", "isr")),
        ]
        for event in recording.described
        for part in event.detail["partitions"]
    ]
    if rows:
        yield {
            "title": "A broker is stopped, comes back, and is given its lead again",
            "short": "Lead",
            "words": "What a broker says of the topic each time that the scenario asks. The stop moves the lead of the "
            "partition that the broker led. Its return gives it its place in the ISR, only a preferred election its "
            "lead.",
            "columns": ["at", "after", "partition", "leader", "replicas", "ISR"],
            "rows": rows,
        }


def _before(recording: Recording, t_ns: int) -> str:
    done = [e for e in recording.run.events if e.t_ns < t_ns and e.kind in {"injected", "healed", "elected"}]
    words = {"injected": "{} {}", "healed": "the end of {} {}", "elected": "the preferred election"}
    return words[done[-1].kind].format(done[-1].step, done[-1].target) if done else "the start"


def _at_s(recording: Recording, t_ns: int) -> float:
    return (t_ns - recording.run.manifest.started_ns) / SECOND_NS


def out_of_range(recording: Recording) -> Iterator[Table]:
    """Yield each log start's first and last samples."""
    for of in recording.all:
        seen, rows = of.samples.answered, list[list[Any]]()
        for (broker, incarnation, start), own in groups(seen.broker, seen.incarnation, seen.log_start):
            ends = {(int(seen.hw[row]), int(seen.leo[row])): row for row in own[[-1, 0]].tolist()}
            for (hw, leo), row in ends.items():
                at_s = f"{_at_s(recording, int(seen.received_ns[row])):.2f} s"
                rows.append([at_s, f"broker {broker}", incarnation, start, hw, leo])
        if any(row[3] for row in rows):
            yield {
                "title": "Retention takes what a follower never had",
                "short": "Retention",
                "words": "While broker 3 is stopped, retention on the others deletes beyond its LEO. When it is back "
                "its fetch is out of range; it drops its log and begins where its leader's log begins. Then "
                "DeleteRecords takes all that is committed.",
                "columns": ["at", "replica", "incarnation", "log start", "HW", "LEO"],
                "rows": sorted(rows, key=lambda row: float(row[0].split()[0])),
            }


def factor_costs(recording: Recording) -> Iterator[Table]:
    """Yield rate, latency, disk and network use of equal writes, by topic."""
    rows = []
    record_bytes = {producer.producer_id: producer.record_bytes for producer in recording.run.manifest.producers}
    for of in recording.all:
        acked = np.flatnonzero(of.sends.outcome == OK)
        if not acked.size:
            continue
        order = acked[np.argsort(of.sends.due_ns[acked], kind="stable")]
        producers = producer_of(of.sends.value[order])
        own = of.sends.take(order[producers == producers[-1]])
        latencies = np.sort(own.done_ns - own.sent_ns) / 1e6
        from_ns, until_ns = int(own.sent_ns[0]), int(own.done_ns[-1])
        size = len(own) * record_bytes[of.names.listed[producers[-1]]]
        used = (_used(recording, from_ns, until_ns, name) for name in _COUNTERS)
        rows.append(
            [
                len(of.dated[0].replicas),
                round(len(own) * SECOND_NS / (until_ns - from_ns)),
                *(f"{latencies[len(own) * percent // 100]:.2f}" for percent in (50, 99)),
                *(None if value is None else f"{value / size:.2f}" for value in used),
            ]
        )
    if rows:
        yield {
            "title": "What a replication factor costs",
            "short": "Costs",
            "words": "The same records, one after the other with acks=all, to a leader with one to four replicas. "
            "Bytes are those of all brokers for each byte of the records. Brokers here start quickly and share a host: "
            "the factors between the rows mean something, the rates do not.",
            "columns": ["replicas", "records/s", "p50 ms", "p99 ms", "disk written", "network in", "network out"],
            "rows": sorted(rows, key=lambda row: int(row[0])),
        }


_COUNTERS = ("disk_write_bytes", "network_in_bytes", "network_out_bytes")


def _used(recording: Recording, from_ns: int, until_ns: int, name: str) -> float | None:
    own = [row for row in recording.run.usage if row["name"] == name and row["source"].startswith("broker-")]
    total = 0.0
    for source in {row["source"] for row in own}:
        values = sorted((row["t_ns"], row["value"]) for row in own if row["source"] == source)
        before = [value for t_ns, value in values if t_ns <= from_ns]
        after = [value for t_ns, value in values if t_ns >= until_ns]
        if not before or not after:
            return None
        total += after[0] - before[-1]
    return total if own else None
