"""Run suites as one Great Expectations Checkpoint and publish Data Docs; the library takes seconds to import."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from history.errors import EvidenceError

SITE = "verdict"
RESULTS = "results"  # each suite's result as JSON, for later indexes
KEPT_RESULTS = 60  # in the index, newest first

_CURRENT = Lock()  # one context per process, although judging is parallel


@dataclass(frozen=True)
class Suite:
    """A suite and its DataFrame; each expectation's ``meta["name"]`` is its subject."""

    name: str
    frame: Any
    expectations: Sequence[Any]


@dataclass(frozen=True)
class Result:
    """Whether an expectation was met, and the observed values."""

    suite: str
    name: str
    severity: str
    met: bool
    observed: Mapping[str, Any]


def run(suites: Sequence[Suite], data_docs: Path) -> list[Result]:
    """Run all suites and add their results to ``data_docs``.

    Raises:
        EvidenceError: an expectation could not be evaluated.
    """
    with _CURRENT:
        return _run(suites, data_docs)


def load() -> None:
    """Import Great Expectations early, in a thread."""
    _library()


def _run(suites: Sequence[Suite], data_docs: Path) -> list[Result]:
    gx, parts = _library()
    context = gx.get_context(mode="ephemeral", project_config=_project(data_docs))
    context.variables.progress_bars = {"globally": False}
    asset = context.data_sources.add_pandas("pandas").add_dataframe_asset("table")
    batch = asset.add_batch_definition_whole_dataframe("whole")  # one for all: adding each takes time
    validations = []
    for suite in suites:
        added = context.suites.add(gx.ExpectationSuite(name=suite.name, expectations=list(suite.expectations)))
        validation = parts.Validation(name=suite.name, data=batch, suite=added)
        validation.hold(suite.frame)
        context.validation_definitions.add(validation)
        validations.append(validation)  # a store returns the library's own class
    checkpoint = gx.Checkpoint(name=SITE, validation_definitions=validations, actions=[parts.Publish()])
    context.checkpoints.add(checkpoint)
    done = checkpoint.run()
    return [
        _result(validated.suite_name, result) for validated in done.run_results.values() for result in validated.results
    ]


def _result(suite: str, result: Any) -> Result:
    config = result.expectation_config
    name = str((config.meta or {}).get("name", config.type))
    trouble = result.exception_info or {}
    raised = [trouble] if "raised_exception" in trouble else list(trouble.values())
    if broken := [each for each in raised if each.get("raised_exception")]:
        what = broken[0].get("exception_message")
        raise EvidenceError(f"The expectation {name} of {suite} could not be evaluated: {what}")
    severity = str(getattr(config.severity, "value", config.severity))
    return Result(suite, name, severity, bool(result.success), result.result or {})


def _project(data_docs: Path) -> Any:
    from great_expectations.data_context.types.base import (
        DataContextConfig,
        InMemoryStoreBackendDefaults,
    )

    stores = InMemoryStoreBackendDefaults()
    stores.stores[stores.validation_results_store_name] = {
        "class_name": "ValidationResultsStore",
        "store_backend": _files(data_docs / RESULTS),
    }
    site = {
        "class_name": "SiteBuilder",
        "store_backend": _files(data_docs),
        "show_how_to_buttons": False,
        "site_index_builder": {
            "class_name": "DefaultSiteIndexBuilder",
            "validation_results_limit": KEPT_RESULTS,
            "renderer": _own("IndexContent"),
            "view": _own("IndexView"),
        },
        # a suite's own page only repeats its results
        "site_section_builders": {
            "expectations": "none",
            "profiling": "none",
            "validations": {"view": _own("PageView")},
        },
    }
    stores.data_docs_sites = {SITE: site}
    return DataContextConfig(store_backend_defaults=stores, analytics_enabled=False)


def _files(folder: Path) -> dict[str, str]:
    return {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(folder)}


def _own(name: str) -> dict[str, str]:
    return {"module_name": "expectations.data_docs", "class_name": name}


@cache
def _library() -> tuple[Any, Any]:
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    logging.getLogger("great_expectations").setLevel(logging.ERROR)
    import great_expectations as gx

    from expectations import data_docs

    return gx, data_docs
