"""The page of one run: ``python -m reports.run_page RUN [RUN …]`` writes ``<run>/report/index.html``.

The page opens from disk and asks no network for anything; plotly.js lies beside it.
"""

from __future__ import annotations

import csv
import json
import shutil
import sys
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

from history.errors import PlimsollError
from history.events import Event
from history.folder import write_atomically
from history.manifest import Manifest
from reports import page_tables
from reports.cells import Table
from reports.plots import figures, time_range
from reports.run_data import RunData, read_run
from reports.site import PLOTLY, environment
from reports.story import Span, end_of_run, faults, moments, phases

CASES = "cases.csv"
SHOWN_KEYS = 8
VERDICT_MEANS = {
    "pass": "Everything that had to hold was checked, and held.",
    "fail": "Something that had to hold did not.",
    "unknown": "The evidence does not suffice to say either.",
}
TITLES = {
    "story": "What happened",
    "replicas": "High watermark and log end offset of every replica",
    "isr": "In-sync replicas",
    "sends": "Sends and latency",
    "delivery": "Delivery",
    "anomalies": "Anomalies",
    "invariants": "Invariants",
    "offsets": "Offsets before and after",
    "recovery": "Recovery times",
    "files": "Evidence and how to judge it again",
}


def publish(folder: Path) -> Path:
    """Write the page of a run and return its path; what the run lacks is named on the page.

    Raises:
        EvidenceError: the folder holds no manifest, so it is no run folder.
    """
    run = read_run(folder)
    run.folder.report.mkdir(exist_ok=True)
    page = run.folder.report / "index.html"
    shutil.copyfile(str(files("plotly") / "package_data" / PLOTLY), run.folder.report / PLOTLY)
    _write_cases(run)
    write_atomically(page, render(run))
    return page


def _write_cases(run: RunData) -> None:
    """Every case with its story, for readers without a Parquet reader."""
    columns = (
        "anomaly",
        "severity",
        "topic",
        "partition",
        "offset",
        "producer_id",
        "seq",
        "allowed",
        "story",
        "evidence",
    )
    with (run.folder.report / CASES).open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(page_tables.ordered_cases(run))


def render(run: RunData) -> str:
    """The page as HTML."""
    return environment().get_template("run.html").render(**_view(run))


def _view(run: RunData) -> dict[str, Any]:
    drawn = figures(run)
    return {
        "run": run,
        "manifest": run.manifest,
        "verdict": run.verdict["verdict"],
        "sentence": run.verdict.get("sentence") or VERDICT_MEANS[run.verdict["verdict"]],
        "meaning": VERDICT_MEANS[run.verdict["verdict"]],
        "reasons": run.verdict.get("reasons", []),
        "facts": _facts(run),
        "titles": TITLES,
        "figures": drawn,
        "strip": _strip(run),
        "loss": page_tables.loss_sentences(run),
        "tables": _tables(run),
        "links": _links(run),
        "isr_seen_by": _isr_observer(run),
        "anomaly_total": len(run.rows("anomalies")),
        "stories_shown": min(page_tables.STORIES, len(run.rows("anomalies"))),
        "plotly": PLOTLY,
        "cases": CASES,
    }


def _tables(run: RunData) -> dict[str, Table]:
    built = {
        "faults": page_tables.fault_table(run),
        "events": page_tables.event_table(run),
        "latency": page_tables.latency(run),
        "delivery": page_tables.delivery(run),
        "delivery_by_partition": page_tables.delivery_by_partition(run),
        "anomalies": page_tables.anomalies(run),
        "stories": page_tables.stories(run),
        "invariants": page_tables.invariants(run),
        "offsets": page_tables.offsets(run),
        "recovery": page_tables.recovery(run),
    }
    return {name: table for name, table in built.items() if table.rows}


# --- the head of the page ------------------------------------------------------------------------


def _facts(run: RunData) -> list[tuple[str, str]]:
    manifest = run.manifest
    ack = sorted({f"acks={producer.acks}" + ", idempotent" * producer.idempotence for producer in manifest.producers})
    cluster = [
        ("Kafka", _kafka(manifest)),
        ("Features", ", ".join(f"{name} {level}" for name, level in manifest.features.items())),
        ("Brokers", f"{len(manifest.brokers)}, {manifest.runtime} runtime"),
        ("Seed", str(manifest.seed)),
        ("Started", _when(manifest.started_at)),
    ]
    told = [
        ("History", f"imported, format {manifest.origin}"),
        ("Kafka", manifest.kafka_version),
        ("Keys", ", ".join(f"{place} is {key}" for place, key in _keys(manifest.scenario))),
        ("Imported", _when(manifest.started_at)),
    ]
    facts = [
        *(told if manifest.foreign else cluster),
        ("Producers", "; ".join(ack)),
        ("Lasted", _how_long(run)),
        ("Run", manifest.run_id),
    ]
    return [(name, value) for name, value in facts if value]


