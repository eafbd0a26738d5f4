"""Text for users contains the established terms of the field, and none of the retired words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pydantic import BaseModel
from typer.main import get_command

from campaigns.compare.question import Settings as Comparison
from campaigns.nightly.settings import Settings as Nightly
from clusters.scenario.scenario import Cluster
from commands.app import app
from history import archive, tables
from history.results.capacity import CapacityResult
from history.results.compare import CompareResult
from history.results.nightly import NightlyResult

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", "CONTRIBUTING.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]
# Generated from recordings that still have the old words; the next recording rewrites them.
GENERATED = {"docs/claims.md"}
RETIRED = {
    r"\bhunts?\b": "fuzz",
    r"promises? (was |were |is )?broken|broke a promise": "guarantee violated",
    r"\bbystander": "uninvolved broker",
    r"\bcame true\b": "condition met",
    r"\blast reader\b": "the final drain",
    r"\blets go of\b": "no longer waits for",
    r"\bdid not bite\b|\bbites\b|\bit bit\b": "took effect",
    r"\bping.?pong": "churn_leadership",
    r"\bstarve_cpu\b|\bstarved\b": "limit_cpu, limited",
    r"\b(lost|unseen) or doubled\b|lost, doubled": "duplicated",
    r"acknowledged\.yaml": "waivers.yaml",
    r"what it must show": "expected result",
    r"\bas it must be\b": "as expected",
    r"\ballowances?\b": "resource limits",
    r"\bjvm: (quick|stock)\b|\bstock JVM": "fast_start, production",
    r"\bcanar(y|ies)\b": "control",
    r"\b([Aa]|[Tt]he|[Tt]his|of) night\b(?!-)|\b[Nn]ights\b|\b[Tt]onight\b|\bfrom night to night\b": "nightly run",
    r"\b[Ss]uspect(s|ed)?\b|\b[Ss]uspicions?\b": "candidate regression",
    r"\bsilent series\b|\bseries is silent\b": "missing data",
    r"\b[Pp]lanted\b|\bplants?\b": "injected slowdown",
    r"\bleast_isr\b": "effective_min_isr",
    r"(?<!unable to )(?<!cgroup\.)\bfreezes?\b|\b(un)?frozen\b|\bthawed\b": "pause, paused, resumed",
    r"\bin force\b": "active",
    r"\b[Mm]enus?\b": "fault mix",
    r"\ba rotation\b|\brotation_": "randomised schedule, randomised_",
    r"\bis felt\b|\bwas felt\b": "impact duration",
    r"\b[Ss]tor(y|ies)\b": "explanation (of a record), timeline (of a run), steps (of a scenario)",
    r"\bcoordinators\b": "metadata nodes",
    r"[Ww]orth a look\b": "needs review",
}
# Names in settings, results and tables; whole parts between underscores.
RETIRED_NAMES = {
    "allowance": "resource_limits",
    "canary": "control",
    "night": "nightly_run",
    "nights": "nightly_runs",
    "tonight": "current",
    "suspect": "candidate",
    "suspects": "candidates",
    "plant": "injected_slowdown",
    "planted": "injected",
    "story": "explanation",
    "force": "active",
    "menu": "fault_mix",
}
SETTINGS = ["nightly.yaml", "capacity.yaml", "sample.yaml", "waivers.yaml", "clusters/scenario/fault_mix.yaml"]
SCENARIOS = sorted(f"scenarios/{path.name}" for path in (ROOT / "scenarios").glob("*.yaml"))
EXAMPLES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs" / "examples").rglob("*.yaml"))
PARTS = ["campaigns", "claims", "clusters", "commands", "dags", "evidence", "expectations", "history", "imports"]
PARTS += ["judge", "kafka_files", "operators", "reports", "service", "spark"]
SOURCES = sorted(str(path.relative_to(ROOT)) for part in PARTS for path in (ROOT / part).rglob("*.py"))


def retired_in(text: str) -> list[str]:
    """Return the retired words of a text, each with its replacement."""
    return [f"{found[0]!r}: {instead}" for word, instead in RETIRED.items() if (found := re.search(word, text))]


@pytest.mark.parametrize("page", sorted(set(PAGES) - GENERATED))
def test_pages_use_the_words_of_the_field(page: str) -> None:
    """A page written by hand contains no retired word."""
    assert retired_in((ROOT / page).read_text()) == []


def test_the_command_line_uses_the_words_of_the_field() -> None:
    """The help of every command contains no retired word."""
    commands = get_command(app).commands  # type: ignore[attr-defined]

    assert len(commands) > 10
    texts = {
        name: " ".join(filter(None, [each.help, *(getattr(param, "help", "") for param in each.params)]))
        for name, each in commands.items()
    }
    assert {name: found for name, text in texts.items() if (found := retired_in(text))} == {}


@pytest.mark.parametrize("file", [*SETTINGS, *SCENARIOS, *EXAMPLES])
def test_settings_and_scenarios_use_the_words_of_the_field(file: str) -> None:
    """Settings and scenarios contain no retired word, since run folders and pages show their text."""
    assert retired_in((ROOT / file).read_text()) == []


@pytest.mark.parametrize("file", SOURCES)
def test_strings_of_the_code_use_the_words_of_the_field(file: str) -> None:
    """Strings and docstrings of the code contain no retired word, since pages are generated from docstrings."""
    tree = ast.parse((ROOT / file).read_text())
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}

    assert {text: found for text in texts if (found := retired_in(text))} == {}


def test_names_that_others_read_use_the_words_of_the_field() -> None:
    """Fields of settings and results and columns of tables contain no retired name."""
    schemas = [each for each in (*vars(tables).values(), archive.ARCHIVE) if isinstance(each, pa.Schema)]
    models = {Cluster, Comparison, Nightly, CapacityResult, CompareResult, NightlyResult, *_models(BaseModel)}
    names = {name for schema in schemas for name in schema.names}
    names |= {name for model in models for name in model.model_fields}

    assert {"explanation", "nightly_runs", "resource_limits", "injected_slowdown", "control"} <= names
    assert {name for name in names if not RETIRED_NAMES.keys().isdisjoint(name.split("_"))} == set()


def _models(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for each in model.__subclasses__():
        if each.__module__.partition(".")[0] in ("campaigns", "clusters", "history"):
            yield each
        yield from _models(each)


def test_a_retired_word_is_found_and_its_neighbour_is_not() -> None:
    """A retired word is found inside a sentence, and a word that merely contains one is not."""
    found = retired_in("The hunt ends as the first promise is broken.")

    assert found == ["'hunt': fuzz", "'promise is broken': guarantee violated"]
    assert retired_in("The canary ran tonight.") == ["'canary': control", "'tonight': nightly run"]
    assert retired_in("A freeze; the file cgroup.freeze.") == ["'freeze': pause, paused, resumed"]
    assert retired_in("A bit is flipped; the orbit of a doubled epoch; Huntington.") == []
    assert (
        retired_in("The nightly run night-1, as every night, has a history; an unsuspecting plantation, fortnightly.")
        == []
    )
