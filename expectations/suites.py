"""Build the Great Expectations suites of a run and derive the verdict from their results."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from expectations import checkpoint
from expectations.checkpoint import Result, Suite
from expectations.contracts import CONTRACTS, AtLeast, Contract, InOrder, Never, OneOf, Rule, Unique
from expectations.slices import of_files
from history.anomalies import SEVERITY
from history.exit_codes import Verdict
from history.manifest import Manifest

EVIDENCE, ANOMALIES, INVARIANTS = "evidence", "anomalies", "invariants"

Item = tuple[str, str | None]  # a required item, and what is missing of it

_CASES = pa.schema(
    [
        ("anomaly", pa.string()),
        ("allowed", pa.bool_()),
        ("cases", pa.int64()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("producer_id", pa.string()),
        ("seq", pa.int64()),
        ("explanation", pa.string()),
    ]
)
_LISTED = pa.schema([("item", pa.string()), ("missing", pa.string())])


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
    recorded: Mapping[str, Sequence[Path]],
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
        recorded: Parquet files by recorded table.
        manifest: ``None`` if unreadable.
        permitted: anomaly → why this configuration allows it for some producer.
        reads: anomaly or invariant that the run can show → the tables and other sources that it uses.
        data_docs: the site's folder; earlier runs' pages are kept.

    Raises:
        EvidenceError: an expectation could not be evaluated.
    """
    checkpoint.load()
    judged = anomaly_counts is not None and invariants is not None
    items = [*evidence, ("records and replicas judged", None if judged else "The run was not judged.")]
    setting = "" if manifest is None else configuration(manifest)
    suites = [_evidence(items)]
    if anomaly_counts is not None:
        suites.append(_anomalies(anomalies, anomaly_counts, setting, permitted, reads))
    if invariants is not None:
        suites.append(_invariants(invariants, setting))
    foreign = manifest is not None and manifest.foreign
    tables = {name: of_files(files) for name, files in recorded.items() if files}
    suites += [contract_suite(CONTRACTS[name], table, foreign=foreign) for name, table in tables.items()]
    return outcome(checkpoint.run(suites, data_docs), reads)


def outcome(results: Sequence[Result], reads: Mapping[str, Collection[str]]) -> Outcome:
    """Return fail for a violated guarantee, else unknown for missing or unreliable evidence.

    A check that ``reads`` a table with a violated contract is undecided.
    """
    unmet = [result for result in results if not result.met]
    untrusted = [(each.suite, _untrusted(each)) for each in unmet if _breaks_a_contract(each)]
    undecided = {check: why for table, why in reversed(untrusted) for check, tables in reads.items() if table in tables}
    promises = [each for each in unmet if each.suite in {ANOMALIES, INVARIANTS} and each.name not in undecided]
    failed = [result.name for result in promises if result.severity == "critical"]
    warned = [result.name for result in promises if result.severity != "critical"]
    lacking = bool(untrusted) or any(result.suite == EVIDENCE for result in unmet)
    verdict: Verdict = "fail" if failed else "unknown" if lacking else "pass"
    return Outcome(verdict, failed, warned, [why for _, why in untrusted], undecided)


def _breaks_a_contract(result: Result) -> bool:
    return result.suite in CONTRACTS and result.severity == "critical"


def _untrusted(result: Result) -> str:
    seen = result.observed.get("unexpected_count") or result.observed.get("observed_value")
    return f"The recorded table {result.suite} cannot be trusted: {result.name} ({seen})."


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


def _evidence(items: Sequence[Item]) -> Suite:
    from great_expectations import expectations as gxe

    listed = pa.Table.from_pylist([{"item": item, "missing": missing} for item, missing in items], _LISTED)
    why = "Missing evidence makes the verdict unknown, unless something failed already."
    expectations = [
        gxe.ExpectTableRowCountToEqual(
            value=len(items), severity="critical", description="Every item is listed.", meta={"name": "items"}
        ),
        gxe.ExpectColumnValuesToBeNull(
            column="missing",
            severity="critical",
            description=f"Nothing is missing of: {', '.join(item for item, _ in items)}. {why}",
            meta={"name": "missing"},
        ),
    ]
    return Suite(EVIDENCE, to_pandas(listed), expectations)


def _anomalies(
    examples: pa.Table | None,
    counts: pa.Table,
    setting: str,
    permitted: Mapping[str, str],
    judged: Collection[str],
) -> Suite:
    from expectations.custom import ExpectNoRowsWhere

    def expectation(name: str, severity: str) -> Any:
        why = f"Permitted to some producers: {permitted[name]}." if name in permitted else f"Promised by {setting}."
        return ExpectNoRowsWhere(
            where=[["anomaly", "==", name], ["allowed", "==", False]],
            weight_column="cases",
            show=["topic", "partition", "offset", "producer_id", "seq", "explanation"],
            severity=severity_of(severity),
            description=f"{name} ({severity}): no case{' but permitted ones' if name in permitted else ''}. {why}",
            meta={"name": name},
        )

    expectations = [expectation(name, severity) for name, severity in SEVERITY.items() if name in judged]
    return Suite(ANOMALIES, to_pandas(cases(counts, examples)), expectations)