def _kafka(manifest: Manifest) -> str:
    """Every version that ran, the mode, and where a build that is no release came from."""
    versions = ", then ".join(manifest.kafka_versions)
    origin = f", {manifest.kafka_origin}" if manifest.kafka_origin else ""
    return f"{versions}, {'KRaft' if manifest.mode == 'kraft' else 'ZooKeeper'}{origin}"


def _keys(scenario: dict[str, Any]) -> list[tuple[str, str]]:
    """The first keys of an imported history by the partition that stands for them, where their names differ."""
    named = [(place, key) for place, key in scenario.get("keys", {}).items() if key != json.dumps(place)]
    return named[:SHOWN_KEYS] + ([("…", "in manifest.json")] if len(named) > SHOWN_KEYS else [])


def _when(started_at: str) -> str:
    try:
        started = datetime.fromisoformat(started_at)
    except ValueError:
        return started_at
    return f"{started:%Y-%m-%d %H:%M:%S} {started.tzname() or ''}".rstrip()


def _how_long(run: RunData) -> str:
    if not run.events:
        return ""
    seconds = round(end_of_run(run) - run.seconds(run.events[0].t_ns))
    return f"{seconds} s" if seconds < 120 else f"{seconds // 60} min {seconds % 60} s"


# --- the strip -----------------------------------------------------------------------------------


def _strip(run: RunData) -> dict[str, Any]:
    """Phases, faults and moments as percentages of the time that the figures show."""
    start_s, end_s = time_range(run)
    width_s = max(end_s - start_s, 0.001)

    def place(at_s: float) -> float:
        return round(100 * min(1.0, max(0.0, (at_s - start_s) / width_s)), 2)

    def bar(span: Span) -> dict[str, Any]:
        return {"span": span, "left": place(span.start_s), "width": round(place(span.end_s) - place(span.start_s), 2)}

    found = faults(run)
    return {
        "phases": [bar(phase) for phase in phases(run)],
        "faults": [bar(fault) for fault in found],
        "lanes": max((fault.lane for fault in found), default=-1) + 1,
        "moments": [
            {"left": place(at_s), "at_s": at_s, "kind": event.kind, "text": _moment(event)}
            for at_s, event in moments(run)
        ],
        "ticks": [{"left": place(second), "text": f"{second:g} s"} for second in _ticks(start_s, end_s)],
    }


def _moment(event: Event) -> str:
    condition = event.detail.get("condition") or event.step or event.target
    return f"{event.kind.replace('_', ' ')}: {condition}"


def _ticks(start_s: float, end_s: float) -> list[int]:
    """Whole seconds, at most nine, at steps of 1, 2 or 5 times a power of ten."""
    steps = (factor * 10**power for power in range(6) for factor in (1, 2, 5))
    step = next((step for step in steps if (end_s - start_s) / step <= 8), 10**6)
    first = -(-start_s // step) * step
    return [int(first + index * step) for index in range(int((end_s - first) // step) + 1)]


# --- where the evidence lies ---------------------------------------------------------------------


def _links(run: RunData) -> list[tuple[str, str]]:
    """(label, address relative to the page) of what exists."""
    root = run.folder.path
    wanted = [
        ("Data Docs of the expectations", "verdict/data_docs/index.html"),
        ("verdict.json", "verdict/verdict.json"),
        ("manifest.json", "manifest.json"),
        ("events.jsonl", "events.jsonl"),
        *((f"{name}/", f"{name}/") for name in ("sends", "polls", "seeks", "replicas", "isr", "offsets", "usage")),
        *((f"verdict/{name}/", f"verdict/{name}/") for name in sorted({*run.tables, "metrics"} - {"offsets"})),
    ]
    logs = sorted((root / "brokers").glob("*/*.log"))
    wanted += [(f"log of {log.parent.name}: {log.name}", str(log.relative_to(root))) for log in logs]
    return [(label, f"../{quote(place)}") for label, place in wanted if (root / place).exists()]


def _isr_observer(run: RunData) -> str:
    observers = {row["observer"] for row in run.rows("timeline_isr")}
    if "controller" in observers:
        return "as the controller recorded it"
    return "as each leader's own metadata showed it" if observers else ""


def main(arguments: list[str]) -> int:
    """Publish each run; prints one line a page. Returns 0, or 3 when a folder is no run folder."""
    if not arguments:
        print("Give at least one run folder: python -m reports.run_page RUN [RUN …]", file=sys.stderr)  # noqa: T201 - the command's answer
        return 3
    for argument in arguments:
        try:
            print(f"report: {publish(Path(argument))}")  # noqa: T201 - the command's answer
        except PlimsollError as error:
            print(error, file=sys.stderr)  # noqa: T201 - the command's answer
            return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
