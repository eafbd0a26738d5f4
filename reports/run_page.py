"""Write the page of one run: ``python -m reports.run_page RUN …`` writes ``<run>/report/index.html``."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from evidence.exits import unexplained
from evidence.profiles import profile_of
from evidence.sources import Source
from history.anomalies import ANOMALIES, CONTROLS
from history.errors import PlimsollError
from history.manifest import UNKNOWN, Manifest
from history.partition import TopicPartition
from history.remote import check_reachable, path_of
from history.tables import CONTROLLER, RECORDED
from reports import group, load, page, run_tables
from reports.cells import Table
from reports.figures import Figure
from reports.memory import memory_figure, memory_table, used
from reports.page import Block, Command, Links, Listing, Page, Plot, Section, Words
from reports.plots import figures
from reports.run_data import RunData, read_run
from reports.strip import strip_of
from reports.timeline import end_of_run, faults, phases

CASES = "cases.csv"
MAX_KEYS = 8
UNFOLDED_REBALANCES = 12
VERDICT_MEANS = {
    "pass": "Every guarantee of this configuration was checked, and holds.",
    "fail": "A guarantee of this configuration was violated.",
    "unknown": "The evidence does not suffice for a verdict.",
}
WATCH_MEANS = "Every check that reads replicas and metadata alone was made, and holds."
LIMITED_MEANS = "Every check that this evidence suffices for was made, and holds."
LACKING: Mapping[Source, str] = {
    "sends": "Whether acknowledged records are lost or duplicated needs Plimsoll's own clients.",
    "followers": "Whether followers are right needs their offsets.",
    "starts": "Whether a high watermark fell without a restart needs every start of a server.",
    "history": "Whether elections and ISR changes were right needs the controller's history and the server logs.",
    "segments": "Whether the logs of all replicas agree needs their segments.",
}


def publish(path: Path, site: Path | None = None) -> Path:
    """Write the page of a run, which names missing data; return its path.

    ``site`` holds plotly.js; by default it is next to the folder of the runs.

    Raises:
        EvidenceError: the folder has no manifest.
    """
    run = read_run(path)
    site = site or path.resolve().parent.parent / "site"
    run.folder.report.mkdir(exist_ok=True)
    _write_cases(run)
    return page.write(render(run, site), run.folder.report / "index.html", site)


def _write_cases(run: RunData) -> None:
    columns = {name: name for name in ("anomaly", "severity", "topic", "partition", "offset", "producer_id", "seq")}
    columns |= {"allowed": "permitted", "explanation": "explanation", "evidence": "evidence"}
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns.values())
    writer.writerows([row[name] for name in columns] for row in run_tables.ordered_cases(run))
    (run.folder.report / CASES).write_bytes(text.getvalue().encode())


def render(run: RunData, site: Path) -> str:
    """Render the page as HTML; ``site`` holds plotly.js."""
    manifest, verdict = run.manifest, run.verdict["verdict"]
    kafka = "imported" if manifest.foreign else "read only" if manifest.watched else f"Kafka {_version(manifest)}"
    return page.render(
        Page(
            title=f"{verdict}: {manifest.scenario_name}, {kafka}",
            kind="one run",
            above=_subject(run),
            sentence=run.verdict.get("sentence") or VERDICT_MEANS[verdict],
            state=verdict,
            meaning=_meaning(run),
            head=list(_head(run)),
            facts=_facts(run),
            sections=list(_sections(run, figures(run))),
            root=f"{os.path.relpath(str(site), str(run.folder.report.resolve()))}/",
            lies_outside=True,
            footer="Counts are of this one run and its injected faults; they do not estimate production.",
        )
    )


def _meaning(run: RunData) -> str:
    verdict, limited = run.verdict["verdict"], run.verdict.get("not_judged")
    passed = WATCH_MEANS if run.manifest.watched else LIMITED_MEANS if limited else VERDICT_MEANS["pass"]
    return passed if verdict == "pass" else VERDICT_MEANS[verdict]


def _sections(run: RunData, drawn: dict[str, Figure]) -> Iterator[Section]:
    replicas = "High watermark and log end offset of every replica"
    yield Section("timeline", "Timeline", list(_timeline(run)))
    yield Section("replicas", replicas, list(_replicas(run, drawn)), "HW and LEO")
    yield Section("isr", "In-sync replicas", _isr(run, drawn), "ISR")
    if run.manifest.watched:
        yield Section("invariants", "Invariants", list(_invariants(run)))
        yield from _not_judged(run, "a watch")
        yield Section("files", "Evidence, and how to judge it again", _files(run), "Evidence")
        return
    yield Section("sends", "Sends and latency", list(_sends(run, drawn)), "Sends")
    if run.manifest.group:
        title = "Share group" if run.manifest.shares else "Consumer group"
        yield Section("group", title, list(_group(run)), "Group")
    yield Section("delivery", "Delivery", list(_delivery(run)))
    yield Section("anomalies", "Anomalies", list(_anomalies(run)))
    yield Section("invariants", "Invariants", list(_invariants(run)))
    yield from _not_judged(run, "this run")
    yield Section("offsets", "Offsets at each capture", list(_offsets(run)), "Offsets")
    recovery = _listing(run, "recovery", run_tables.recovery(run), "There was nothing to recover from.")
    yield Section("recovery", "Recovery times", [recovery], "Recovery")
    if used(run):
        yield Section("memory", "Memory of each process", list(_memory(run)), "Memory")
    yield Section("files", "Evidence, and how to judge it again", _files(run), "Evidence")


def _not_judged(run: RunData, what: str) -> Iterator[Section]:
    if not (names := run.verdict.get("not_judged")):
        return
    profile = profile_of(run.manifest)
    words = Words(
        [
            f"The evidence is {run.verdict['evidence']}.",
            *(why for source, why in LACKING.items() if profile.lacking(source)),
            f"So these checks were not made: {', '.join(names)}.",
        ]
    )
    yield Section("not-judged", f"What {what} cannot judge", [words], "Not judged")


# --- the head of the page ------------------------------------------------------------------------


def _subject(run: RunData) -> str:
    manifest = run.manifest
    injected = len(faults(run))
    of_others = " that Plimsoll did not start" if manifest.attached else ""
    brokers = f"{len(manifest.brokers)} brokers{of_others}"
    on = "an imported history" if manifest.foreign else f"Kafka {_kafka(manifest)}, {brokers}"
    if manifest.watched:
        return f"{len(manifest.brokers)} brokers that Plimsoll did not start. {manifest.scenario['why']}"
    many = f", {injected} fault{'s' * (injected != 1)} injected" if injected else ", no fault injected"
    why = manifest.scenario.get("why", "")
    return f"`{manifest.scenario_name}` on {on}{'' if manifest.foreign else many}. {why}".rstrip()


def _head(run: RunData) -> Iterator[Block]:
    if run.manifest.control in CONTROLS:
        yield Words(
            f"Positive control. Expected: {_expected(run.manifest)}. If they are not detected, the verdict is "
            "`unknown`. This run tests the judge, not Kafka.",
            "control",
        )
    if reasons := run.verdict.get("reasons"):
        yield Words(reasons, title="Reasons")
    if run.missing:
        yield Words(run.missing, "missing", "Missing from this page")


def _expected(manifest: Manifest) -> str:
    anomaly = ANOMALIES[manifest.control or ""]
    acks = sorted({producer.acks for producer in manifest.producers} & {"0", "1"})
    of_producer = f"acks={acks[0]}" if acks else "unclean.leader.election.enable=true"
    return f"{anomaly.control}, permitted by {anomaly.permitted_by or of_producer}"


def _facts(run: RunData) -> list[tuple[str, str]]:
    manifest = run.manifest
    ack = sorted({f"acks={producer.acks}" + ", idempotent" * producer.idempotence for producer in manifest.producers})
    cluster = [
        ("Kafka", _kafka(manifest)),
        ("Features", ", ".join(f"{name} {level}" for name, level in manifest.features.items())),
        ("Brokers", _brokers(manifest)),
        ("Seed", str(manifest.seed)),
        ("Started", _when(manifest.started_at)),
    ]
    imported = [
        ("History", f"imported, format {manifest.origin}"),
        ("Kafka", manifest.kafka_version),
        ("Keys", ", ".join(f"{place} is {key}" for place, key in _keys(manifest.scenario))),
        ("Imported", _when(manifest.started_at)),
    ]
    watched = [
        ("Cluster", f"{len(manifest.brokers)} brokers at {', '.join(node.address for node in manifest.brokers)}"),
        ("Samples", f"{manifest.probe_hz:g} per second of each replica"),
        ("Started", _when(manifest.started_at)),
    ]
    facts = [
        *(imported if manifest.foreign else watched if manifest.watched else cluster),
        ("Producers", "; ".join(ack)),
        ("Load", load.load_sentence(run)),
        ("Duration", _how_long(run)),
        ("Run", manifest.run_id),
    ]
    return [(name, value) for name, value in facts if value]


def _brokers(manifest: Manifest) -> str:
    addresses = ", ".join(node.address for node in manifest.brokers)
    return f"{len(manifest.brokers)}, {f'at {addresses}' if manifest.attached else f'{manifest.runtime} runtime'}"


def _version(manifest: Manifest) -> str:
    if manifest.kafka_version != UNKNOWN:
        return manifest.kafka_version
    if not (level := manifest.features.get("metadata.version")):
        return "of unknown version"
    release, _, step = level.partition("-IV")  # newer levels have no name
    return f"of metadata.version {level}{f' (Kafka {release} or newer)' if step else ''}"


def _kafka(manifest: Manifest) -> str:
    unknown = manifest.kafka_version == UNKNOWN
    versions = _version(manifest) if unknown else ", then ".join(manifest.kafka_versions)
    origin = f", {manifest.kafka_origin}" if manifest.kafka_origin else ""
    return f"{versions}, {'KRaft' if manifest.mode == 'kraft' else 'ZooKeeper'}{origin}"


def _keys(scenario: dict[str, Any]) -> list[tuple[str, str]]:
    named = [(place, key) for place, key in scenario.get("keys", {}).items() if key != json.dumps(place)]
    return named[:MAX_KEYS] + ([("…", "in manifest.json")] if len(named) > MAX_KEYS else [])


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


# --- the timeline ----------------------------------------------------------------------------------


def _timeline(run: RunData) -> Iterator[Block]:
    if not phases(run):
        yield Words("There are no recorded phases.", "absent")
    else:
        strip = strip_of(run)
        marks = (
            "; ✓ a condition or precondition that was met, ✕ one that was not, a server's own end, or an error"
            if strip.moments
            else ""
        )
        yield strip
        yield Words(
            f"Phases above, faults (F1, F2, …) below them{marks}. The figures below share this time axis and these "
            "fault numbers.",
            "note",
        )
        yield Listing("phases", run_tables.phase_table(run), folded=all(bar.wide == "label" for bar in strip.phases))
        if faults(run):
            yield Listing("faults", run_tables.fault_table(run))
        else:
            yield Words("There were no faults.")
    if run.server_events:
        yield Listing("servers", run_tables.server_table(run), folded=not any(unexplained(run.events, run.manifest)))
    if run.events:
        yield Listing("events", run_tables.event_table(run), folded=True)


# --- figures -----------------------------------------------------------------------------------------


def _absent(run: RunData, name: str, nothing: str) -> Words:
    place = name if name in RECORDED else f"verdict/{name}"
    return Words(nothing if name in run.tables else f"This cannot be shown: the table `{place}` is missing.", "absent")


def _figure(run: RunData, drawn: dict[str, Figure], name: str, label: str, caption: str) -> Block:
    stored = f"timeline_{name}"
    if name not in drawn:
        return _absent(run, stored, "Nothing was recorded, so there is nothing to draw.")
    return Plot(name, drawn[name], label, caption, stored=f"verdict/{stored}")


def _replicas(run: RunData, drawn: dict[str, Figure]) -> Iterator[Block]:
    if of_some := run_tables.of_shown(run):
        yield Words(
            f"The figures and tables of single partitions are{of_some}: those with most cases first, then those whose "
            "replicas disagree at the end, then those whose leader or ISR changed most. All were judged, and count in "
            "every sum. Series and rows of the others are in the run's folder (Evidence, below).",
            "note",
        )
    yield _figure(
        run,
        drawn,
        "replicas",
        "High watermark and log end offset of every replica over time, and how far they are behind the furthest",
        f"Sampled at {run.manifest.probe_hz:g} Hz and thinned for drawing; a gap is where a broker did not answer. "
        "Solid: log end offset (LEO); dotted: high watermark (HW). Lines that coincide lie on each other, the "
        "first broker's widest. The lower view counts records behind the furthest LEO last seen on any replica; "
        "replicas are sampled at different moments, so it may be off by one interval's records. Shaded: an active "
        "fault. Diamonds: where a higher leader epoch was first seen.",
    )


def _isr(run: RunData, drawn: dict[str, Figure]) -> list[Block]:
    return [
        _figure(
            run,
            drawn,
            "isr",
            "In-sync replicas over time, one lane per broker",
            f"{_isr_observer(run)}. Thick: leads; thin: in the ISR; dotted: out of the ISR; empty: no view known yet. "
            "A view is drawn until the next one.",
        )
    ]


def _isr_observer(run: RunData) -> str:
    rows = run.rows_shown("timeline_isr")
    recorded = {TopicPartition.of(row) for row in rows if row["observer"] == CONTROLLER}
    if not recorded:
        return "As each leader's own metadata showed it"
    others = {TopicPartition.of(row) for row in rows} - recorded
    late = ", or as each leader's own metadata showed it if that history begins late or is incomplete"
    return f"As the controller recorded it{late if others else ''}"


def _sends(run: RunData, drawn: dict[str, Figure]) -> Iterator[Block]:
    yield _figure(
        run,
        drawn,
        "sends",
        "Sends per second by outcome, and latency",
        "Each send counts in the second in which it was due, whether the cluster was up or not. Unknown: no certain "
        "answer, so the record may be in the log or not.",
    )
    if len(load.senders(run)) > 1:
        yield Listing("producers", load.producer_table(run))
    yield _listing(run, "latency", run_tables.latency(run), "There is no latency: sends lack a due time or an answer.")


def _group(run: RunData) -> Iterator[Block]:
    lag, shares = group.lag_figure(run), run.manifest.shares
    if lag["data"]:
        yield Plot(
            "group",
            lag,
            f"Lag of the {'share' if shares else 'consumer'} group over time",
            f"Records below the high watermarks that the group has not {'accepted' if shares else 'committed'}"
            f"{run_tables.of_shown(run)}, at each second. Shaded: an active fault.",
            stored="share_acks" if shares else "commits",
        )
    if shares:
        yield _listing(run, "shared", group.shared_table(run), "The members received no records.")
        return
    rebalances = group.rebalance_table(run)
    if rebalances.rows:
        yield Listing("rebalances", rebalances, folded=len(rebalances.rows) > UNFOLDED_REBALANCES)
    else:
        yield _absent(run, "rebalances", "The members received no partitions.")


def _listing(run: RunData, name: str, table: Table, nothing: str) -> Block:
    return Listing(name, table) if table.rows else _absent(run, name, nothing)


# --- what was found ------------------------------------------------------------------------------------


def _delivery(run: RunData) -> Iterator[Block]:
    for index, sentence in enumerate(run_tables.loss_sentences(run)):
        yield Words(sentence, "" if index else "lead")
    if not run.rows("delivery"):
        yield _absent(run, "delivery", "No partition received records.")
        return
    yield Listing("delivery", run_tables.delivery(run))
    if len(run.rows("delivery")) > 1:
        yield Listing("delivery_by_partition", run_tables.delivery_by_partition(run), folded=True)


def _anomalies(run: RunData) -> Iterator[Block]:
    total = run_tables.total_cases(run)
    if not total:
        yield _absent(
            run,
            "anomalies",
            "No anomalies. The table of invariants below shows how much was checked.",
        )
        return
    yield Listing("anomalies", run_tables.anomalies(run))
    if total > run_tables.CASES:
        yield Words(
            f"The first {run_tables.CASES} of {total:,} cases are shown, those that nothing permits first, then lost "
            f"records. This file has {len(run.rows('anomalies')):,} of them, each with its explanation:",
            title="Case by case",
        )
    else:
        yield Words("The same cases as a file:", title="Case by case")
    yield Links([(CASES, CASES)])
    yield Listing("cases", run_tables.cases(run), filtered=True)


def _invariants(run: RunData) -> Iterator[Block]:
    yield _listing(run, "invariants", run_tables.invariants(run), "There are no evaluated invariants.")
    if run.rows("invariants"):
        yield Words(
            "An invariant for which nothing could be checked is unknown. S1: a guarantee of Kafka under this "
            "configuration. S2: liveness, or a defect of the test itself.",
            "note",
        )


def _offsets(run: RunData) -> Iterator[Block]:
    table = run_tables.offsets(run)
    if not table.rows:
        yield _absent(run, "offsets", "There are no captures.")
        return
    for note in table.notes:
        yield Words(note, "lead")
    yield Listing("offsets", Table(table.caption, table.columns, table.rows))
    yield Words(
        "≠ marks a value on which the replicas disagree after the last phase. The checkpointed high watermark is the "
        "one in the broker's file; it is written every few seconds and may be older.",
        "note",
    )


def _memory(run: RunData) -> Iterator[Block]:
    yield Plot(
        "memory",
        memory_figure(run),
        "Resident memory of each process over time",
        "At both ends of each phase. Shaded: an active fault. A process that was started again begins anew.",
        stored="usage",
    )
    yield Listing("memory-growth", memory_table(run))


# --- where the evidence is -----------------------------------------------------------------------------


def _files(run: RunData) -> list[Block]:
    return [
        Links(_links(run)),
        Words("The recorded part of a run never changes. To judge it again:"),
        Command(f"make judge RUN=runs/{run.manifest.run_id}"),
    ]


def _links(run: RunData) -> list[tuple[str, str]]:
    root = run.folder.path
    wanted = [
        ("Data Docs of the expectations", "verdict/data_docs/index.html"),
        ("verdict.json", "verdict/verdict.json"),
        ("latency.hlog, for HdrHistogram's tools", "verdict/latency.hlog"),
        ("manifest.json", "manifest.json"),
        ("events.jsonl", "events.jsonl"),
        *((f"{name}/", f"{name}/") for name in ("sends", "polls", "seeks", "replicas", "isr", "offsets", "usage")),
        *((f"verdict/{name}/", f"verdict/{name}/") for name in sorted({*run.tables, "metrics"} - {"offsets"})),
    ]
    logs = sorted((root / "brokers").glob("*/*.log"))
    wanted += [(f"log of {log.parent.name}: {log.name}", str(log.relative_to(root))) for log in logs]
    return [(label, f"../{quote(place)}") for label, place in wanted if (root / place).exists()]


def main(arguments: list[str]) -> int:
    """Publish each run; return 3 if a folder is no run."""
    if not arguments:
        print("Give at least one run folder: python -m reports.run_page RUN [RUN …]", file=sys.stderr)  # noqa: T201 - the command's answer
        return 3
    for argument in arguments:
        try:
            run = path_of(argument)
            check_reachable(run)
            print(f"report: {publish(run)}")  # noqa: T201 - the command's answer
        except PlimsollError as error:
            print(error, file=sys.stderr)  # noqa: T201 - the command's answer
            return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
