"""Build the Great Expectations suites of a run and derive the verdict from their results.

Each expectation is about one column of its suite's DataFrame, which holds the failing rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from expectations import checkpoint
from expectations.checkpoint import Result, Subject
from expectations.contracts import CONTRACTS
from expectations.tallies import COLUMNS, MAX_EXAMPLES, NULLS, UNCOUNTED, Tallies
from history.anomalies import SEVERITY
from history.exit_codes import Verdict
from history.manifest import Manifest

EVIDENCE, CONTRACTS_KEPT, ANOMALIES, INVARIANTS = "evidence", "contracts", "anomalies", "invariants"
FOR_REVIEW = " (for review)"  # a table's rules that only warn

Item = tuple[str, str | None]  # a required item, and what is missing of it

_OF_EVERY_TABLE = {
    COLUMNS: "the run folder's format has no others",
    NULLS: "they are known when a row is written",
    UNCOUNTED: "a check reads the rows of a partition",
}
Broken = tuple[int, Sequence[Mapping[str, Any]]]  # rows that break a rule, and the first of them
_KEYS = ("producer_id", "seq", "offset")


@dataclass(frozen=True)
class Outcome:
    """A verdict and the expectations behind it.

    ``untrusted`` are sentences on violated contracts (missing evidence); ``undecided`` are the checks that read such
    tables.
    """

    verdict: Verdict
    failed: list[str]
    warned: list[str]
    untrusted: list[str] = field(default_factory=list)
    undecided: Mapping[str, str] = field(default_factory=dict)


def validate(
    evidence: Sequence[Item],
    *,
    anomalies: pa.Table | None,
    anomaly_counts: pa.Table | None,
    invariants: pa.Table | None,
    tallies: Tallies | None,
    manifest: Manifest | None,
    permitted: Mapping[str, str],
    reads: Mapping[str, Collection[str]],
    data_docs: Path,
) -> Outcome:
    """Run all suites, publish them, and derive the verdict.

    Args:
        evidence: every required item.
        anomalies: examples, with ``anomaly_counts``; ``None``: the run could not be judged.
        invariants: rows of ``INVARIANTS``.
        tallies: of the recorded tables.
        manifest: ``None`` if unreadable.
        permitted: anomaly → why this configuration allows it for some producer.
        reads: anomaly or invariant that the run can show → the tables and other sources that it uses.
        data_docs: the site's folder.

    Raises:
        EvidenceError: an expectation could not be evaluated.
    """
    judged = anomaly_counts is not None and invariants is not None
    items = [*evidence, ("records and replicas judged", None if judged else "The run was not judged.")]
    setting = "" if manifest is None else configuration(manifest)
    suites = {EVIDENCE: _evidence(items)}
    if tallies is not None:
        suites[CONTRACTS_KEPT] = _contracts(tallies, foreign=manifest is not None and manifest.foreign)
    if anomalies is not None and anomaly_counts is not None:
        suites[ANOMALIES] = _anomalies(anomalies, anomaly_counts, setting, permitted, reads)
    if invariants is not None:
        suites[INVARIANTS] = _invariants(invariants, setting)
    found = {name: subjects for name, subjects in suites.items() if subjects}
    return outcome(checkpoint.run(found, data_docs), reads)


def outcome(results: Sequence[Result], reads: Mapping[str, Collection[str]]) -> Outcome:
    """Return fail for a violated guarantee, else unknown for missing or unreliable evidence.

    A check that ``reads`` a table with a violated contract is undecided.
    """
    unmet = [(result.suite, result.subject) for result in results if not result.met]
    untrusted = [
        (table.name, f"The recorded table {table.name} cannot be trusted: {why}.")
        for suite, table in unmet
        if suite == CONTRACTS_KEPT and table.severity == "critical"
        for why in table.failing
    ]
    undecided = {check: why for table, why in reversed(untrusted) for check, tables in reads.items() if table in tables}
    promises = [each for suite, each in unmet if suite in {ANOMALIES, INVARIANTS} and each.name not in undecided]
    failed = [each.name for each in promises if each.severity == "critical"]
    warned = [each.name for each in promises if each.severity != "critical"]
    lacking = bool(untrusted) or any(suite == EVIDENCE for suite, _ in unmet)
    verdict: Verdict = "fail" if failed else "unknown" if lacking else "pass"
    return Outcome(verdict, failed, warned, [why for _, why in untrusted], undecided)


def configuration(manifest: Manifest) -> str:
    """Return the settings that the expectations depend on, in one line."""
    acks = sorted({producer.acks for producer in manifest.producers})
    idempotence = sorted({str(producer.idempotence).lower() for producer in manifest.producers})
    topics = [
        f"{topic}: min.insync.replicas={manifest.topic_setting(topic, 'min.insync.replicas', '1')}, "
        f"unclean.leader.election.enable={manifest.topic_setting(topic, 'unclean.leader.election.enable', 'false')}"
        for topic in sorted(manifest.topics)
    ]
    faults = ", ".join(dict.fromkeys(manifest.faults)) or "none"
    return (
        f"Kafka {manifest.kafka_version}, acks={'/'.join(acks)}, idempotence={'/'.join(idempotence)}, "
        f"{'; '.join(topics)}, faults: {faults}"
    )


def severity_of(severity: str) -> str:
    """Return critical for S1 (a violated guarantee), warning for S2, which does not fail a run."""
    return "critical" if severity == "S1" else "warning"


def _evidence(items: Sequence[Item]) -> list[Subject]:
    return [
        Subject(item, f"Nothing is missing of: {item}.", "critical", [missing] if missing else [])
        for item, missing in items
    ]


def _anomalies(
    examples: pa.Table,
    counts: pa.Table,
    setting: str,
    permitted: Mapping[str, str],
    judged: Collection[str],
) -> list[Subject]:
    cases = {row["anomaly"]: row["cases"] for row in counts.to_pylist() if row["allowed"] is False}
    rows = [row for row in examples.to_pylist() if row["allowed"] is False]

    def subject(name: str, severity: str) -> Subject:
        why = f"Permitted to some producers: {permitted[name]}." if name in permitted else f"Promised by {setting}."
        shown = [_case(row) for row in rows if row["anomaly"] == name][:MAX_EXAMPLES]
        total = cases.get(name, len(shown))
        return Subject(
            name,
            f"{name} ({severity}): no case{' but permitted ones' if name in permitted else ''}. {why}",
            severity_of(severity),
            [_number(total, "case")] if total else [],
            shown,
        )

    return [subject(name, severity) for name, severity in SEVERITY.items() if name in judged]


def _case(row: Mapping[str, Any]) -> str:
    keys = _listed({name: row[name] for name in _KEYS if row[name] is not None})
    where = "" if row["topic"] is None else f"{row['topic']}-{row['partition']}, "
    return f"{where}{keys}: {row['explanation']}"


def _invariants(invariants: pa.Table, setting: str) -> list[Subject]:
    def subject(row: Mapping[str, Any]) -> Subject:
        found = f"{row['violations']:,} of {row['checked']:,} checks, first on {row['first_on']}: {row['reason']}"
        decided = (
            f"{_number(row['checked'], 'check')}." if row["verdict"] != "unknown" else f"Undecided: {row['reason']}."
        )
        return Subject(
            row["invariant"],
            f"{row['invariant']} ({row['severity']}): {row['title']}. {decided} Holds under {setting}.",
            severity_of(row["severity"]),
            [found] if row["verdict"] == "fail" else [],
        )

    return [subject(row) for row in sorted(invariants.to_pylist(), key=lambda row: int(row["invariant"][1:]))]


def _contracts(tallies: Tallies, *, foreign: bool = False) -> list[Subject]:
    """Return a subject for each table that has rows, and one for its rules that only warn.

    An import's clocks are unknown, so violations of its time order are only shown.
    """
    broken = {(table, rule): (count, examples) for table, rule, count, examples in tallies.violations()}
    return [
        subject
        for table in CONTRACTS
        if tallies.rows[table] or any(name == table for name, _ in broken)
        for subject in _of_table(table, tallies.rows[table], broken, foreign=foreign)
    ]


def _of_table(table: str, rows: int, broken: Mapping[tuple[str, str], Broken], *, foreign: bool) -> Iterator[Subject]:
    rules: dict[str, dict[str, str]] = {"critical": dict(_OF_EVERY_TABLE), "warning": {}}
    for rule in CONTRACTS[table].rules:
        rules["warning" if foreign and rule.in_order else rule.severity][rule.name] = rule.why
    counted = _number(rows, "row")
    for severity, of_severity in rules.items():
        found = {name: broken[table, name] for name in of_severity if (table, name) in broken}
        if of_severity:
            yield Subject(
                table if severity == "critical" else table + FOR_REVIEW,
                "\n".join(
                    [f"{counted}. Rules ({severity}):", *(f"– {name}: {why}" for name, why in of_severity.items())]
                ),
                severity,
                [f"{name} ({count:,} of {counted})" for name, (count, _) in found.items()],
                [f"{name}: {_listed(example)}" for name, (_, examples) in found.items() for example in examples],
            )


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {'null' if value is None else value}" for name, value in values.items())


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
