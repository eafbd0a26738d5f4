"""Write an imported history as a sealed run folder."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from clusters.scenario.steps.catalog import traits_by_step
from history.errors import BadInput
from history.events import Event
from history.folder import RunFolder
from history.manifest import Manifest, Origin, ProducerInfo, TopicInfo
from history.partitioned import write_partitioned
from history.product import product
from history.tables import IMPORTED, RECORDED
from imports.records import NOBODY, Row, Tables, topic_setting_refused

_WEAKEST: tuple[Literal["0", "1", "all"], ...] = ("0", "1", "all")
_RETRIES = 2**31 - 1  # Kafka's default since KIP-91


@dataclass(frozen=True)
class Settings:
    """The known configuration of cluster and clients."""

    acks: Literal["0", "1", "all"] = "all"
    idempotence: bool | None = None  # None: only if the history shows transactions
    unclean_election: bool = False
    topics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # by topic; "": of every topic
    isolation: Literal["read_uncommitted", "read_committed"] = "read_committed"
    faults: tuple[str, ...] = ()
    kafka_version: str = "unknown"


def topic_settings(given: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return settings by topic from arguments such as ``orders:cleanup.policy=compact``.

    Raises:
        BadInput: an argument is not a topic's setting.
    """
    found: dict[str, dict[str, str]] = {}
    for word in " ".join(given).split():
        match = re.fullmatch(r"(?:([\w.-]+):)?([\w.]+)=(\S*)", word)
        if match is None:
            raise BadInput(f"--topic-config={word}: give [TOPIC:]NAME=VALUE, such as orders:cleanup.policy=compact.")
        topic, name, value = match.groups(default="")
        if why := topic_setting_refused(name, value):
            raise BadInput(f"--topic-config={word}: {why}")
        found.setdefault(topic, {})[name] = value
    return found


def write(runs: Path, origin: Origin, sources: Sequence[Path], tables: Tables, settings: Settings) -> RunFolder:
    """Write and seal a run folder; on failure, remove it."""
    now = datetime.now(UTC)
    run_id = f"{now:%Y%m%d-%H%M%S}-import-{origin}-{secrets.token_hex(2)}"
    partial = RunFolder(runs / f".{run_id}")
    partial.path.mkdir(parents=True)
    try:
        manifest = _manifest(run_id, now, origin=origin, sources=sources, tables=tables, settings=settings)
        manifest.write(partial.manifest)
        _write_events(partial, manifest, tables)
        for name, rows in {"sends": tables.sends, "polls": tables.polls}.items():
            _write_table(partial.table(name), rows, RECORDED[name])
        _write_table(partial.table("imported"), tables.imported, IMPORTED)
        partial.seal()
        return RunFolder(partial.path.rename(runs / run_id))
    except BaseException:
        shutil.rmtree(partial.path)
        raise


def _write_table(folder: Path, rows: list[Row], schema: pa.Schema) -> None:
    folder.mkdir()
    write_partitioned(pa.Table.from_pylist(rows, schema=schema).to_batches(), folder / "imported.parquet", schema)


def distinct_names(files: Sequence[Path]) -> list[str]:
    """Return file names, with parent folders where needed to distinguish them."""
    paths = [file.absolute().parts for file in files]
    parts = next(n for n in range(1, max(map(len, paths)) + 1) if len({p[-n:] for p in paths}) == len(set(paths)))
    return ["/".join(path[-parts:]) for path in paths]


def _manifest(
    run_id: str, now: datetime, *, origin: Origin, sources: Sequence[Path], tables: Tables, settings: Settings
) -> Manifest:
    names = distinct_names(sources)
    digests = {
        name: hashlib.sha256(source.read_bytes()).hexdigest() for name, source in zip(names, sources, strict=True)
    }
    return Manifest(
        origin=origin,
        run_id=run_id,
        scenario_name=", ".join(names),
        scenario={
            "why": f"An imported history of the format {origin}.",
            "format": origin,
            "files": digests,
            "keys": tables.keys,
            "subscribed": sorted(tables.subscribed),
            "from_start": tables.from_start,
        },
        scenario_digest=hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest(),
        faults=list(settings.faults),
        traits=traits_by_step(),
        kafka_version=settings.kafka_version,
        kafka_jars_digest="",
        seed=0,
        started_at=now.isoformat(),
        started_ns=_times(tables)[0],
        boot_id="",
        probe_hz=0,
        nodes=[],
        topics=_topics(tables, settings),
        producers=_producers(tables, settings),
        host={},
        plimsoll=product(),
    )


def _topics(tables: Tables, settings: Settings) -> dict[str, TopicInfo]:
    partitions: dict[str, set[int]] = {}
    for row in (*tables.sends, *tables.polls):
        partitions.setdefault(row["topic"], set()).add(row["partition"])
    for topic in (*settings.topics, *tables.topics):
        if topic and topic not in partitions:
            raise BadInput(
                f"The history has no topic {topic!r}; its topics are {', '.join(sorted(partitions)) or 'none'}."
            )
    config = {"unclean.leader.election.enable": str(settings.unclean_election).lower(), **settings.topics.get("", {})}

    def own(topic: str) -> dict[str, str]:
        declared = tables.topics[topic].config if topic in tables.topics else {}
        return {**config, **declared, **settings.topics.get(topic, {})}

    return {
        topic: TopicInfo(assignment={number: [] for number in sorted(numbers)}, config=own(topic))
        for topic, numbers in sorted(partitions.items())
    }


def _producers(tables: Tables, settings: Settings) -> list[ProducerInfo]:
    topics: dict[str, str] = {}
    acks: dict[str, set[str]] = {}
    for row in tables.sends:
        topics.setdefault(row["producer_id"], row["topic"])
        acks.setdefault(row["producer_id"], set()).add(row["acks"])
    return [
        ProducerInfo(
            producer_id=name,
            topic=topic,
            acks=next(weak for weak in _WEAKEST if weak in acks[name]),
            idempotence=name in tables.transactional if settings.idempotence is None else settings.idempotence,
            retries=_RETRIES,
            engine="foreign",
            record_bytes=0,
        )
        for name, topic in topics.items()
        if name != NOBODY
    ]


def _times(tables: Tables) -> tuple[int, int]:
    sent = (row[name] for row in tables.sends for name in ("due_ns", "done_ns") if row[name] is not None)
    times = [*sent, *(row["received_ns"] for row in tables.polls)]
    return (min(times), max(times)) if times else (0, 0)


def _write_events(folder: RunFolder, manifest: Manifest, tables: Tables) -> None:
    first, last = _times(tables)
    started = Event(first, manifest.started_at, "run_started", detail={"imported": manifest.scenario_name})
    sentences = [*(("gap", each) for each in tables.gaps), *(("note", each) for each in tables.notes)]
    messages = [Event(last, manifest.started_at, kind, detail={"message": each}) for kind, each in sentences]
    counts: dict[str, Any] = {"sends": len(tables.sends), "polls": len(tables.polls)}
    deleted = [
        Event(
            last,
            manifest.started_at,
            "injected",
            detail={"partition": f"{topic}-{number}", "deleted_before": 2**63 - 1},
        )
        for topic, declared in tables.topics.items()
        for number in (manifest.topics[topic].assignment if declared.deleted else ())
    ]
    events = [started, *messages, *deleted, Event(last, manifest.started_at, "collected", detail=counts)]
    folder.events.write_text("".join(json.dumps(vars(event)) + "\n" for event in events))
