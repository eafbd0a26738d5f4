"""Tables of expected and observed values, from recordings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from claims.recording import SECOND_NS, Recording, Remote, Sample

Table = dict[str, Any]
ROUNDS = 24
BEFORE_NS, AFTER_NS = 50_000_000, 1_000_000_000  # around a write
LOOK_NS = 100_000_000  # two probes


def walkthroughs(recordings: Mapping[str, Recording]) -> list[Table]:
    """Return every table that these recordings provide."""
    makers = {"propagation": rounds, "elections": described, "log_start": out_of_range, "factor": factor_costs}
    return [table for name, make in makers.items() if name in recordings for table in make(recordings[name])]


# --- how the HW spreads, by fetch ------------------------------------------------------------------


def rounds(recording: Recording) -> Iterator[Table]:
    """Yield the fetches around an idle partition's first record."""
    quiet = [send for send in recording.sends if send["outcome"] == "ok" and send["producer_id"] == "write-2"]
    if not quiet or not recording.remotes:
        return
    where = quiet[0]["topic"], quiet[0]["partition"]
    at_ns = quiet[0]["sent_ns"]
    own = [note for note in recording.remotes if note.where == where]
    remote = {note.follower: note.leo for note in own if note.t_ns < at_ns - BEFORE_NS}
    notes = [note for note in own if at_ns - BEFORE_NS < note.t_ns < at_ns + AFTER_NS][:ROUNDS]
    rows = []
    for number, note in enumerate(notes):
        remote[note.follower] = note.leo
        moving = (later.t_ns for later in notes[number + 1 :] if remote.get(later.follower) != later.leo)
        until_ns = min(next(moving, at_ns + AFTER_NS), note.t_ns + LOOK_NS)
        rows.append([round((note.t_ns - at_ns) / 1e6), *_round(recording, note, until_ns, remote)])
    yield {
        "title": "One record, fetch by fetch",
        "short": "Fetches",
        "words": f"{where} is idle, and one record is written with acks=1 at 0 ms. A row is a fetch that the leader "
        "logged. It starts at the follower's LEO; the HW is then the least of the leader's LEO and the stored ones. "
        "Seen is each replica's last answer before the next fetch with an effect; –: there was no probe in between.",
        "columns": [
            "ms",
            "fetch of",
            "asks from",
            "noted LEOs",
            "leader LEO",
            "HW expected",
            "HW seen",
            "follower LEO",
            "follower HW",
        ],
        "rows": rows,
    }


def _round(recording: Recording, note: Remote, until_ns: int, remote: Mapping[int, int]) -> list[Any]:
    lead, follower = (_seen(recording, note, broker, until_ns) for broker in (note.leader, note.follower))
    end = _end(recording, note)
    noted = ", ".join(f"{broker}: {leo}" for broker, leo in sorted(remote.items()))
    return [
        f"broker {note.follower}",
        note.leo,
        noted,
        end,
        min([end, *remote.values()]),
        lead.hw if lead else None,
        follower.leo if follower else None,
        follower.hw if follower else None,
    ]


def _seen(recording: Recording, note: Remote, broker: int, until_ns: int) -> Sample | None:
    own = [s for s in recording.of(note.where, broker) if s.sent_ns >= note.t_ns and s.received_ns <= until_ns]
    return own[-1] if own else None


def _end(recording: Recording, note: Remote) -> int:
    said = [s.leo for s in recording.of(note.where, note.leader) if s.received_ns <= note.t_ns]
    sends = [send for send in recording.sends if (send["topic"], send["partition"]) == note.where]
    acked = [int(send["offset"]) + 1 for send in sends if send["outcome"] == "ok" and send["done_ns"] <= note.t_ns]
    return max([0, *said, *acked])


# --- the describe demo -----------------------------------------------------------------------------