def cases(counts: pa.Table, examples: pa.Table | None) -> pa.Table:
    """Return each kind's exact count, then its examples, which count as 0."""
    counted = counts.to_pylist()
    shown = [] if examples is None else examples.to_pylist()
    kept = [dict.fromkeys(_CASES.names) | {name: row.get(name) for name in _CASES.names} for row in shown]
    totals = [
        {
            "anomaly": row["anomaly"],
            "allowed": row["allowed"],
            "cases": row["cases"],
            "explanation": f"{row['cases']:,} in all"
            + (f": {why}" if (why := row["allowed_why"] or row["undecided"]) else ""),
        }
        for row in counted
    ]
    known = {(row["anomaly"], row["allowed"]) for row in counted}
    stray = [(row["anomaly"], row["allowed"]) not in known for row in kept]  # counted, so that they are not ignored
    return pa.Table.from_pylist(
        [*totals, *(row | {"cases": int(alone)} for row, alone in zip(kept, stray, strict=True))], _CASES
    )


def _invariants(invariants: pa.Table, setting: str) -> Suite:
    from great_expectations import expectations as gxe

    from expectations.custom import ExpectNoRowsWhere

    expectations: list[Any] = [
        gxe.ExpectTableRowCountToEqual(
            value=invariants.num_rows,
            severity="critical",
            description="Every invariant that was considered is listed.",
            meta={"name": "invariants"},
        )
    ]
    expectations += [
        ExpectNoRowsWhere(
            where=[["invariant", "==", row["invariant"]], ["verdict", "==", "fail"]],
            weight_column="violations",
            show=["checked", "violations", "reason"],
            severity=severity_of(row["severity"]),
            description=f"{row['invariant']} ({row['severity']}): {row['title']}. Holds under {setting}.",
            meta={"name": row["invariant"]},
        )
        for row in sorted(invariants.to_pylist(), key=lambda row: int(row["invariant"][1:]))
    ]
    return Suite(INVARIANTS, to_pandas(invariants), expectations)


def contract_suite(contract: Contract, frame: Any, *, foreign: bool = False) -> Suite:
    """Return the suite of one recorded table.

    An import's clocks are unknown, so violations of its time order are only shown.
    """
    from expectations.custom import ExpectColumnsToHaveTypes, ExpectColumnsToNotBeNull

    expectations = [
        ExpectColumnsToHaveTypes(
            types=contract.types,
            optional=contract.optional,
            severity="critical",
            description="Columns and types are those of the run folder's format (critical).",
            meta={"name": "columns and types"},
        ),
        ExpectColumnsToNotBeNull(
            columns=contract.required,
            severity="critical",
            description=f"No null in {', '.join(contract.required)} (critical). They are known when a row is written.",
            meta={"name": "nulls in required columns"},
        ),
        *(_expectation(rule, foreign=foreign) for rule in contract.rules),
    ]
    return Suite(contract.table, frame, expectations)


def _expectation(rule: Rule, *, foreign: bool) -> Any:
    from expectations import custom

    def about(name: str, severity: str) -> dict[str, Any]:
        said, why = (f"{text[0].upper()}{text[1:]}" for text in (name, rule.why))
        return {"severity": severity, "description": f"{said} ({severity}). {why}.", "meta": {"name": name}}

    def never(where: Sequence[Sequence[Any]], name: str, severity: str = rule.severity) -> Any:
        return custom.ExpectNoRowsWhere(where=[list(term) for term in where], **about(name, severity))

    match rule:
        case OneOf(column, values):
            return never([[column, "not in", list(values)]], f"{column} is one of {', '.join(values)}")
        case AtLeast(column, minimum):
            return never([[column, "<", minimum]], f"{column} is at least {minimum}")
        case InOrder(earlier, later):
            severity = "warning" if foreign else rule.severity
            return never([[later, "<", {"column": earlier}]], f"{earlier} is not after {later}", severity)
        case Never(where, what):
            return never(where, f"never {what}")
        case Unique(columns):
            name = f"{', '.join(columns)} are unique together"
            return custom.ExpectUniqueTogether(columns=list(columns), **about(name, rule.severity))


def to_pandas(table: pa.Table) -> Any:
    """Return a DataFrame with Arrow's types, which keep nulls and integers."""
    import pandas as pd

    return table.to_pandas(types_mapper=pd.ArrowDtype)
