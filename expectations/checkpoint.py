"""Validate suites with Great Expectations and publish Data Docs; the library takes seconds to import."""

from __future__ import annotations

import html
import logging
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from history.errors import EvidenceError

SITE = "verdict"

_CURRENT = Lock()  # one context per process, although judging is parallel


@dataclass(frozen=True)
class Subject:
    """What one expectation is about: a column of the suite's DataFrame, which has what failed, then examples."""

    name: str
    description: str
    severity: str
    failing: Sequence[str] = ()
    examples: Sequence[str] = ()


@dataclass(frozen=True)
class Result:
    """Whether an expectation was met."""

    suite: str
    subject: Subject
    met: bool


def run(suites: Mapping[str, Sequence[Subject]], data_docs: Path) -> list[Result]:
    """Validate each suite's DataFrame and write ``data_docs``.

    Raises:
        EvidenceError: an expectation could not be evaluated.
    """
    with _CURRENT:
        return _run(suites, data_docs)


@cache
def load() -> Any:
    """Import Great Expectations; call it early, in a thread."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    logging.getLogger("great_expectations").setLevel(logging.ERROR)
    import great_expectations as gx

    return gx


def _run(suites: Mapping[str, Sequence[Subject]], data_docs: Path) -> list[Result]:
    gx = load()
    context = gx.get_context(mode="ephemeral", project_config=_project(data_docs))
    context.variables.progress_bars = {"globally": False}
    asset = context.data_sources.add_pandas("judge").add_dataframe_asset("rows")
    batch = asset.add_batch_definition_whole_dataframe("whole")
    found = []
    for name, subjects in suites.items():
        suite = context.suites.add(
            gx.ExpectationSuite(name=name, expectations=[_expectation(each) for each in subjects])
        )
        validation = gx.ValidationDefinition(name=name, data=batch, suite=suite)
        validated = validation.run(batch_parameters={"dataframe": frame(subjects)}, result_format="BASIC")
        by_name = {subject.name: subject for subject in subjects}
        found += [
            _result(name, by_name[result.expectation_config.meta["name"]], result) for result in validated.results
        ]
    context.build_data_docs()
    shutil.rmtree(data_docs / "static")  # 4 MB of fonts and pictures that our templates do not use
    return found


def _expectation(subject: Subject) -> Any:
    from great_expectations import expectations as gxe

    return gxe.ExpectColumnValuesToBeNull(
        column=subject.name,
        severity=subject.severity,
        description=html.escape(subject.description, quote=False),
        meta={"name": subject.name},
    )


def frame(subjects: Sequence[Subject]) -> Any:
    """Return a DataFrame with a column for each subject; shorter columns end with nulls.

    The library writes values into its pages without escaping them.
    """
    import pandas as pd

    found = {each.name: [*map(html.escape, [*each.failing, *each.examples])] for each in subjects}
    rows = max(1, *map(len, found.values()))
    return pd.DataFrame({name: [*of, *[None] * (rows - len(of))] for name, of in found.items()}, dtype=object)


def _result(suite: str, subject: Subject, result: Any) -> Result:
    trouble = result.exception_info or {}
    raised = [trouble] if "raised_exception" in trouble else list(trouble.values())
    if broken := [each for each in raised if each.get("raised_exception")]:
        what = broken[0].get("exception_message")
        raise EvidenceError(f"The expectation {subject.name} of {suite} could not be evaluated: {what}")
    return Result(suite, subject, bool(result.success))


def _project(data_docs: Path) -> Any:
    from great_expectations.data_context.types.base import DataContextConfig, InMemoryStoreBackendDefaults

    stores = InMemoryStoreBackendDefaults()
    stores.data_docs_sites = {
        SITE: {
            "class_name": "SiteBuilder",
            "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(data_docs)},
            "show_how_to_buttons": False,
            "site_index_builder": {
                "class_name": "DefaultSiteIndexBuilder",
                "renderer": _own("Links"),
                "view": _own("Index"),
            },
            # a suite's own page only repeats its results
            "site_section_builders": {
                "expectations": "none",
                "profiling": "none",
                "validations": {"view": _own("Results")},
            },
        }
    }
    return DataContextConfig(store_backend_defaults=stores, analytics_enabled=False)


def _own(name: str) -> dict[str, str]:
    return {"module_name": "expectations.data_docs", "class_name": name}
