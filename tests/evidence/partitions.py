"""A partition's evidence from literal rows, as tests/evidence/folders.py writes them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from evidence.columns import NULL, Log, Names, Polls, Seeks, Sends
from evidence.partition import PartitionEvidence
from evidence.samples import Samples
from history.tables import POLLS, REPLICAS, SEEKS, SENDS
from judge.checks.findings import Cases
from tests.evidence.probed import WHERE, fields_of

Row = Mapping[str, Any]


def evidence(
    sends: Sequence[Row] = (),
    polls: Sequence[Row] = (),
    seeks: Sequence[Row] = (),
    samples: Sequence[Row] = (),
    logs: Mapping[int, Sequence[Row]] | None = None,
    **facts: Any,
) -> PartitionEvidence:
    """Partition 0 of orders; ``logs`` are rows of each replica's log: offset, producer_id, seq."""
    names = Names()
    columns = {
        "where": WHERE,
        "names": names,
        "sends": Sends.of(pa.Table.from_pylist(list(sends), SENDS), names),
        "polls": Polls.of(pa.Table.from_pylist(list(polls), POLLS), names),
        "seeks": Seeks.of(pa.Table.from_pylist(list(seeks), SEEKS), names),
        "samples": Samples.of(pa.Table.from_pylist(list(samples), REPLICAS)),
        "logs": {broker: log_of(rows, names) for broker, rows in (logs or {}).items()},
        "complete": frozenset(logs or {}),
    }
    nodes = {broker: f"broker-{broker}" for broker in logs or {}}
    return PartitionEvidence(**columns | fields_of(nodes=nodes, **facts))


def log_of(rows: Sequence[Row], names: Names) -> Log:
    """A replica's records."""

    def column(name: str, default: int) -> np.ndarray:
        return np.array([default if row.get(name) is None else row[name] for row in rows], dtype=np.int64)

    producers = pa.chunked_array([pa.array([row.get("producer_id") for row in rows], pa.string())])
    numbers = pa.chunked_array([pa.array([row.get("seq") for row in rows], pa.int64())])
    return Log(
        offset=column("offset", NULL),
        value=names.values(producers, numbers),
        leader_epoch=column("leader_epoch", 0),
        damaged=~column("checksum_ok", True).astype(np.bool_),
        kafka_producer_id=column("kafka_producer_id", NULL),
        transactional=column("transactional", False).astype(np.bool_),
    )


def logged(offset: int, seq: int | None, **other: Any) -> Row:
    """A record in a replica's log."""
    return {"offset": offset, "leader_epoch": 0, "producer_id": "load-1", "seq": seq, "checksum_ok": True} | other


def shown(cases: Cases, names: Names) -> list[tuple[int | None, int | None]]:
    """(offset, seq) of every case, in order."""
    found = [(cases.example(place)["offset"], names.name(int(v))[1]) for place, v in enumerate(cases.values)]
    return sorted(found, key=lambda each: (each[0] is None, each))


def offsets(cases: Cases) -> list[int | None]:
    """The offset of every case, in order."""
    return [offset for offset, _ in shown(cases, Names([f"{n}" for n in range(9)]))]


def explanations(cases: Cases) -> list[str]:
    """The sentence of every case, by offset."""
    rows = [cases.example(place) for place in range(cases.values.size)]
    return [row["explanation"] for row in sorted(rows, key=lambda row: (row["offset"] is None, row["offset"]))]
