"""The archive: an immutable Parquet file per judged run, with a row per metric and phase.

It outlives run folders: ``make archive REBUILD=1`` rebuilds it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
from pydantic import BaseModel, Field, ValidationError

from history.errors import EvidenceError
from history.events import errors_of, read_events
from history.exit_codes import Verdict
from history.folder import RunFolder, replacing
from history.manifest import read_manifest
from history.refusals import first_wrong
from history.remote import RemotePath, read_parquet, write_parquet
from history.tables import METRICS

_RUN = [
    pa.field("run_id", pa.string(), nullable=False),
    pa.field("started_at", pa.string(), nullable=False),  # ISO 8601, UTC
    pa.field("scenario", pa.string(), nullable=False),
    pa.field("scenario_digest", pa.string(), nullable=False),
    pa.field("kafka_version", pa.string(), nullable=False),
    pa.field("kafka_jars_digest", pa.string(), nullable=False),
    pa.field("mode", pa.string(), nullable=False),
    pa.field("runtime", pa.string(), nullable=False),
    pa.field("jvm", pa.string(), nullable=False),  # fast_start: correctness only; "": of a cluster of others
    pa.field("cluster", pa.string()),  # the id of a cluster of others; null: a made one, or an older row
    pa.field("seed", pa.int64(), nullable=False),
    pa.field("host", pa.string(), nullable=False),  # machine and software
    pa.field("machine", pa.string()),  # CPU, cores, memory
    pa.field("environment", pa.map_(pa.string(), pa.string())),
    pa.field("complete", pa.bool_()),  # no harness error
    pa.field("plimsoll", pa.string()),  # the recorder's
    pa.field("judge", pa.string()),
    pa.field("verdict", pa.string(), nullable=False),
    pa.field("sentence", pa.string(), nullable=False),
    pa.field("anomalies", pa.map_(pa.string(), pa.int64()), nullable=False),  # including allowed ones
    pa.field("broken", pa.list_(pa.string()), nullable=False),  # invariants
    pa.field("known_bugs", pa.map_(pa.string(), pa.string())),  # of these invariants; null: an older row
    pa.field("not_judged", pa.list_(pa.string())),  # checks for which the evidence does not suffice; null: an older row
    pa.field("precondition_met", pa.bool_()),  # null: the scenario has none
    pa.field("labels", pa.map_(pa.string(), pa.string()), nullable=False),  # campaign, item, and the campaign's labels
]
ARCHIVE = pa.schema([*_RUN, *METRICS])  # missing columns read as null
READ = ("manifest.json", "events.jsonl")


class _Invariant(BaseModel):
    violations: int
    known_bug: str = ""


class _Verdict(BaseModel):
    verdict: Verdict
    sentence: str
    anomalies: dict[str, Annotated[int, Field(ge=0, lt=2**63)]]
    invariants: dict[str, _Invariant]
    not_judged: list[str] = []
    judge: str | None = None


def rows_of(run: RunFolder) -> list[dict[str, Any]]:
    """Return a judged run's rows, one without a metric if nothing was measured.

    Raises: EvidenceError.
    """
    manifest = read_manifest(run.manifest)
    try:
        verdict = _Verdict.model_validate_json(run.verdict_file.read_bytes())
        measured = read_parquet(run.judged("metrics"), schema=METRICS).to_pylist()
    except (OSError, ValueError) as error:
        why = first_wrong(error) if isinstance(error, ValidationError) else error
        raise EvidenceError(
            f"{run.path} holds no verdict with metrics ({why}); judge it: plimsoll judge <folder>."
        ) from error
    if run.is_sealed and verdict.verdict != "unknown" and (altered := run.check_seal(*READ)):
        raise EvidenceError(
            f"{run.path} is not what was sealed ({'; '.join(altered)}); judge it again: plimsoll judge <folder>."
        )
    cluster = manifest.scenario.get("cluster", {})
    of_run = {
        **{name: getattr(manifest, name) for name in ("run_id", "started_at", "scenario_digest", "kafka_version")},
        **{name: getattr(manifest, name) for name in ("kafka_jars_digest", "seed", "labels")},
        "scenario": manifest.scenario_name,
        "mode": manifest.mode or "",
        "runtime": manifest.runtime or "",
        "jvm": "" if manifest.attached else cluster.get("jvm", "fast_start"),
        "cluster": manifest.cluster_id,
        "host": host_digest(manifest.host),
        "machine": _digest(_machine(manifest.host)),
        "environment": environment_of(manifest.host),
        "complete": not errors_of(run),
        "plimsoll": str(manifest.plimsoll) if manifest.plimsoll else None,
        **{name: getattr(verdict, name) for name in ("judge", "verdict", "sentence", "anomalies", "not_judged")},
        "precondition_met": _precondition_met(run),
        "broken": [name for name, found in verdict.invariants.items() if found.violations],
        "known_bugs": {name: found.known_bug for name, found in verdict.invariants.items() if found.known_bug},
    }
    nothing = {"metric": "", "phase": "", "censored": False, "trusted": False, "note": "nothing was measured"}
    return [{**of_run, **row} for row in measured or [nothing]]


def _precondition_met(run: RunFolder) -> bool | None:
    looks = [bool(event.detail["met"]) for event in read_events(run.events) if event.kind == "precondition"]
    return all(looks) if looks else None


def host_digest(host: Mapping[str, Any]) -> str:
    """Return the digest of machine and software."""
    return _digest({**_machine(host), **_software(host)})


def environment_of(host: Mapping[str, Any]) -> dict[str, str]:
    """Return a host's kernel, Java and client libraries."""
    return {name: str(value) for name, value in _software(host).items() if value is not None}


def _machine(host: Mapping[str, Any]) -> dict[str, Any]:
    memory_gib = round(host.get("memory_bytes", 0) / 2**30)
    return {"cpu": host.get("cpu"), "cores": host.get("cores"), "memory_gib": memory_gib}


def _software(host: Mapping[str, Any]) -> dict[str, Any]:
    libraries = host.get("libraries", {})
    return {
        **{name: host.get(name) for name in ("kernel", "java")},
        **{name: libraries.get(name) for name in ("confluent-kafka", "kafka-python")},
    }


def _digest(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]


def add(archive: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write a run's rows atomically, replacing earlier ones.

    Raises: OSError: with the file's name.
    """
    table = pa.Table.from_pylist([dict(row) for row in rows], schema=ARCHIVE)
    run_id = table["run_id"][0].as_py()
    file = archive / f"{run_id}.parquet"
    if isinstance(archive, RemotePath):
        write_parquet(table, file)
        return file
    archive.mkdir(parents=True, exist_ok=True)
    with replacing(file) as partial:
        write_parquet(table, partial)
    return file


def read(archive: Path, **labels: str) -> list[dict[str, Any]]:
    """Return the rows of runs with these labels, oldest first."""
    tables = (read_parquet(file, schema=ARCHIVE) for file in sorted(archive.glob("*.parquet")))
    wanted = (table for table in tables if labels.items() <= dict(table["labels"][0].as_py()).items())
    return [row for table in wanted for row in table.to_pylist(maps_as_pydicts="strict")]
