"""Parse replica changes from ``server.log``.

Formats differ: brackets around the ISR's new version until 3.0; "with topic id" and a comma before "high watermark"
since 3.x; the second truncation line since 3.1; "(under-min-isr)" since 3.6.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from history.manifest import Manifest
from history.partition import TopicPartition
from kafka_files.clock import Clock, wall_ns

_AT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d{4}) \[.*?\] [A-Z]+ \S+ - (.*)")
_OF = r"\[Partition (?P<tp>\S+) broker=\d+\] "
_IN_LOG = r"\[(?:Unified)?Log partition=(?P<tp>[^,\]]+)[^\]]*\] "
_KINDS = {
    "isr_shrinking": re.compile(
        _OF
        + r"Shrinking ISR from \S+ to (?P<isr>[\d,]*)\. Leader: \(highWatermark: (?P<hw>\d+), endOffset: (?P<leo>\d+)\)"
        + r"(?:\. Out of sync replicas: (?P<out>.*))?"
    ),
    "isr_updated": re.compile(
        _OF + r"ISR updated to (?P<isr>[\d,]*) +(?P<under>\(under-min-isr\) )?and version updated to \[?(?P<pe>\d+)"
    ),
    "isr_reset": re.compile(
        _OF + r"Failed to alter partition to .* Partition state has been reset to the latest committed state"
    ),
    "isr_refused": re.compile(  # by ZooKeeper, logged by the controller
        r"\[Controller id=\d+\] Failed to update ISR to LeaderAndIsr\(leader=\d+, leaderEpoch=(?P<epoch>\d+), "
        r"isrWithBrokerEpoch=List\((?P<members>.*)\), leaderRecoveryState=\w+, partitionEpoch=(?P<pe>\d+)\) for "
        r"partition (?P<tp>\S+), bad ZK version"
    ),
    "leader_started": re.compile(
        r"\[Broker id=\d+\] Leader (?P<tp>\S+) (?:with topic id \S+ )?starts at leader epoch (?P<epoch>\d+) from "
        r"offset (?P<leo>\d+) with (?:partition epoch (?P<pe>\d+), )?high watermark (?P<hw>\d+),? "
        r"ISR \[(?P<isr>[\d,]*)\]"
    ),
    "follower_started": re.compile(
        r"\[Broker id=\d+\] Follower (?P<tp>\S+) (?:with topic id \S+ )?starts at leader epoch (?P<epoch>\d+) from "
        r"offset (?P<leo>\d+) with (?:partition epoch (?P<pe>\d+) and )?high watermark (?P<hw>\d+)"
    ),
    "truncating": re.compile(_IN_LOG + r"Truncating to offset (?P<leo>\d+)"),
    "hw_lowered": re.compile(
        _IN_LOG + r"Non-monotonic update of high watermark from \(offset=(?P<old>\d+).*?\) to \(offset=(?P<hw>\d+)"
    ),
    "log_loaded": re.compile(_OF + r"Log loaded for partition \S+ with initial high watermark (?P<hw>\d+)"),
    "leo_recorded": re.compile(
        _OF + r"Recorded replica (?P<follower>\d+) log end offset \(LEO\) position (?P<leo>\d+)"
    ),
}
_MEMBER = re.compile(r"brokerId=(\d+)")
_OUT_OF_SYNC = re.compile(r"\(brokerId: (\d+), endOffset: (-?\d+)")
_BITS = ("partition", "leader_epoch", "partition_epoch", "follower")  # 32 bits
_NUMBERS = {
    "epoch": "leader_epoch",
    "pe": "partition_epoch",
    "hw": "high_watermark",
    "old": "previous_high_watermark",
    "leo": "log_end_offset",
    "follower": "follower",
}


def parse(line: str) -> dict[str, Any] | None:
    """Return a line's values (time as ``wall_ns``), if any."""
    try:
        found = _parse(line)
    except (ValueError, OverflowError):  # an invalid date or partition
        return None
    return found if found is not None and _fits(found) else None


def _fits(found: dict[str, Any]) -> bool:
    leaving = found.get("out_of_sync", ())
    of_32_bits = [*found.get("isr", ()), *(found.get(name, 0) for name in _BITS), *(broker for broker, _ in leaving)]
    of_64_bits = [*(end for _, end in leaving), *(number for number in found.values() if isinstance(number, int))]
    return all(number < 2**31 for number in of_32_bits) and all(number < 2**63 for number in of_64_bits)


def _parse(line: str) -> dict[str, Any] | None:
    stamped = _AT.match(line)
    if stamped is None:
        return None
    for kind, pattern in _KINDS.items():
        found = pattern.match(stamped[2])
        if found is None:
            continue
        said = found.groupdict()
        topic, partition = TopicPartition.parse(said["tp"])
        known = {group: text for group, text in said.items() if text is not None}
        values: dict[str, Any] = {name: int(known[group]) for group, name in _NUMBERS.items() if group in known}
        if "isr" in known:
            values["isr"] = sorted(int(broker_id) for broker_id in known["isr"].split(",") if broker_id)
        if "members" in known:
            values["isr"] = sorted(map(int, _MEMBER.findall(known["members"])))
        if "out" in known:
            values["out_of_sync"] = [(int(broker), int(end)) for broker, end in _OUT_OF_SYNC.findall(known["out"])]
        return {
            "wall_ns": wall_ns(datetime.strptime(stamped[1], "%Y-%m-%dT%H:%M:%S.%f%z")),
            "kind": kind,
            "topic": topic,
            "partition": partition,
            "under_min_isr": "under" in known if kind == "isr_updated" else None,
            "text": stamped[2],
            **values,
        }
    return None


def read_broker_logs(brokers: Path, manifest: Manifest, clock: Clock) -> Iterator[dict[str, Any]]:
    """Yield rows about the run's topics: node id, line number, ``t_ns`` (None: no clock pairs) and ``parse``'s values.

    ``high_watermark`` of hw_lowered is the new one, ``log_end_offset`` of truncating its target. ``isr`` of
    isr_shrinking is requested, of isr_refused rejected. ``out_of_sync`` are leaving brokers with their log ends.
    """
    for node in manifest.brokers:
        for number, line in enumerate(_lines(brokers / node.name / "server.log"), 1):
            said = parse(line)
            if said is not None and said["topic"] in manifest.topics:
                t_ns = clock.monotonic_ns(said.pop("wall_ns"))
                yield {"broker_id": node.node_id, "line": number, "t_ns": t_ns, **said}


def _lines(file: Path) -> Iterator[str]:
    if file.is_file():
        with file.open(errors="replace") as lines:
            yield from lines
