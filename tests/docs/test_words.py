"""What users read is in the field's words; retired ones stay out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.main import get_command

from commands.app import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", "CONTRIBUTING.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]
# Written by programs from recordings that were made under the old words; the next recording rewrites them.
GENERATED = {
    "docs/claims.md",
    "docs/known-bugs.md",
    *(str(path.relative_to(ROOT)) for path in (ROOT / "docs" / "known-bugs").glob("*.md")),
}
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
}


def retired_in(text: str) -> list[str]:
    """The retired words of a text, each with what to say instead."""
    return [f"{found[0]!r}: {instead}" for word, instead in RETIRED.items() if (found := re.search(word, text))]


@pytest.mark.parametrize("page", sorted(set(PAGES) - GENERATED))
def test_pages_use_the_words_of_the_field(page: str) -> None:
    """A page that a person writes has none of the words that only we used."""
    assert retired_in((ROOT / page).read_text()) == []


def test_the_command_line_uses_the_words_of_the_field() -> None:
    """So does the help of every command."""
    commands = get_command(app).commands  # type: ignore[attr-defined]

    assert len(commands) > 10
    texts = {
        name: " ".join(filter(None, [each.help, *(getattr(param, "help", "") for param in each.params)]))
        for name, each in commands.items()
    }
    assert {name: found for name, text in texts.items() if (found := retired_in(text))} == {}


def test_a_retired_word_is_found_and_its_neighbour_is_not() -> None:
    """Inside a sentence; words that merely contain one are fine."""
    found = retired_in("The hunt ends as the first promise is broken.")

    assert found == ["'hunt': fuzz", "'promise is broken': guarantee violated"]
    assert retired_in("A bit is flipped; the orbit of a doubled epoch; Huntington.") == []
