"""The sample site: the results of sample.yaml's commands."""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, TypeAdapter, ValidationError

from campaigns import kinds
from campaigns.campaign import Strict
from campaigns.places import Places
from clusters.paths import ROOT
from commands.outcome import Outcome, say
from history.errors import BadInput
from history.exit_codes import BAD_INPUT, INTERRUPTED, UNKNOWN
from history.folder import write_atomically
from history.refusals import first_wrong
from history.yaml_files import parse, read_text
from reports import sample_page
from reports.page import write
from reports.sample_page import Made, Shown

LIST = ROOT / "sample.yaml"
PAGE, MADE, SETTINGS = "sample.html", "sample.json", "settings"  # in the site

RunCommand = Callable[[list[str]], Outcome]


class Entry(Strict):
    """A command as typed after ``plimsoll``, and its page's text."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    title: str
    command: str
    shows: str
    settings: dict[str, Any] = Field(default_factory=dict)

    @property
    def is_campaign(self) -> bool:
        return self.command.split()[0] in {kinds.of(name).command for name in kinds.names()}

    @property
    def settings_file(self) -> str:
        """Relative to the site; empty without settings."""
        return f"{SETTINGS}/{self.name}.yaml" if self.settings else ""

    def words(self, places: Places) -> list[str]:
        words = shlex.split(self.command)
        if self.settings_file:
            words += ["--settings", str(places.site / self.settings_file)]
        if self.is_campaign:
            words += ["--name", self.name]
        return [*words, "--runs", str(places.runs)]


def read_list(path: Path = LIST) -> list[Entry]:
    """Read the list; raise BadInput if it has another format."""
    document = parse(read_text(path, "The list of the sample site"), path)
    try:
        return TypeAdapter(list[Entry]).validate_python(document)
    except ValidationError as error:
        raise BadInput(f"{path} is no list of commands: {first_wrong(error)}.") from error


def chosen(entries: Sequence[Entry], only: str | None) -> list[Entry]:
    """Return the entries in ``only``, by default all; raise BadInput for unknown names."""
    names = kinds.split_words(only) if only else [entry.name for entry in entries]
    known = [entry.name for entry in entries]
    for name in names:
        if name not in known:
            raise BadInput(f"--only={name} is nothing of the sample site; known: {', '.join(known)}.")
    return [entry for entry in entries if entry.name in names]


def make_sample(folder: Path, only: str | None, run: RunCommand) -> Outcome:
    """Run missing entries, rewriting the page after each; raise BadInput for unknown names."""
    entries = read_list()
    return make(entries, chosen(entries, only), Places.beside(folder / "runs"), run)


def make(entries: Sequence[Entry], wanted: Sequence[Entry], places: Places, run: RunCommand) -> Outcome:
    """Run missing entries; go on after one without a page."""
    page = _write_page(entries, places)
    left = [entry for entry in wanted if entry.name not in _made(places)]
    errors = []
    for number, entry in enumerate(left, 1):
        say(f"{number} of {len(left)}: {entry.title}: plimsoll {entry.command}")
        began_s = time.monotonic()
        outcome = run(_prepared(entry, places))
        if outcome.code in (BAD_INPUT, INTERRUPTED):
            return outcome
        for line in outcome.lines:
            say(line)
        if not _keep(entry, outcome, time.monotonic() - began_s, places):
            errors.append(f"{entry.name} came to no result: {outcome.error or 'it left no page'}")
        page = _write_page(entries, places)
    if errors:
        errors.append("Run the same command again to make what is missing.")
    facts = {"page": page, "made": sorted(_made(places))}
    return Outcome(UNKNOWN if errors else 0, [f"page: {page}"], facts, "\n".join(errors))


def _prepared(entry: Entry, places: Places) -> list[str]:
    if entry.settings_file:
        file = places.site / entry.settings_file
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, yaml.safe_dump(entry.settings, sort_keys=False))
    return entry.words(places)


def _made(places: Places) -> Mapping[str, Made]:
    try:
        made = json.loads((places.site / MADE).read_text())
    except FileNotFoundError:
        return {}
    return {name: Made(**each) for name, each in made.items()}


def _keep(entry: Entry, outcome: Outcome, took_s: float, places: Places) -> bool:
    """Return False without a page or after an abort."""
    facts = outcome.facts
    if not facts.get("page") or (outcome.code == UNKNOWN and outcome.error):
        return False
    made = Made(
        address=os.path.relpath(str(facts["page"]), str(places.site)),
        state=str(facts.get("verdict") or facts.get("state")),
        sentence=str(facts["sentence"]),
        took_s=round(took_s),
    )
    all_made = {**_made(places), entry.name: made}
    write_atomically(
        places.site / MADE, json.dumps({name: each._asdict() for name, each in all_made.items()}, indent=1)
    )
    return True


def _write_page(entries: Sequence[Entry], places: Places) -> Path:
    made = _made(places)
    rows = [
        Shown(entry.title, entry.shows, f"plimsoll {entry.command}", entry.settings_file, made.get(entry.name))
        for entry in entries
    ]
    return write(sample_page.render(rows), places.site / PAGE, places.site)
