"""Kinds of documents, each with valid ones and the function that reads them in a command."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from campaigns import kinds
from campaigns.campaign import Campaign, CampaignFolder
from clusters.attached.cluster_file import read_cluster_file
from clusters.attached.connection import described
from clusters.kafka.builds import reported_version
from clusters.scenario.scenario import load_scenario
from clusters.scenario.schedules import randomised_schedule, read_fault_mix
from history import archive
from history.errors import BadInput, EvidenceError, PlimsollError
from history.events import read_events
from history.folder import RunFolder
from history.manifest import Origin, read_manifest
from history.results.base import Summary
from history.results.schedules import SchedulesResult
from history.tables import METRICS
from imports.formats import import_history
from imports.run_folder import Settings
from tests.bad_input.mutations import (
    Input,
    Place,
    changed,
    dumped,
    edn_mutations,
    event_mutations,
    json_mutations,
    lines_mutations,
    text_mutations,
    without,
    yaml_mutations,
)
from tests.rows import ROOT

BY_HAND = Path(__file__).with_name("by_hand.yaml")
_PLANNED: Mapping[str, Any] = {"campaign_id": "bad-input", "created_at": "2026-01-01T00:00:00+00:00", "seed": 1}


@dataclass(frozen=True)
class Group:
    """Documents of one kind. ``feed`` writes one into a folder and calls what the command calls.

    ``most`` limits the mutations.
    """

    kind: str
    valid: Mapping[str, str]
    feed: Callable[[Path, bytes], object]
    mutations: Callable[[str], Iterator[Input]]
    refusal: type[PlimsollError] = BadInput
    most: int = 200


# --- the commands' functions -------------------------------------------------------------------------


def _scenario(folder: Path, content: bytes) -> object:
    file = folder / "scenario.yaml"
    file.write_bytes(content)
    return load_scenario(str(file))


def _fault_mix(folder: Path, content: bytes) -> object:
    file = folder / "fault_mix.yaml"
    file.write_bytes(content)
    mix = read_fault_mix(file)
    return [randomised_schedule(mix, seed=seed, length_s=200, load=seed % 2 == 1) for seed in range(4)]


def _cluster_file(folder: Path, content: bytes) -> object:
    file = folder / "mine.yaml"
    file.write_bytes(content)
    return read_cluster_file(file)


def _connection(_: Path, content: bytes) -> object:
    try:
        extra = json.loads(content)
    except (ValueError, RecursionError):  # Airflow reads it
        extra = {}
    found = described("staging", extra, "", "", "")
    return found, found.access


def _planned(kind: str, folder: Path, content: bytes) -> object:
    file = folder / "settings.yaml"
    file.write_bytes(content)
    return _plan(kind, file)


def _plan(kind: str, file: Path) -> Campaign:
    of = kinds.of(kind)
    planned = of.campaign.plan(of.settings({}, file=file), **_PLANNED)
    for kafka in {item.kafka for item in planned.items}:
        reported_version(kafka)
    return planned


def _waivers(folder: Path, content: bytes) -> object:
    (folder / "waivers.yaml").write_bytes(content)
    file = folder / "settings.yaml"
    file.write_bytes((ROOT / "nightly.yaml").read_bytes())
    return _plan("nightly", file)


def _demand(folder: Path, content: bytes) -> object:
    (folder / "metrics").write_bytes(content)
    settings = yaml.safe_load((ROOT / "capacity.yaml").read_text())
    settings["question"]["demand"] = str(folder / "metrics")
    for name in ("write_mb_per_s", "burst", "growth_per_month", "consumer_groups"):
        del settings["question"][name]
    file = folder / "settings.yaml"
    file.write_text(dumped(settings))
    return _plan("capacity", file)


def _history(origin: Origin, folder: Path, content: bytes) -> object:
    file = folder / "history"
    file.write_bytes(content)
    return import_history([file], origin, Settings(), folder / "runs")


def _file(name: str, read: Callable[[Path], object], folder: Path, content: bytes) -> object:
    file = folder / name
    file.write_bytes(content)
    return read(file)


def _judged(folder: Path, content: bytes) -> object:
    run = RunFolder(folder)
    _manifest_of().write(run.manifest)
    run.events.write_text("")
    run.judged("metrics").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist([], schema=METRICS), run.judged("metrics") / "part.parquet")
    run.verdict_file.write_bytes(content)
    rows = archive.rows_of(run)
    archive.add(folder / "archive", rows)
    return rows


def _events(folder: Path, content: bytes) -> object:
    """Raise the error event that replaces an unreadable line."""
    file = folder / "events.jsonl"
    file.write_bytes(content)
    for event in read_events(file):
        if event.kind == "error" and "cannot be read" in event.detail.get("why", ""):
            raise EvidenceError(event.detail["why"])
    return file


@cache
def _manifest_of() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        content = (ROOT / "docs" / "examples" / "operations.jsonl").read_bytes()
        run = _history("operations", Path(folder), content)
        return read_manifest(cast("RunFolder", run).manifest)


# --- the groups --------------------------------------------------------------------------------------

_VERDICT = {
    "verdict": "pass",
    "sentence": "Nothing was found.",
    "anomalies": {},
    "invariants": {"I1": {"violations": 0}},
}
_SUMMARY = {"campaign_id": "c", "created_at": "2026-01-01T00:00:00+00:00", "state": "pass", "sentence": "All is well."}
_EVENT = {"t_ns": 5, "wall": "2026-01-01T00:00:00+00:00", "kind": "phase_started", "phase": "steady", "detail": {}}
_CLUSTER = {
    "bootstrap": ["b1:9092"],
    "topics": {"prefix": "chaos-"},
    "caps": {"rate": "1MB/s", "partitions": 3, "bytes": "1GB", "duration": "5m"},
    "allow": ["pause"],
    "hooks": {"pause": {"run": ["ssh", "{host}", "pause"], "limit": "5s"}, "resume": {"run": ["/opt/resume"]}},
    "down": "until_start",
}
_CLIENT = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanisms": "PLAIN",
    "sasl.username": "ann",
    "sasl.password": "ann-secret",
    "group.id": "g",
}
_SCENARIOS = ("survived_faults", "exactly_once", "group_members", "shaped_load")
_EXAMPLES: Mapping[Origin, str] = {
    "operations": "operations.jsonl",
    "ledger": "ledger.jsonl",
    "verifiable": "verifiable.json",
    "jepsen": "jepsen.edn",
}


def groups() -> list[Group]:
    """Return all groups."""
    scenarios = {name: _read("scenarios", f"{name}.yaml") for name in _SCENARIOS}
    return [
        Group("scenario", scenarios, _scenario, yaml_mutations, most=400),
        Group("fault mix", {"at_rest": _read("docs/examples/fault_mixes", "at_rest.yaml")}, _fault_mix, yaml_mutations),
        Group("nightly", {"ten minutes": _read("ten-minutes.yaml")}, partial(_with_waivers, "nightly"), yaml_mutations),
        Group("waivers", {"waivers": _read("waivers.yaml")}, _waivers, yaml_mutations),
        Group("capacity", {"capacity": _read("capacity.yaml")}, partial(_planned, "capacity"), yaml_mutations),
        *(
            Group(kind.name, {kind.name: dumped(_valid(kind))}, partial(_planned, kind.name), yaml_mutations, most=100)
            for kind in map(kinds.of, kinds.names())
            if not kind.settings_file
        ),
        Group("cluster file", {"mine": dumped(_CLUSTER)}, _cluster_file, yaml_mutations),
        Group("connection", {"extra": json.dumps(_CLUSTER | _CLIENT)}, _connection, json_mutations),
        Group("demand", {"csv": _metrics_by_hour()}, _demand, text_mutations, most=60),
        *(
            Group(
                f"history: {origin}",
                {origin: _read("docs/examples", example)},
                partial(_history, origin),
                edn_mutations if origin == "jepsen" else lines_mutations,
                most=150,
            )
            for origin, example in _EXAMPLES.items()
        ),
        *_of_results(),
    ]


def _valid(kind: kinds.Kind) -> Any:
    here = {"runtime": "process"} if kinds.RUNTIME in kind.options else {}  # Docker may be absent
    by_example = {"valid": kind.settings(kind.example | here)}
    return by_hand().get(kind.name, by_example)["valid"]


def _metrics_by_hour() -> str:
    start = datetime(2026, 1, 5, tzinfo=UTC)
    hours = (start + timedelta(hours=number) for number in range(5 * 7 * 24))
    rows = (f"{at.isoformat()},{200_000_000 + 10_000 * at.day},{400_000_000}\n" for at in hours)
    return "time,bytes_in,bytes_out\n" + "".join(rows)


def _of_results() -> list[Group]:
    plan = Campaign(kind="nightly", settings={"a": 1}, items=[], **_PLANNED).model_dump_json()
    schedules = {**_SUMMARY, "kind": "fuzz", "kafka": "4.3.0", "settings": {}, "runs": []}
    sealed = json.dumps({"manifest.json": "0" * 64})
    manifest = _manifest_of().model_dump_json()

    def group(kind: str, valid: str, feed: Callable[[Path, bytes], object], **more: Any) -> Group:
        return Group(kind, {kind: valid}, feed, json_mutations, **{"refusal": EvidenceError, "most": 60, **more})

    return [
        group(
            "plan of a campaign", plan, lambda at, told: _file("campaign.json", _read_plan, at, told), refusal=BadInput
        ),
        group("result of a campaign", json.dumps(_SUMMARY), partial(_file, "result.json", Summary.read)),
        group("result of schedules", json.dumps(schedules), partial(_file, "result.json", SchedulesResult.read)),
        group("verdict", json.dumps(_VERDICT), _judged),
        group("manifest", manifest, partial(_file, "manifest.json", read_manifest), most=150),
        group("seal", sealed, partial(_file, "sealed.json", lambda file: RunFolder(file.parent).check_seal())),
        Group("events", {"events": json.dumps(_EVENT) + "\n"}, _events, event_mutations, EvidenceError, most=60),
    ]


def _read_plan(file: Path) -> object:
    return CampaignFolder(file.parent).read_plan()


def _with_waivers(kind: str, folder: Path, content: bytes) -> object:
    (folder / "waivers.yaml").write_bytes((ROOT / "waivers.yaml").read_bytes())
    return _planned(kind, folder, content)


def _read(*parts: str) -> str:
    return ROOT.joinpath(*parts).read_text()


@cache
def by_hand() -> Mapping[str, Any]:
    """Return ``bad_input.yaml``: bad documents by kind, some with a valid one."""
    told: Mapping[str, Any] = yaml.safe_load(BY_HAND.read_text())
    return told


def inputs_by_hand(group: Group) -> Iterator[Input]:
    """Yield the handwritten inputs.

    ``set`` maps places such as load/rate to values, ``drop`` lists places, ``from`` names another valid document.
    """
    for each in by_hand().get(group.kind, {}).get("bad", ()):
        says = (each["says"],)
        if "text" in each:
            yield Input(each["says"], each["text"].encode(), says)
            continue
        text = group.valid[each["from"]] if "from" in each else next(iter(group.valid.values()))
        document = yaml.load(text, yaml.CSafeLoader)
        for place, value in each.get("set", {}).items():
            document = changed(document, _place(place), value)
        for place in each.get("drop", ()):
            document = without(document, _place(place))
        yield Input(each["says"], dumped(document).encode(), says)


def _place(written: str) -> Place:
    return tuple(int(part) if part.isdecimal() else part for part in written.split("/"))
