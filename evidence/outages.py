"""Find outages on a cluster that others operate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evidence.columns import Ints, ints
from evidence.facts import SETTLE_NS, STALE_METADATA_NS
from evidence.run import Run
from history.remote import parquet_file

NO_ANSWER = ("timeout", "unreachable")
_ROWS_AT_ONCE = 1_000_000


def outages_of_others(run: Run) -> list[tuple[int, int]]:
    """Return when brokers were silent or leaders changed, until it settled."""
    if not run.profile.lacking("starts"):
        return []
    silent = (span for times in _silent(run).values() for span in _spans(times))
    return sorted([*silent, *_spans(_new_epochs(run))])


def _silent(run: Run) -> dict[int, Ints]:
    found: dict[int, list[Ints]] = {}
    for batch in _batches(run, "replicas", ["broker_id", "received_ns", "error"]):
        errors = batch.filter(pc.is_in(batch["error"], pa.array(NO_ANSWER)))
        brokers, received_ns = ints(errors["broker_id"]), ints(errors["received_ns"])
        for broker in np.unique(brokers).tolist():
            found.setdefault(broker, []).append(received_ns[brokers == broker])
    return {broker: np.concatenate(times) for broker, times in found.items()}


def _new_epochs(run: Run) -> Ints:
    """Return when leader epochs were first seen, except each partition's first."""
    columns = ["topic", "partition", "leader_epoch", "received_ns"]
    parts = [pa.Table.from_batches([batch]) for batch in _batches(run, "isr", columns)]
    if not parts:
        return np.empty(0, dtype=np.int64)
    seen = pa.concat_tables(parts).drop_null().group_by(columns[:3]).aggregate([("received_ns", "min")]).to_pylist()
    by_partition: dict[tuple[str, int], dict[int, int]] = {}
    for row in seen:
        by_partition.setdefault((row["topic"], row["partition"]), {})[row["leader_epoch"]] = row["received_ns_min"]
    later = [t_ns for epochs in by_partition.values() for epoch, t_ns in epochs.items() if epoch > min(epochs)]
    return np.array(later, dtype=np.int64)


def _batches(run: Run, table: str, columns: list[str]) -> Iterator[pa.RecordBatch]:
    for file in run.files[table]:
        yield from parquet_file(file).iter_batches(_ROWS_AT_ONCE, columns=columns)


def _spans(times: Ints) -> Iterable[tuple[int, int]]:
    """Join times that are less than the settling time apart."""
    times = np.sort(times)
    parts = np.split(times, np.flatnonzero(np.diff(times) > SETTLE_NS) + 1) if times.size else []
    return [(int(part[0]) - STALE_METADATA_NS, int(part[-1]) + SETTLE_NS) for part in parts]
