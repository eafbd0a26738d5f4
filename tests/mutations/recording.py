"""Edit a copy of a recorded run: raw files only, sealed again."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import google_crc32c
import pyarrow as pa
import pyarrow.parquet as pq

from history.events import Event, read_events
from history.folder import RunFolder, write_atomically
from history.manifest import Manifest, read_manifest
from history.tables import RECORDED
from kafka_files.batches import CRC_AT, CRC_FROM, FIELDS, HEADER, header_slices
from kafka_files.checkpoints import LEADER_EPOCHS

T = TypeVar("T")
Row = dict[str, Any]
Election = Callable[[list[int], int], tuple[list[int], int]]
HEADER_FIELDS = ("leader_epoch", "base_timestamp", "base_sequence")


class NoPlaceError(Exception):
    """This recording has no suitable place for this damage."""


@dataclass(frozen=True)
class Recording:
    """A run folder to be damaged, and the random generator of the place."""

    folder: RunFolder
    dice: Random
    topic: str = "orders"
    partition: int = 0
    _read: dict[str, list[Row]] = field(default_factory=dict)

    @classmethod
    def copy(cls, run: Path, to: Path, seed: str) -> Recording:
        """Return a copy of links to the original's files: every edit writes a new file."""
        shutil.copytree(
            run, to, copy_function=os.link, ignore=lambda where, _: ["verdict", "report"] if where == str(run) else []
        )
        return cls(RunFolder(to), Random(seed))  # for reproducibility, not for secrecy

    @cached_property
    def manifest(self) -> Manifest:
        return read_manifest(self.folder.manifest)

    def choose(self, places: Sequence[T]) -> T:
        """Return one of the places.

        Raises:
            NoPlaceError: there is none.
        """
        if not places:
            raise NoPlaceError
        return self.dice.choice(places)

    def first(self, rows: list[Row], fits: Callable[[Row], bool]) -> Row:
        """Return a random row that fits.

        Raises:
            NoPlaceError: there is none.
        """
        found = next((row for row in self.dice.sample(rows, len(rows)) if fits(row)), None)
        if found is None:
            raise NoPlaceError
        return found

    # --- tables ----------------------------------------------------------------------------------

    def rows(self, table: str) -> list[Row]:
        """Return a table's rows, to be changed in place and written by ``put``."""
        if table not in self._read:
            files = sorted(self.folder.table(table).glob("*.parquet"))
            self._read[table] = [row for file in files for row in pq.read_table(file).to_pylist()]
        return self._read[table]

    def put(self, table: str, rows: list[Row]) -> None:
        shutil.rmtree(self.folder.table(table), ignore_errors=True)
        self.folder.table(table).mkdir()
        pq.write_table(pa.Table.from_pylist(rows, RECORDED[table]), self.folder.table(table) / f"{table}.parquet")
        self._read[table] = rows

    def reads(self, of: str) -> list[Row]:
        """Return a pass's polls in order; ``of`` is ``live`` or ``final``."""
        return sorted((row for row in self.rows("polls") if row["pass"] == of), key=lambda row: int(row["position"]))

    def acked(self) -> list[Row]:
        return [row for row in self.rows("sends") if row["outcome"] == "ok"]

    def samples(self) -> list[Row]:
        """Return the probe's valid answers by request time."""
        good = (row for row in self.rows("replicas") if row["error"] is None and row["leader_epoch"] is not None)
        return sorted(good, key=lambda row: int(row["sent_ns"]))

    @cached_property
    def leaders(self) -> dict[tuple[int, int], int]:
        """Return the leader by (partition, epoch)."""
        named = (row for row in self.rows("isr") if (row["leader"] or -1) >= 0)
        return {(row["partition"], row["leader_epoch"]): row["leader"] for row in named}

    def of_leader(self) -> list[Row]:
        leaders = self.leaders
        return [r for r in self.samples() if leaders.get((r["partition"], r["leader_epoch"])) == r["broker_id"]]

    def isr_at(self, t_ns: int) -> list[int]:
        """Return the ISR that every observer shows within 1 s; empty if they differ."""
        seen = {tuple(sorted(r["isr"])) for r in self.rows("isr") if r["isr"] and abs(r["received_ns"] - t_ns) < 10**9}
        return list(seen.pop()) if len(seen) == 1 else []

    # --- files -----------------------------------------------------------------------------------

    @cached_property
    def events(self) -> list[Event]:
        return list(read_events(self.folder.events))

    def put_events(self, events: list[Event]) -> None:
        lines = [json.dumps(vars(event)) for event in events]
        write_atomically(self.folder.events, "\n".join(lines) + "\n")

    # --- replicas' files -------------------------------------------------------------------------

    @property
    def brokers(self) -> dict[int, Path]:
        return {node.node_id: self.folder.brokers / node.name for node in self.manifest.brokers if node.node_id}

    def segment(self, broker_id: int) -> Path:
        """Return the replica's only segment.

        Raises:
            NoPlaceError: it has several.
        """
        found = sorted(self.brokers[broker_id].rglob(f"{self.topic}-{self.partition}/*.log"))
        if len(found) != 1:
            raise NoPlaceError
        return found[0]

    def batches(self, broker_id: int) -> list[bytearray]:
        return split(self.segment(broker_id).read_bytes())

    def put_batches(self, broker_id: int, found: list[bytearray]) -> None:
        replace_file(self.segment(broker_id), b"".join(found))

    def epoch_files(self) -> list[Path]:
        return sorted(self.folder.brokers.rglob(f"{self.topic}-{self.partition}/{LEADER_EPOCHS}"))

    def server_logs(self) -> dict[int, Path]:
        return {broker_id: folder / "server.log" for broker_id, folder in self.brokers.items()}


# --- files -----------------------------------------------------------------------------------------