def described(recording: Recording) -> Iterator[Table]:
    """Yield the brokers' descriptions of a topic."""
    rows = [
        [
            f"{recording.at_s(event.t_ns):.1f} s",
            _before(recording, event.t_ns),
            f"{event.target}-{part['partition']}",
            part["leader"],
            _ids(part["replicas"]),
            _ids(part["isr"]),
        ]
        for event in recording.described()
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
    done = [e for e in recording.events if e.t_ns < t_ns and e.kind in {"injected", "healed", "elected"}]
    words = {"injected": "{} {}", "healed": "the end of {} {}", "elected": "the preferred election"}
    return words[done[-1].kind].format(done[-1].step, done[-1].target) if done else "the start"


def _ids(brokers: list[int]) -> str:
    return ", ".join(map(str, brokers))


# --- retention beyond a follower's end -------------------------------------------------------------


def out_of_range(recording: Recording) -> Iterator[Table]:
    """Yield samples at which a replica's log start or LEO changed."""
    for where in recording.states:
        rows: list[list[Any]] = []
        last: dict[tuple[int, int | None], tuple[int, int]] = {}
        for sample in recording.samples.get(where, ()):
            told = (sample.log_start, sample.leo // 500)
            if last.get((sample.broker, sample.incarnation)) != told:
                last[sample.broker, sample.incarnation] = told
                rows.append(
                    [
                        f"{recording.at_s(sample.received_ns):.2f} s",
                        f"broker {sample.broker}",
                        sample.incarnation,
                        sample.log_start,
                        sample.hw,
                        sample.leo,
                    ]
                )
        if any(row[3] for row in rows):
            yield {
                "title": "Retention takes what a follower never had",
                "short": "Retention",
                "words": "While broker 3 is stopped, retention on the others deletes beyond its LEO. When it is back "
                "its fetch is out of range; it drops its log and begins where its leader's log begins. Then "
                "DeleteRecords takes all that is committed.",
                "columns": ["at", "replica", "incarnation", "log start", "HW", "LEO"],
                "rows": _ends(rows),
            }


def _ends(rows: list[list[Any]]) -> list[list[Any]]:
    first = {tuple(row[1:4]): row for row in reversed(rows)}
    last = {tuple(row[1:4]): row for row in rows}
    return [row for row in rows if row in (first[tuple(row[1:4])], last[tuple(row[1:4])])]


# --- what a replication factor costs ---------------------------------------------------------------


def factor_costs(recording: Recording) -> Iterator[Table]:
    """Yield rate, latency, disk and network use of equal writes, by topic."""
    rows = []
    for topic, history in sorted((where.topic, states) for where, states in recording.states.items()):
        factor = len(history[0].replicas)
        sends = [s for s in recording.sends if s["topic"] == topic and s["outcome"] == "ok"]
        if not sends:
            continue
        last = [s for s in sends if s["producer_id"] == sends[-1]["producer_id"]]
        took_ns = last[-1]["done_ns"] - last[0]["sent_ns"]
        latencies = sorted((s["done_ns"] - s["sent_ns"]) / 1e6 for s in last)
        size = sum(s["record_bytes"] for s in last)
        used = {name: _used(recording, last[0]["sent_ns"], last[-1]["done_ns"], name) for name in _COUNTERS}
        rows.append(
            [
                factor,
                round(len(last) * SECOND_NS / took_ns),
                f"{latencies[len(latencies) // 2]:.2f}",
                f"{latencies[len(latencies) * 99 // 100]:.2f}",
                *(f"{value / size:.2f}" if value is not None else None for value in used.values()),
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
    own = [row for row in recording.usage if row["name"] == name and row["source"].startswith("broker-")]
    total = 0.0
    for source in {row["source"] for row in own}:
        values = [(row["t_ns"], row["value"]) for row in own if row["source"] == source]
        before = [value for t_ns, value in values if t_ns <= from_ns]
        after = [value for t_ns, value in values if t_ns >= until_ns]
        if not before or not after:
            return None
        total += after[0] - before[-1]
    return total if own else None
