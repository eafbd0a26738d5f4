"""What must hold in a run, derived from its configuration, as Great Expectations suites.

Three suites, each on one small DataFrame: the evidence (one row per item), the records (one row, a column of
forbidden cases per anomaly) and the replicas (one row, a column of violations per invariant). The verdict is
read off their results, so that it and the Data Docs cannot disagree.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Literal

from history.errors import EvidenceError
from history.manifest import Manifest

MISSING = "evidence_missing"
SITE = "verdict"

_CURRENT = Lock()  # Great Expectations has one current context in a process; runs are judged side by side

Verdict = Literal["pass", "fail", "unknown"]


@dataclass(frozen=True)
class Expectation:
    """At most zero of ``column`` in its table; ``why`` says which setting asks for it."""

    column: str
    severity: Literal["critical", "warning"]
    why: str


@dataclass(frozen=True)
class Outcome:
    """A verdict and the names of the expectations behind it."""

    verdict: Verdict
    failed: list[str]
    warned: list[str]


def configuration(manifest: Manifest) -> str:
    """The settings that the expectations follow from, as one line."""
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


def record_expectations(
    manifest: Manifest, severities: Mapping[str, str], allowed: Mapping[str, str]
) -> list[Expectation]:
    """One expectation per anomaly. The table counts the cases that are not permitted to their own producer."""
    setting = configuration(manifest)
    return [
        Expectation(
            name,
            "critical" if severity == "S1" else "warning",
            f"permitted to some producers: {allowed[name]}" if name in allowed else f"promised by {setting}",
        )
        for name, severity in severities.items()
    ]


def replica_expectations(manifest: Manifest, invariants: Mapping[str, tuple[str, str]]) -> list[Expectation]:
    """One expectation per invariant that was considered: name → (title, severity)."""
    setting = configuration(manifest)
    return [
        Expectation(name, "critical" if severity == "S1" else "warning", f"{title} ({setting})")
        for name, (title, severity) in invariants.items()
    ]


def validate(
    evidence: Sequence[tuple[str, str | None]],
    tables: Sequence[tuple[str, Mapping[str, int], Sequence[Expectation]]],
    data_docs: Path,
) -> Outcome:
    """Run the suites one after the other, build Data Docs, and read the verdict off the results.

    ``tables`` are one-row tables whose first expectation is that no evidence is missing (column
    ``evidence_missing``). A failed critical expectation is fail, else missing evidence is unknown.

    Raises:
        EvidenceError: an expectation could not be evaluated, which is neither met nor violated.
    """
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    import great_expectations as gx  # takes seconds
    import pandas as pd
    from great_expectations import expectations as gxe

    def none_of(column: str, severity: str, why: str) -> Any:
        return gxe.ExpectColumnValuesToBeBetween(column=column, min_value=0, max_value=0, severity=severity, notes=why)

    complete = [
        gxe.ExpectTableRowCountToEqual(
            value=len(evidence), severity="critical", notes="every item of evidence is listed"
        ),
        gxe.ExpectColumnValuesToBeNull(
            column="missing", severity="critical", notes="evidence complete: else the verdict is unknown"
        ),
    ]
    listed = pd.DataFrame(list(evidence), columns=["item", "missing"], dtype=object)
    missing = sum(reason is not None for _, reason in evidence)
    suites = [("evidence", listed, complete)] + [
        (
            name,
            pd.DataFrame([{MISSING: missing, **counted}]),
            [
                gxe.ExpectTableRowCountToEqual(value=1, severity="critical", notes="an empty table proves nothing"),
                none_of(MISSING, "critical", "evidence complete: else the verdict is unknown"),
                *(none_of(e.column, e.severity, e.why) for e in expectations),
            ],
        )
        for name, counted, expectations in tables
    ]
    with _CURRENT:
        context = gx.get_context(mode="ephemeral")
        context.variables.progress_bars = {"globally": False}
        context.add_data_docs_site(site_name=SITE, site_config=_site(data_docs))
        source = context.data_sources.add_pandas("run")
        results = [_run(gx, context, source, suite) for suite in suites]
        context.build_data_docs(site_names=[SITE])
    return outcome([result for found in results for result in found])


def outcome(results: Sequence[tuple[str, str, bool]]) -> Outcome:
    """The verdict of (column, severity, met) results: fail beats unknown beats pass."""
    unmet = [(column, severity) for column, severity, met in results if not met]
    about_evidence = {MISSING, "missing", ""}
    failed = [column for column, severity in unmet if severity == "critical" and column not in about_evidence]
    warned = [column for column, severity in unmet if severity != "critical"]
    lacking = any(column in about_evidence for column, _ in unmet)
    verdict: Verdict = "fail" if failed else "unknown" if lacking else "pass"
    return Outcome(verdict, failed, warned)


def _run(gx: Any, context: Any, source: Any, suite_of: tuple[str, Any, Sequence[Any]]) -> list[Any]:
    name, frame, expectations = suite_of
    batch = source.add_dataframe_asset(name).add_batch_definition_whole_dataframe(name)
    suite = context.suites.add(gx.ExpectationSuite(name=name, expectations=list(expectations)))
    validation = context.validation_definitions.add(gx.ValidationDefinition(name=name, data=batch, suite=suite))
    found = validation.run(batch_parameters={"dataframe": frame})
    return [_result(name, result) for result in found.results]


def _result(suite: str, result: Any) -> tuple[str, str, bool]:
    column = result.expectation_config.kwargs.get("column", "")
    trouble = result.exception_info or {}
    raised = [trouble] if "raised_exception" in trouble else list(trouble.values())
    if any(each.get("raised_exception") for each in raised):
        raise EvidenceError(f"The expectation on {column or 'the rows'} of {suite} could not be evaluated: {raised[0]}")
    severity = result.expectation_config.severity
    return column, str(getattr(severity, "value", severity)), bool(result.success)


def _site(folder: Path) -> dict[str, Any]:
    return {
        "class_name": "SiteBuilder",
        "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
        "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(folder)},
    }
