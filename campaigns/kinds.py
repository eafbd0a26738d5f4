"""The kinds of campaigns: each package here declares a ``KIND``, from which command line, make, Airflow's form and docs
follow.

Its code is imported on first use, since completion must be fast.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from clusters.paths import ROOT
from history.errors import BadInput

if TYPE_CHECKING:
    from datetime import datetime

    from pydantic import BaseModel, ValidationError

    from campaigns.campaign import Campaign, CampaignFolder, Item
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

    @property
    def key(self) -> str:
        return self.setting or self.name

    @property
    def words(self) -> str:
        return f"{self.help[:1].upper()}{self.help[1:]}"

    @property
    def variable(self) -> str:
        """Return make's spelling, also used in messages, where the command line replaces it."""
        return f"{self.name.upper()}="


@dataclass(frozen=True)
class Kind:
    """A kind of campaign; ``name`` names package and DAG and, with dashes, command and folder.

    Users read ``help``, ``why``, ``phases``, ``expected`` and ``reading``. Flags:

    - ``benchmark``: nothing else may load the host meanwhile.
    - ``reads_run_folders``: results come from these, not from archive rows.
    - ``reads_settings``, ``writes_outputs``: the package has a ``settings`` or ``outputs`` module.
    - ``searches``: its ``search`` module plans each run from previous ones (command line only).
    - ``remembers``: it receives earlier campaigns' decisions from ``outputs``.
    """

    name: str
    title: str
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
    reads_run_folders: bool = False
    reads_settings: bool = False
    writes_outputs: bool = False
    searches: bool = False
    remembers: bool = False

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
    def search(self) -> Search:
        return cast("Search", import_module(f"campaigns.{self.name}.search"))

    @property
    def outputs(self) -> Outputs:
        return cast("Outputs", import_module(f"campaigns.{self.name}.outputs"))

    def memory(self, folder: CampaignFolder) -> dict[str, Any]:
        return {"decisions": self.outputs.read_decisions(folder.path.parent)} if self.remembers else {}

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
        if self.reads_settings:
            read = import_module(f"campaigns.{self.name}.settings").read_settings
        else:
            read = partial(read_mapping, what="The settings")
        written = self._by_key(read(path) if path else {})
        given = {each.key: options[each.name] for each in self.form if options.get(each.name) is not None}
        return merge_patch(merge_patch(written, self._by_key(patch or {})), given)

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
        example = f"{option.help}, such as {option.variable}{option.example}"
        if first["type"] == "missing":
            return f"{option.variable} is missing: {example}."
        why = quotes or first["msg"].removeprefix("Value error, ")
        return f"{option.variable}{_as_typed(first['input'])} is refused: {why}. It takes: {example}."

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

# no setting: a resumed campaign may change it
UPLOAD = Option(
    "upload",
    "URL in an object store to which each run and its archived rows are uploaded at once",
    "s3://bucket/plimsoll",
    planned=False,
)


class Campaigns(Protocol):
    """The ``campaign`` module; ``evidence`` is archive rows, or run folders by item."""

    def plan(self, settings: Mapping[str, Any], *, campaign_id: str, created_at: str, seed: int) -> Campaign: ...
    def follow_up(self, campaign: Campaign, rows: Rows, **memory: Any) -> list[Item]: ...
    def result(self, campaign: Campaign, evidence: Any, **memory: Any) -> Summary: ...


class Page(Protocol):
    """The page module; ``links`` maps run ids to addresses."""

    def render(self, result: Any, links: Mapping[str, str]) -> str: ...


class Search(Protocol):
    """The ``search`` module; it returns terminal lines and may rewrite the result."""

    def search(
        self, folder: CampaignFolder, options: Mapping[str, Any], places: Places, say: Callable[[str], object]
    ) -> list[str]: ...


class Outputs(Protocol):
    """The ``outputs`` module."""

    def conclude(self, folder: CampaignFolder, result: Any, rows: Rows, places: Places, now: datetime) -> None: ...
    def read_decisions(self, campaigns: Path) -> Any: ...  # of a kind that remembers


@cache
def names() -> tuple[str, ...]:
    """Return all kinds: the packages here except ``statistics``."""
    found = (module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]) if module.ispkg)
    return tuple(name for name in found if name != "statistics")


def of(name: str) -> Kind:
    """Return a kind by name; raise BadInput if it does not exist."""
    if name not in names():
        raise BadInput(f"There is no kind of campaign {name!r}; known: {', '.join(names())}.")
    return cast("Kind", import_module(f"campaigns.{name}").KIND)
