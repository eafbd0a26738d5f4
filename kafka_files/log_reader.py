"""Read a replica's segments in order, in bounded memory."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kafka_files import checkpoints, message_sets
from kafka_files.batches import CONTROL, TRANSACTIONAL, Data, Headers, Problem, last_offsets, mapped, problem_text
from kafka_files.batches import headers as read_headers
from kafka_files.damage import is_cut_batch, next_batch, only_zeros
from kafka_files.offset_order import misfits
from kafka_files.records import marker
from kafka_files.replicas import EpochRange, Finding, OpenTransaction, Replica, span


class LogReader:
    """Add what segments hold to a replica; ``orphans`` are files of missing segments, by base offset."""

    def __init__(self, replica: Replica, orphans: Mapping[int, list[str]], *, is_live: bool) -> None:
        self._replica, self._orphans, self._is_live = replica, dict(orphans), is_live
        self._open: dict[int, int] = {}
        self._file, self._named = "", 0
        self._expected: int | None = None  # behind the last readable batch
        self._after_damage = False  # the previous batch, and so its last offset, is unreadable

    def read(self, file: Path, *, is_last: bool) -> None:
        self._file, self._named = file.name, int(file.stem)
        try:
            if not stat.S_ISREG(file.stat().st_mode):
                self._lost("is no regular file" if not file.is_dir() else "is a directory, not a segment")
                return
            with nullcontext(file.read_bytes()) if self._is_live else mapped(file) as data:
                self._replica.segments += 1
                self._replica.size_bytes += len(data)
                self._data(data, is_last=is_last)
        except FileNotFoundError as error:
            if file.is_symlink():
                self._lost(f"is a link to {file.readlink()}, which does not exist")
            else:
                why = "it was deleted since the folder was listed, as by retention"
                self._lost(f"{checkpoints.cannot_be_read(error)}: {why}", is_problem=False)
        except OSError as error:
            self._lost(checkpoints.cannot_be_read(error))

    def _lost(self, text: str, *, is_problem: bool = True) -> None:
        self._replica.about_file(self._file, text, is_problem=is_problem)
        self._after_damage = True

    def _data(self, data: Data, *, is_last: bool) -> None:
        at, is_first = 0, True
        while at < len(data):
            headers = read_headers(data, at)
            at = int(headers["position"][-1] + headers["size"][-1])
            is_torn = headers["problem"][-1] == Problem.TORN_TAIL
            # After a false length, bytes may only look like batches.
            damaged_from = _last_read(headers) + 1 if is_torn else len(headers)
            if is_first and damaged_from and headers[0]["base_offset"] < self._named:
                why = f"the segment's name promises offsets from {self._named:,} on"
                self._note(headers[0], why, is_problem=True)
            self._batches(data, headers[:damaged_from])
            if is_torn:
                at = self._damage(data, headers[damaged_from:], is_last=is_last)
            is_first = False

    def _damage(self, data: Data, rows: Headers, *, is_last: bool) -> int:
        """Report unreadable batches; return where to read on."""
        tail = int(rows["position"][-1])
        if only_zeros(data, tail):
            self._batches(data, rows[:-1])
            text = f"the last {len(data) - tail:,} bytes are zeros, as of a preallocated segment"
            self._tail(tail, text, is_problem=False, is_last=is_last)
            return len(data)
        following = next_batch(data, int(rows["position"][0]) + 1, self._least_offset())
        if following is None:
            self._batches(data, rows[:-1])
            self._torn(data, tail, is_last=is_last)
            return len(data)
        resumed, offset = following
        framed = rows["position"] + rows["size"] <= resumed
        framed[-1] = False
        self._batches(data, rows[framed])
        start = int(rows["position"][~framed][0])
        text = f"bytes {start:,} to {resumed - 1:,} cannot be read; the next whole batch begins at byte {resumed:,}"
        self._replica.add(Finding(self._file, start, self._expected, f"{text} with offset {offset:,}", True))
        self._after_damage = True
        return resumed

    def _least_offset(self) -> int:
        return max(self._named, self._expected or 0)

    def _torn(self, data: Data, start: int, *, is_last: bool) -> None:
        size = len(data) - start
        if is_last and not is_cut_batch(data, start, self._least_offset()):
            text = f"the last {size:,} bytes are no batch, and no whole batch follows in them"
            self._tail(start, text, is_problem=True, is_last=True)
        else:
            text = f"torn tail: the last {size:,} bytes are no whole batch"
            self._tail(start, text, is_problem=False, is_last=is_last)

    def _tail(self, start: int, text: str, *, is_problem: bool, is_last: bool) -> None:
        follows = "" if is_last else ", and another segment follows"
        is_problem = is_problem or not is_last
        self._replica.add(Finding(self._file, start, self._replica.end_offset, f"{text}{follows}", is_problem))
        self._after_damage = True

    def end(self) -> None:
        self._replica.open_transactions = sorted(OpenTransaction(*each) for each in self._open.items())
        for base, left in sorted(self._orphans.items()):
            first, end = self._replica.first_offset, self._replica.end_offset
            text = f"the segment is missing (left behind: {', '.join(left)})"
            is_covered = first is not None and end is not None and first <= base < end
            self._replica.about_file(f"{base:020d}.log", text, is_problem=not is_covered)

    def _batches(self, data: Data, headers: Headers) -> None:
        if not len(headers):
            return
        replica = self._replica
        replica.batches += len(headers)
        for magic, count in zip(*np.unique(headers["magic"], return_counts=True), strict=True):
            replica.formats[int(magic)] = replica.formats.get(int(magic), 0) + int(count)
        old = np.isin(headers["magic"], message_sets.FORMATS)
        is_read = _is_read(headers)
        holds_records = is_read & (headers["record_count"] > 0) & (old | (headers["attributes"] & CONTROL == 0))
        replica.records += int(headers["record_count"][holds_records].sum(dtype=np.int64))
        for header in headers[~is_read]:
            self._note(header, problem_text(header) or "", is_problem=True)
        for header in headers[old & (headers["record_count"] == message_sets.NOT_COUNTED)]:
            self._note(header, "the messages wrapped here cannot be decompressed, so they are not counted")
        fits = self._order(headers, is_read)
        self._epochs(headers[is_read & ~old & fits])
        of_transactions = is_read & ~old & (headers["attributes"] & (TRANSACTIONAL | CONTROL) != 0)
        for row in np.flatnonzero(of_transactions).tolist():
            self._transaction(data, headers[row])

    def _order(self, headers: Headers, is_read: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Report gaps and offsets that go back; return which base offsets fit."""
        replica, fits = self._replica, np.ones(len(headers), np.bool_)
        may_hide = np.concatenate([[self._after_damage], ~is_read[:-1]])[is_read]
        self._after_damage = not is_read[-1]
        read = headers[is_read]
        if not len(read):
            return fits
        if self._expected is None:  # compaction may leave the name below the first batch
            self._expected, may_hide[0] = min(self._named, int(read["base_offset"][0])), True
        first, ends = read["base_offset"], last_offsets(read) + 1
        alone = np.zeros(len(read), np.bool_)
        for row, kind, expected in misfits(first, ends, may_hide, self._expected):
            alone[row] = kind == "alone"
            self._misfit(read[row], kind, expected)
        fits[is_read] = ~alone
        if replica.first_offset is None:
            replica.first_offset = self._expected if alone[0] else int(first[0])
        replica.end_offset = max(replica.end_offset or 0, *ends[~alone].tolist())
        self._expected = int(ends[-1])
        return fits

    def _misfit(self, header: np.void, kind: str, expected: int) -> None:
        offset = int(header["base_offset"])
        if kind == "alone":
            text = f"base offset {offset:,} does not fit its neighbours: {expected:,} is expected"
            self._note(header, f"{text} (the CRC does not cover base offsets)", is_problem=True)
        elif kind == "back":
            self._note(header, f"offsets go back: the log reached {expected - 1:,} before", is_problem=True)
        else:
            gap = f"gap: {span(expected, offset - 1)} {'is' if offset == expected + 1 else 'are'} not there"
            missing = [base for base in sorted(self._orphans) if expected <= base < offset]
            for base in missing:
                gap += f"; segment {base:020d}.log is missing (left behind: {', '.join(self._orphans.pop(base))})"
            self._note(header, gap, is_problem=bool(missing))

    def _epochs(self, of_epoch: Headers) -> None:
        if not len(of_epoch):
            return
        epochs, known = of_epoch["leader_epoch"], self._replica.epochs
        changes = np.flatnonzero(np.diff(epochs)) + 1
        for rows in np.split(np.arange(len(of_epoch)), changes):
            first, last = of_epoch[rows[0]], of_epoch[rows[-1]]
            epoch, last_offset = int(first["leader_epoch"]), int(last["base_offset"] + last["last_offset_delta"])
            if known and epoch == known[-1].epoch:
                known[-1] = known[-1]._replace(last_offset=last_offset)
                continue
            if known and epoch < known[-1].epoch:
                self._note(first, f"leader epoch falls from {known[-1].epoch} to {epoch}", is_problem=True)
            known.append(EpochRange(epoch, int(first["base_offset"]), last_offset))

    def _transaction(self, data: Data, header: np.void) -> None:
        producer = int(header["producer_id"])
        if not header["attributes"] & CONTROL:
            self._open.setdefault(producer, int(header["base_offset"]))
            return
        ended = marker(data, header)
        if ended in {"commit", "abort"}:
            self._replica.commits += ended == "commit"
            self._replica.aborts += ended == "abort"
            self._open.pop(producer, None)

    def _note(self, header: np.void, text: str, *, is_problem: bool = False) -> None:
        position, offset = int(header["position"]), int(header["base_offset"])
        self._replica.add(Finding(self._file, position, offset, text, is_problem))


def _is_read(headers: Headers) -> npt.NDArray[np.bool_]:
    old = np.isin(headers["magic"], message_sets.FORMATS)
    is_read: npt.NDArray[np.bool_] = (headers["problem"] == 0) | (old & (headers["problem"] == Problem.MAGIC))
    return is_read


def _last_read(headers: Headers) -> int:
    rows = np.flatnonzero(_is_read(headers) & (headers["problem"] != Problem.TORN_TAIL))
    return int(rows[-1]) if len(rows) else -1
