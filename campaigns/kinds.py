"""The kinds of campaigns: each package here declares a ``KIND``, from which command line, make, Airflow's form and docs
follow.

Its code is imported on first use, since completion must be fast.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, Unpack, cast

from clusters.paths import ROOT
from history.errors import BadInput, BadKafka

if TYPE_CHECKING:
    from datetime import datetime
    from types import ModuleType

    from pydantic import BaseModel, ValidationError

    from campaigns.campaign import Campaign, CampaignFolder, Item, When
    from campaigns.places import Places
    from history.results.base import Summary

    Model = TypeVar("Model", bound=BaseModel)

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Option:
    """A campaign's option: ``--name``, make's ``NAME=``, and a field of Airflow's form.

    ``default`` and ``example`` are as typed; ``setting`` is a different name in settings. One that is not ``planned``
    is used only after the result.
    """

    name: str
    help: str
    example: str
    type: type[str] | type[int] = str
    choices: tuple[str, ...] = ()
    default: str = ""
    setting: str = ""
    planned: bool = True
    minimum: int | None = None

    @property
    def key(self) -> str:
        return self.setting or self.name

    @property
    def words(self) -> str:
        return f"{self.help[:1].upper()}{self.help[1:]}"

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('_', '-')}"

    def with_example(self, example: str) -> str:
        """Return the help with an example before its first semicolon."""
        first, *rest = self.help.split("; ")
        return "; ".join([f"{first}, such as {example}", *rest])


@dataclass(frozen=True)
class Kind:
    """A kind of campaign; ``name`` names package and DAG and, with dashes, command and folder.

    Users read ``help``, ``why``, ``phases``, ``expected`` and ``reading``; ``many`` and ``one`` name its campaigns.
    The package may have a ``settings``, ``search`` or ``outputs`` module. Flags:

    - ``benchmark``: nothing else may load the host meanwhile.
    - ``mixed``: except while its items with ``at_once`` run, which come first.
    - ``reads_run_folders``: results come from these, not from archive rows.
    - ``whole_evidence``: a pass requires every check.

    A shell runs the settings that ``commands`` names, such as ``subject.command``.
    """

    name: str
    title: str
    many: str
    help: str
    why: str
    phases: str
    expected: str
    reading: str
    docs_page: str
    examples: tuple[str, ...]
    options: tuple[Option, ...] = ()
    settings_file: str = ""
    benchmark: bool = True
    mixed: bool = False
    reads_run_folders: bool = False
    whole_evidence: bool = False
    commands: tuple[str, ...] = ()
    one: str = ""

    @property
    def command(self) -> str:
        return self.name.replace("_", "-")

    @property
    def campaign(self) -> Campaigns:
        return cast("Campaigns", import_module(f"campaigns.{self.name}.campaign"))

    @property
    def page(self) -> Page:
        return cast("Page", import_module(f"reports.{self.name}_page"))

    @property
    def search(self) -> Search | None:
        return cast("Search | None", self._optional("search"))

    @property
    def outputs(self) -> Outputs | None:
        return cast("Outputs | None", self._optional("outputs"))

    def _optional(self, module: str) -> ModuleType | None:
        name = f"campaigns.{self.name}.{module}"
        return import_module(name) if find_spec(name) else None

    def judged(self, rows: Rows) -> Rows:
        """Return archive rows, unknown if a pass has too little evidence."""
        return [{**row, **self._lacking(row)} for row in rows] if self.whole_evidence else rows

    def _lacking(self, row: Mapping[str, Any]) -> dict[str, str]:
        from judge.run import is_beyond_others  # slow to import

        of_others = bool(row.get("cluster"))
        lacking = [name for name in row.get("not_judged") or () if not (of_others and is_beyond_others(name))]
        if row["verdict"] != "pass" or not lacking:
            return {}
        words = f"Its evidence does not suffice for {len(lacking)} checks, and {self.one or self.name} requires all."
        return {"verdict": "unknown", "sentence": words}

    def follow_up(self, campaign: Campaign, rows: Rows, folder: CampaignFolder) -> list[Item]:
        """Return the runs that the first results make necessary; most kinds plan all of theirs at once."""
        more = getattr(self.campaign, "follow_up", None)
        return more(campaign, rows, **self.memory(folder)) if more else []

    def memory(self, folder: CampaignFolder) -> dict[str, Any]:
        return self.outputs.memory(folder.path.parent) if self.outputs else {}

    @property
    def example(self) -> dict[str, str]:
        words = shlex.split(self.examples[0])[1:]
        return {
            flag.removeprefix("--").replace("-", "_"): value
            for flag, value in zip(words[::2], words[1::2], strict=True)
        }

    @property
    def recording(self) -> tuple[Option, ...]:
        """Return the options on how to record; they are no settings, so a resumed campaign may change them."""
        return (UPLOAD,) if self.benchmark and not self.mixed else (UPLOAD, AT_ONCE)

    @property
    def form(self) -> tuple[Option, ...]:
        return tuple(option for option in self.options if option.planned)

    def settings(
        self, options: Mapping[str, Any], *, file: Path | None = None, patch: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Read a file's settings, patched by ``patch``, then by options that are not None; raise BadInput."""
        from clusters.scenario.scenario import merge_patch  # slow to import
        from history.yaml_files import read_mapping

        path = file or (ROOT / self.settings_file if self.settings_file else None)
        own = self._optional("settings")
        read = own.read_settings if own else partial(read_mapping, what="The settings")
        written = self._by_key(read(path) if path else {})
        given = {each.key: options[each.name] for each in self.form if options.get(each.name) is not None}
        return merge_patch(merge_patch(written, self._by_key(patch or {})), given)

    @contextmanager
    def naming_options(self, settings: Mapping[str, Any]) -> Iterator[None]:
        """Name a refused version by the option that gave it."""
        try:
            yield
        except BadKafka as error:
            if any(option.name == "kafka" for option in self.options):
                raise
            given = (f"{each.flag}=" for each in self.form if settings.get(each.key) == error.kafka)
            raise BadInput(f"{next(given, 'Kafka ')}{error.kafka}{error.why}") from error

    def _by_key(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Rename settings to their keys; raise BadInput if one has two names."""
        keys = {each.name: each.key for each in self.form if each.name != each.key}
        for name, key in keys.items():
            if name in settings and key in settings:
                raise BadInput(f"{self.title}: the settings have {name} and {key}, which are one; leave one out.")
        return {keys.get(name, name): value for name, value in settings.items()}

    def check(self, model: type[Model], settings: Mapping[str, Any]) -> Model:
        """Fill in defaults; raise BadInput with the first error, the allowed values, and an example."""
        from pydantic import ValidationError

        try:
            return model.model_validate(dict(settings))
        except ValidationError as error:
            raise BadInput(self._refusal(error, model)) from error

    def _refusal(self, error: ValidationError, model: type[BaseModel]) -> str:
        from history.refusals import dotted, first_wrong

        if unknown := self._unknown_key(error, model):
            return f"{self.title}: the settings are wrong: {unknown}; {self.docs_page} explains each."
        first = error.errors()[0]
        option = next((each for each in self.options if first["loc"][:1] == (each.key,)), None)
        is_number = first["type"] == "string_type" and type(first["input"]) in (int, float)  # bool is an int
        quotes = f'it is read as a number; write it in quotes: "{first["input"]}"' if is_number else ""
        if option is None or len(first["loc"]) > 1:
            wrong = f"{dotted(first['loc'])}: {quotes}" if quotes else first_wrong(error)
            return f"{self.title}: the settings are wrong: {wrong}; {self.docs_page} explains each."
        example = option.with_example(f"{option.flag}={option.example}")
        if first["type"] == "missing":
            return f"{option.flag} is missing: {example}."
        why = quotes or first["msg"].removeprefix("Value error, ")
        return f"{option.flag}={_as_typed(first['input'])} is refused: {why}. It takes: {example}."

    def _unknown_key(self, error: ValidationError, model: type[BaseModel]) -> str:
        """An unknown key comes before a missing one: it may be the same, misspelt."""
        from history.refusals import dotted, nearest_key

        names = {each.key: each.name for each in self.form}
        for each in error.errors():
            if each["type"] == "extra_forbidden":
                near = nearest_key(model, each["loc"], lambda key: names.get(key, key))
                return f"{dotted(each['loc'])} is unknown" + (f", and the nearest setting is {near}" if near else "")
        return ""


def split_words(value: Any) -> Any:
    """Split a text at commas and blanks; leave other values."""
    return value.replace(",", " ").split() if isinstance(value, str) else value


def _as_typed(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


FAULT_MIX = Option("fault_mix", "YAML with the faults to draw from", "docs/examples/fault_mixes/at_rest.yaml")
RUNTIME = Option(
    "runtime",
    "where brokers run: docker, process (of this host, with fewer faults), or auto",
    "docker",
    choices=("auto", "docker", "process"),
    default="auto",
)

UPLOAD = Option(
    "upload",
    "URL in an object store to which each run and its archived rows are uploaded at once",
    "s3://bucket/plimsoll",
    planned=False,
)

AT_ONCE = Option(
    "at_once",
    "how many runs this host may have at once; default: one per core",
    "2",
    type=int,
    planned=False,
    minimum=1,
)


class Campaigns(Protocol):
    """The ``campaign`` module: ``evidence`` is rows or run folders; ``follow_up``, ``later`` and
    ``with_recordings`` are optional.
    """

    def plan(self, settings: Mapping[str, Any], **when: Unpack[When]) -> Campaign: ...
    def result(self, campaign: Campaign, evidence: Any, **memory: Any) -> Summary: ...


class Page(Protocol):
    """The page module; ``links`` maps run ids to addresses."""

    def render(self, result: Any, links: Mapping[str, str]) -> str: ...


class Search(Protocol):
    """The ``search`` module: each round follows from all runs so far; none ends the search."""

    def next_items(self, folder: CampaignFolder, places: Places) -> list[Item]: ...


class Outputs(Protocol):
    """The ``outputs`` module; ``memory`` has earlier campaigns' decisions."""

    def conclude(self, folder: CampaignFolder, result: Any, rows: Rows, places: Places, now: datetime) -> None: ...
    def memory(self, campaigns: Path) -> dict[str, Any]: ...


@cache
def names() -> tuple[str, ...]:
    """Return all kinds: the packages here with a ``campaign`` module."""
    return tuple(sorted(file.parent.name for file in Path(__file__).parent.glob("*/campaign.py")))


def of(name: str) -> Kind:
    """Return a kind by name; raise BadInput if it does not exist."""
    if name not in names():
        raise BadInput(f"There is no kind of campaign {name!r}; known: {', '.join(names())}.")
    return cast("Kind", import_module(f"campaigns.{name}").KIND)