def edit(file: Path, change: Callable[[str], str]) -> None:
    """Change a file's text."""
    write_atomically(file, change(file.read_text()))


def replace_file(file: Path, content: bytes) -> None:
    """Keep the original, to which the file is a link."""
    file.unlink()
    file.write_bytes(content)


def edit_summary(run: Recording, client_id: str, change: Callable[[Any], None]) -> None:
    """Change a client's report."""
    file = run.folder.clients / f"{client_id}.json"
    held = json.loads(file.read_text())
    change(held)
    write_atomically(file, json.dumps(held, indent=1))


def drained_to(run: Recording, position: int, end_offset: int) -> None:
    """Let the final drain end at a position."""

    def change(words: Any) -> None:
        reached = words["partitions"][f"{run.topic}-{run.partition}"]
        reached |= {"position": position, "end_offset": end_offset, "complete": position >= end_offset}

    edit_summary(run, "drain", change)


def cut_evidence(run: Recording, end: int) -> None:
    """Let readers, their summaries and the final capture end at an offset, as if the logs had ended there."""
    rows = [row for row in run.rows("polls") if row["offset"] < end]
    run.put("polls", rows)
    for client_id, count in Counter(row["consumer_id"] for row in rows).items():
        edit_summary(run, client_id, partial(dict.update, rows=count))
    captured = run.rows("offsets")
    for row in captured:
        if (row["capture"], row["topic"], row["partition"]) == ("after", run.topic, run.partition):
            row |= {name: min(row[name], end) for name in ("high_watermark", "last_stable_offset", "log_end_offset")}
    run.put("offsets", captured)
    drained_to(run, end, end)


# --- the controller's history ------------------------------------------------------------------------


def edit_history(run: Recording, change: Election) -> None:
    """Change ISR and leader of one election in every copy of the history.

    Raises:
        NoPlaceError: no election names both.
    """
    if run.manifest.mode == "zookeeper":
        _edit_znodes(run, change)
    else:
        _edit_metadata(run, change)


def _edit_znodes(run: Recording, change: Election) -> None:
    state = re.compile(rb'"leader":(\d),"version":1,"leader_epoch":([1-9]\d*),"isr":\[([\d,]+)\]')
    files = sorted(run.folder.brokers.rglob("version-2/log.*"))
    found = [(file, match) for file in files for match in state.finditer(file.read_bytes().rstrip(b"\0"))]
    file, match = run.choose([(f, m) for f, m in found if b"," in m[3]])
    isr, leader = change([int(broker_id) for broker_id in match[3].split(b",")], int(match[1]))
    text = b'"leader":%d,"version":1,"leader_epoch":%s,"isr":[%s]' % (
        leader,
        match[2],
        ",".join(map(str, isr)).encode(),
    )
    data = file.read_bytes()
    replace_file(file, data[: match.start()] + text + data[match.end() :])


def _edit_metadata(run: Recording, change: Election) -> None:
    copies = sorted(run.folder.brokers.rglob("__cluster_metadata-0/*.log"))
    # tagged fields 0 (ISR) and 1 (leader) of a partition change
    election = re.compile(
        rb"\x01\x05[\x00-\x02]\x00{3}.{17}.\x00.([\x03-\x05])((?:\x00{3}.)+)\x01\x04(\x00{3}.)", re.DOTALL
    )
    places = [m.group() for m in election.finditer(copies[0].read_bytes()) if len(m[2]) == 4 * (m[1][0] - 1)]
    chosen = run.choose(places)
    match = election.fullmatch(chosen)
    assert match is not None
    isr, leader = change([match[2][at + 3] for at in range(0, len(match[2]), 4)], match[3][3])
    ids = b"".join(broker_id.to_bytes(4, "big") for broker_id in isr)
    new = chosen[: match.start(2)] + ids + chosen[match.end(2) : match.start(3)] + leader.to_bytes(4, "big")
    for file in copies:
        found = [bytearray(batch.replace(chosen, new)) for batch in split(file.read_bytes())]
        replace_file(file, b"".join(with_crc(batch) for batch in found))


# --- batches -----------------------------------------------------------------------------------------


def split(segment: bytes) -> list[bytearray]:
    """Return a segment's batches, each with its header."""
    starts = [start for found in header_slices(segment) for start in found["position"].tolist()]
    return [bytearray(segment[a:b]) for a, b in zip(starts, [*starts[1:], len(segment)], strict=True)]


def header(batch: bytearray) -> dict[str, int]:
    """Return the header fields that can be damaged, with ``base_offset`` and ``last_offset``."""
    values = dict(zip(FIELDS, HEADER.unpack_from(batch), strict=True))
    last = values["base_offset"] + values["last_offset_delta"]
    return {"base_offset": values["base_offset"], "last_offset": last, **{name: values[name] for name in HEADER_FIELDS}}


def with_field(batch: bytearray, name: str, value: int) -> bytearray:
    """Return a batch with a changed header field and a valid checksum."""
    values = list(HEADER.unpack_from(batch))
    values[FIELDS.index(name)] = value
    return with_crc(bytearray(HEADER.pack(*values)) + batch[HEADER.size :])


def with_crc(batch: bytearray) -> bytearray:
    """Return a batch with a valid checksum."""
    crc: int = google_crc32c.value(bytes(batch[CRC_FROM:]))
    return batch[:CRC_AT] + crc.to_bytes(4, "big") + batch[CRC_FROM:]


def runs_of(rows: list[Row], key: Callable[[Row], Any]) -> Iterator[list[Row]]:
    """Yield runs of neighbouring rows with equal keys."""
    found: list[Row] = []
    for row in rows:
        if found and key(found[-1]) != key(row):
            yield found
            found = []
        found.append(row)
    if found:
        yield found
