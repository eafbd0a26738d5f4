"""The page of a qualification."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

from history.results.qualify import Answer, Line, QualifyResult
from reports.qualify_page import render

LINES: tuple[tuple[str, str, Answer], ...] = (
    ("upgrade", "upgraded node by node, leaders dying", "go"),
    ("correctness", "survived_faults", "note"),
    ("bugs", "KAFKA-18723: records are gone", "no-go"),
    ("clients", "Java 4.3.1", "not yet"),
)


def result(**changes: Any) -> QualifyResult:
    """One line of each answer."""
    lines = [Line(question=q, what=w, answer=a, sentence=f"{w} it is.", runs=[f"run-{q}"]) for q, w, a in LINES]
    usual = {
        "campaign_id": "q1",
        "created_at": "2026-11-24T08:00:00+00:00",
        "state": "fail",
        "sentence": "No-go from Kafka 3.9.1 to 3.9.0.",
        "lines": [],
        "seed": 1,
        "settings": {"scenario": "rolling_upgrade"},
        "base": "3.9.1",
        "head": "3.9.0",
        "verdict": "no-go",
        "answers": lines,
        "by_design": ["Gone: SASL on Java 23 and later."],
        "doubts": ["Performance was not compared (--pairs=0)."],
        "hosts": ["h"],
        "jars": {"base": ["a" * 64], "head": []},
        "digest": "b" * 64,
    }
    return QualifyResult.model_validate(usual | changes)


class Texts(HTMLParser):
    """What a reader sees, piece by piece, and where links lead."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self.links: list[str] = []
        self.feed(page)

    def handle_data(self, data: str) -> None:
        """A piece of text."""
        self.pieces.append(data.strip())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A link."""
        self.links += [value for name, value in attrs if tag == "a" and name == "href" and value]


def test_the_page_has_each_answer_with_its_evidence() -> None:
    """And a link to a run where there is its page."""
    page = Texts(render(result(), {"run-bugs": "../runs/run-bugs/index.html"}))

    for question, what, answer in LINES:
        assert {question, what, answer, f"{what} it is."} <= set(page.pieces)
    assert "../runs/run-bugs/index.html" in page.links
    assert not any("run-clients" in link for link in page.links)


def test_the_page_begins_with_the_answer_and_names_both_sides() -> None:
    """The jars by their digests, the doubts in words."""
    page = " ".join(Texts(render(result(), {})).pieces)

    assert page.index("No-go from Kafka 3.9.1 to 3.9.0.") < page.index("What was asked")
    assert "Kafka 3.9.1, jars aaaaaaaaaaaa" in page
    assert "Performance was not compared (--pairs=0)." in page
    assert "Gone: SASL on Java 23 and later." in page


def test_nothing_by_design_is_said_so() -> None:
    """An empty list is no silence."""
    assert "Nothing that Plimsoll knows of." in render(result(by_design=[]), {})
