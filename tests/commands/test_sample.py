"""The sample site: its list has valid commands, it can be resumed, and its page shows what exists."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from campaigns import kinds
from campaigns.places import Places
from clusters.paths import ROOT
from commands.app import app
from commands.outcome import Outcome
from commands.sample import Entry, chosen, make, read_list
from history.errors import BadInput
from history.exit_codes import BAD_INPUT, FAIL, INTERRUPTED, PASS, UNKNOWN

DOCS_PAGE = ROOT / "docs" / "sample.md"
ONE = Entry(name="one", title="A run", command="run steady", shows="a run")
TWO = Entry(name="two", title="Nightly", command="nightly", shows="a night", settings={"repetitions": 1})


class Commands:
    """Replaces the command line: each command ends with the next code and writes a page, or none."""

    def __init__(self, places: Places, *codes: int) -> None:
        self.lines: list[list[str]] = []
        self._places, self._codes = places, list(codes)

    def __call__(self, words: list[str]) -> Outcome:
        self.lines.append(words)
        code = self._codes.pop(0)
        page = self._places.site / f"page-{len(self.lines)}.html"
        state = {PASS: "pass", FAIL: "fail"}.get(code, "unknown")
        facts = {"page": page, "state": state, "sentence": f"It is {state}."}
        return Outcome(code, facts={} if code in (BAD_INPUT, INTERRUPTED) else facts)


def made(tmp_path: Path, *codes: int, wanted: Sequence[Entry] = (ONE, TWO)) -> tuple[Outcome, Commands, str]:
    """Make the sample site; return the outcome, the commands run, and the page."""
    places = Places.beside(tmp_path / "runs")
    commands = Commands(places, *codes)
    outcome = make([ONE, TWO], wanted, places, commands)
    return outcome, commands, (places.site / "sample.html").read_text()


@pytest.mark.parametrize("entry", read_list(), ids=lambda entry: entry.name)
def test_the_list_is_commands_as_they_are_typed(entry: Entry, tmp_path: Path) -> None:
    """Each entry is a valid command with valid options, and its number of runs is the documented one."""
    words = entry.words(Places.beside(tmp_path / "runs"))
    command = get_command(app).commands[words[0]]  # type: ignore[attr-defined]
    given = command.make_context(words[0], words[1:]).params

    if entry.is_campaign:
        kind = next(kind for kind in map(kinds.of, kinds.names()) if kind.command == words[0])
        file = tmp_path / "settings.yaml"
        file.write_text(yaml.safe_dump(entry.settings))
        options = {option.name: given[option.key] for option in kind.options}
        settings = kind.settings(options, file=file if entry.settings else None)
        plan = kind.campaign.plan(settings, campaign_id=entry.name, created_at="2026-01-01T00:00:00+00:00", seed=1)
        assert len(plan.items) == documented()[entry.name]


def documented() -> dict[str, int]:
    """Return the documented number of runs by name."""
    rows = [line.split("|") for line in DOCS_PAGE.read_text().splitlines() if line.startswith("| `")]
    return {name: int(row[3].split()[0]) for row in rows for name in re.findall(r"`([a-z0-9-]+)`", row[1])}


def test_the_page_on_it_tells_every_name_and_how_many_runs() -> None:
    """The documentation lists the same names in the same order, and the sum of their runs."""
    told = documented()

    assert list(told) == [entry.name for entry in read_list()]
    assert f"These are {sum(told.values())} runs." in DOCS_PAGE.read_text()


def test_each_command_runs_once_and_its_page_is_linked(tmp_path: Path) -> None:
    """Each command runs once, and its page is linked even if its state is fail; a second call runs nothing."""
    outcome, commands, page = made(tmp_path, PASS, FAIL)
    again, none, _ = made(tmp_path)

    assert (outcome.code, again.code) == (0, 0)
    assert [line[0] for line in commands.lines] == ["run", "nightly"]
    assert commands.lines[1][-4:] == ["--name", "two", "--runs", str(tmp_path / "runs")]
    assert "repetitions: 1" in (tmp_path / "site" / "settings" / "two.yaml").read_text()
    assert none.lines == []
    assert 'href="page-1.html"' in page
    assert "It is fail." in page
    assert "2 of 2 sample pages" in page
    assert str(tmp_path) not in page


def test_what_was_interrupted_goes_on(tmp_path: Path) -> None:
    """After an interrupt or bad input no command follows; a second call makes only what is missing."""
    for code in (INTERRUPTED, BAD_INPUT):
        outcome, commands, page = made(tmp_path / str(code), PASS, code)
        assert outcome.code == code
        assert "1 of 2 sample pages" in page
        assert "not made yet" in page
        assert [line[0] for line in made(tmp_path / str(code), PASS)[1].lines] == ["nightly"]
        assert len(commands.lines) == 2


def test_one_without_a_page_does_not_keep_others_from_theirs(tmp_path: Path) -> None:
    """An entry without a page is named, the others are made, and the exit code is unknown."""

    def run(words: list[str]) -> Outcome:
        if words[0] == "run":
            return Outcome(UNKNOWN, error="No jars.")
        return Outcome(PASS, facts={"page": tmp_path / "site" / "n.html", "state": "none", "sentence": "It is."})

    outcome = make([ONE, TWO], [ONE, TWO], Places.beside(tmp_path / "runs"), run)

    assert outcome.code == UNKNOWN
    assert outcome.error.startswith("one came to no result: No jars.")
    assert outcome.facts["made"] == ["two"]


def test_a_name_that_is_not_listed_is_refused() -> None:
    """``ONLY`` rejects an unknown name with the known ones, and keeps the list's order."""
    assert [entry.name for entry in chosen([ONE, TWO], "two, one")] == ["one", "two"]
    with pytest.raises(BadInput, match=r"^--only=three is nothing of the sample site; known: one, two\.$"):
        chosen([ONE, TWO], "three")


@pytest.mark.parametrize(
    ("text", "why"), [("one: two", "a valid list"), ("[{name: x}]", "title is missing"), ("- [", "is no YAML")]
)
def test_a_list_that_is_none_is_refused(text: str, why: str, tmp_path: Path) -> None:
    """An invalid list is rejected in one sentence."""
    file = tmp_path / "list.yaml"
    file.write_text(text)
    with pytest.raises(BadInput, match=why):
        read_list(file)
