"""Skips tests whose requirements this machine lacks, with the reason, or fails them where skipping is forbidden."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Generator, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

import pytest
from hypothesis import settings
from playwright.sync_api import Browser, sync_playwright
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from clusters.paths import ROOT
from clusters.run import host
from clusters.runtimes.docker.daemon import daemon_answers
from tests.model.seeds import FRESH, SEED, fresh_seed, generator

FORBID_SKIPS = "PLIMSOLL_FORBID_SKIPS"
# Missing features of a host that cannot be installed: the only skips that are never forbidden.
HOST_FACTS = ("the kernel has no sch_netem",)
BROWSER_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
S3_PYTHON = ROOT / ".venv" / "s3" / "bin" / "python"
# A worker of pytest-xdist has no start file, which pyspark takes for its own doctests, and exits.
sys.modules["__main__"].__spec__ = sys.modules["__main__"].__spec__ or find_spec("pytest.__main__")
settings.register_profile("untimed", deadline=None)  # tests have no time limit: a machine may be busy
settings.load_profile("untimed")
# Markers of tests that take minutes, the longest first, and the parameters that name a cluster.
LONGEST = (("cluster",), ("pipeline", "browser"))
CLUSTER = re.compile(r"(?<=[\[-])(?:docker|process|\d+\.\d+\.\d+)(?=[\]-])")
_Report = TypeVar("_Report", pytest.TestReport, pytest.CollectReport)


# The first one uses three quarters of the second one's CPU time.
CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def chromium() -> str | None:
    """Return the path of a Chromium, if there is one."""
    return next(filter(None, map(shutil.which, CHROMIUM)), None)


def s3_server() -> bool:
    """Return whether the S3 server of requirements-s3.lock is installed."""
    return S3_PYTHON.is_file()


def two_workers() -> bool:
    """Return whether all that a distributed Airflow needs is installed."""
    return bool(find_spec("celery") and shutil.which("redis-server") and Path("/usr/lib/postgresql").is_dir())


LACKING: dict[str, tuple[Callable[[], object], str]] = {
    "docker": (daemon_answers, "no Docker daemon answers"),
    "browser": (chromium, "there is no Chromium"),
    "workers": (two_workers, "make .venv/.workers, and apt-get install postgresql redis-server"),
    "notify": (partial(find_spec, "slack_sdk"), "there are no notifiers of Slack and PagerDuty; make .venv/.notify"),
    "prometheus": (partial(shutil.which, "prometheus"), "there is no Prometheus; apt-get install prometheus"),
    "s3": (s3_server, "there is no S3 server; make .venv/.s3 installs one"),
}


@pytest.fixture(scope="session")
def chromium_of_all() -> Iterator[Browser]:
    """The machine's Chromium, shared by all page tests, since a session can drive only one."""
    found = chromium()
    assert found, f"no Chromium on PATH: install one of {', '.join(CHROMIUM)}"
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=found, args=BROWSER_ARGUMENTS)
        yield launched
        launched.close()


@pytest.fixture
def browser(chromium_of_all: Browser) -> Iterator[Browser]:
    """The machine's Chromium; pages that a test leaves open are closed."""
    yield chromium_of_all
    for context in chromium_of_all.contexts:
        context.close()


@pytest.fixture(scope="session", autouse=True)
def a_quiet_host() -> Iterator[None]:
    """Show every test an idle host, so that messages about a busy one do not depend on the machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.getloadavg", lambda: (0.0, 0.0, 0.0))
        yield


@pytest.fixture(scope="module", autouse=True)
def own_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give each file an empty list of this host's runs, so that tests do not wait for others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host, "HOST", tmp_path_factory.getbasetemp() / f"host-{uuid4().hex}")
        yield


def pytest_configure() -> None:
    """Draw the seed of the model once, so that workers inherit it."""
    os.environ.setdefault(SEED, str(fresh_seed()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the seeds of the model's new histories, and how to repeat them."""
    first = fresh_seed()
    last, again = first + FRESH - 1, f"{SEED}={first} tries them again"
    terminalreporter.write_line(f"seeds of the model: {first} to {last} of generator {generator()} ({again})")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest tests, and skip those that miss a requirement."""
    items.sort(key=_turn)
    for name, (found, why) in LACKING.items():
        marked = [item for item in items if item.get_closest_marker(name)]
        if marked and not found():
            for item in marked:
                item.add_marker(pytest.mark.skip(reason=why))


def _turn(item: pytest.Item) -> int:
    """Return 0 for tests with brokers, 1 for those with Spark, Airflow or a browser, 2 for all others."""
    return next((turn for turn, names in enumerate(LONGEST) if any(map(item.get_closest_marker, names))), len(LONGEST))


class ByCluster(LoadScopeScheduling):
    """Give the tests that share a cluster to one worker."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Replace ``--dist loadgroup``, whose groups pytest 9.2 does not pass on."""
    return ByCluster(config, log)


def group_of(nodeid: str) -> str:
    """Return a test's file, and the runtime or version among its parameters: each has a cluster of its own."""
    return " ".join([nodeid.partition("::")[0], *CLUSTER.findall(nodeid)])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Apply the rule for skips to each test."""
    return _refuse_skip((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Apply the rule for skips to each file."""
    return _refuse_skip((yield))


def _refuse_skip(report: _Report) -> _Report:
    """Turn a skip into a failure where skipping is forbidden; an expected failure is no skip."""
    if os.environ.get(FORBID_SKIPS) and report.skipped and not hasattr(report, "wasxfail"):
        why = str(report.longrepr)
        if not any(fact in why for fact in HOST_FACTS):
            report.outcome = "failed"
            report.longrepr = f"{why} (skipping is forbidden by {FORBID_SKIPS})"
    return report
