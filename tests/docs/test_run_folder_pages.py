"""The pages on the run folder and verdicts agree with the code: tables, events and anomalies."""

import re

import pytest

from history.anomalies import SEVERITY
from history.tables import IMPORTED, JUDGED, RECORDED
from judge.checks.allowed import ALLOWED, LOSS
from tests.docs.pages import ROOT, page, rows, section

TABLES = {**RECORDED, "imported": IMPORTED, **JUDGED}


@pytest.mark.parametrize("name", [name for name in TABLES if not name.startswith("timeline_")])
def test_every_column_is_explained(name: str) -> None:
    """A table's columns are listed in order, with type and nullability."""
    schema = TABLES[name]
    told = [
        [column, kind]
        for names, types, *_ in rows(section(page("run-folder.md"), f"`{name}`"))[2:]
        for column, kind in zip(names.split(", "), types.split(", "), strict=True)
    ]
    kinds = [str(field.type).replace("list<item: int32>", "list of int32") for field in schema]
    ends = ["?" if field.nullable else "" for field in schema]

    assert told == [[name, kind + end] for name, kind, end in zip(schema.names, kinds, ends, strict=True)]


def test_every_table_is_named() -> None:
    """Every table is named; those for the figures are named without columns."""
    text = page("run-folder.md")

    assert [name for name in TABLES if f"`{name}`" not in text] == []


@pytest.mark.parametrize(
    ("file", "folders", "known"),
    [
        ("events.jsonl", ("clusters", "imports"), {"inject", "injected", "capture", "error"}),
        ("stages.jsonl", ("service", "campaigns"), {"stage_started", "stage_ended", "judging", "waiting"}),
    ],
)
def test_every_kind_of_event_is_explained(file: str, folders: tuple[str, ...], known: set[str]) -> None:
    """Every kind of event in the code is in the table of its file; those of ``history`` are in one of the two."""
    text = page("run-folder.md")
    tables = {name: rows(section(text, f"`{name}`"))[2:] for name in ("events.jsonl", "stages.jsonl")}
    told = {name: {kind for row in table for kind in row[0].split(", ")} for name, table in tables.items()}

    assert known <= told[file]
    assert kinds_written(*folders) - told[file] == set()
    assert kinds_written("history") <= told["events.jsonl"] | told["stages.jsonl"]


def kinds_written(*folders: str) -> set[str]:
    """Return the kinds of events that the code of these folders writes."""
    return {
        kind
        for folder in folders
        for file in (ROOT / folder).rglob("*.py")
        for kind in re.findall(r'(?:\.add|_record(?:_fault)?|_prove)\(\s*"(\w+)"', file.read_text())
    }


def test_every_anomaly_is_explained_with_its_severity() -> None:
    """The page on verdicts has those of records that the final drain did not return, that on the checks all others."""
    unread = [tuple(row[:2]) for row in rows(section(page("verdicts.md"), "Loss"))[2:]]
    entries = page("checks.md").partition("## Anomalies")[2].partition("## What may permit")[0]
    others = re.findall(r"^### (\w+)(?: \((S2)\))?$", entries, re.MULTILINE)
    severities = {name: severity or "S1" for name, severity in others if name != "unread_acknowledged"}

    assert unread == list(SEVERITY.items())[: len(unread)]
    assert {**dict(unread), **severities} == SEVERITY


def test_findings_that_violate_no_guarantee_are_explained() -> None:
    """The page explains the cases that judge/checks/behaviour.py adds to the anomalies."""
    source = (ROOT / "judge" / "checks" / "behaviour.py").read_text()
    added = set(re.findall(r'_cases\(\s*"(\w+)"', source))

    assert set(re.findall(r"^- `(\w+)`", section(page("verdicts.md"), "Anomalies"), re.MULTILINE)) == added


def test_every_rule_of_what_is_permitted_has_a_row() -> None:
    """The rows have the anomalies of the rules, in their order; the verdict gives the reason."""
    table = rows(section(page("verdicts.md"), "What must hold follows from the configuration"))[2:]

    loss = ", ".join(LOSS)
    assert f"Loss stands for {loss}" in " ".join(page("verdicts.md").replace("`", "").split())
    assert [row[0].replace("loss", loss) for row in table] == [", ".join(rule.anomalies) for rule in ALLOWED]
    assert all(all(row) for row in table)
