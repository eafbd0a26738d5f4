"""The kinds of campaigns, each a package beside this module that declares itself once as ``KIND``.

The command line, make, Airflow's form and the docs follow from the declaration. What a kind computes is imported when
asked for: its statistics are heavy, and a command line that completes names must not wait for them.
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
    """A setting that can be given by itself: ``--name``, ``NAME=`` of make, and a field of Airflow's form.

    ``default`` is what the settings have where nothing is said, as a person would type it; ``example`` a value as
    typed. ``setting`` is the setting's name where it differs. A value that is required may also come from a file. One
    that is not ``planned`` is no setting, but for what the command does once there is a result.
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
        """The setting that it sets."""
        return self.setting or self.name

    @property
    def words(self) -> str:
        """The help as the beginning of a sentence."""
        return f"{self.help[:1].upper()}{self.help[1:]}"

    @property
    def variable(self) -> str:
        """As make calls it, and every message: the command line puts its own spelling in its place."""
        return f"{self.name.upper()}="


@dataclass(frozen=True)
class Kind:
    """A kind of campaign. ``name`` is that of its package and its DAG; as a command and as a folder it has dashes.

    ``help``, ``why``, ``phases``, ``expected`` and ``reading`` tell a user of the command line and of Airflow about
    it; ``examples`` are command lines without ``plimsoll``. A ``benchmark`` measures: its runs are recorded while
    nothing else loads the host. Results are computed from the archive's rows, or, where it ``reads_run_folders``,
    from those. One that ``reads_settings`` has a reader of its own in its ``settings`` module; one that
    ``writes_outputs`` writes more than result and page, by its ``outputs`` module; one that ``searches`` goes on once
    there is a result, each run by what the ones before it said, by its ``search`` module, on the command line alone.
    One that ``remembers`` is given the decisions of its campaigns so far, which its ``outputs`` module keeps.
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
        """Its plan, its reruns and its result."""
        return cast("Campaigns", import_module(f"campaigns.{self.name}.campaign"))

    @property
    def page(self) -> Page:
        """What draws its page."""
        return cast("Page", import_module(f"reports.{self.name}_page"))

    @property
    def search(self) -> Search:
        """What goes on once there is a result."""
        return cast("Search", import_module(f"campaigns.{self.name}.search"))

    @property
    def outputs(self) -> Outputs:
        """What writes more than result and page."""
        return cast("Outputs", import_module(f"campaigns.{self.name}.outputs"))

    def memory(self, folder: CampaignFolder) -> dict[str, Any]:
        """Return what follow-up and result of a campaign are given beside their evidence."""
        return {"decisions": self.outputs.read_decisions(folder.path.parent)} if self.remembers else {}

    @property
    def form(self) -> tuple[Option, ...]:
        """The options that are settings."""
        return tuple(option for option in self.options if option.planned)

    def settings(
        self, options: Mapping[str, Any], *, file: Path | None = None, patch: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The settings of a file (the kind's own where none is given), patched by ``patch`` and then by options.

        ``options`` maps names to values; None is no value.

        Raises:
            BadInput: the file is missing or no YAML mapping.
        """
        from clusters.scenario.scenario import merge_patch  # heavy
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
        """Return settings under their keys: a file may name them as the command line does, such as from for base.

        Raises:
            BadInput: one has both names.
        """
        keys = {each.name: each.key for each in self.form if each.name != each.key}
        for name, key in keys.items():
            if name in settings and key in settings:
                raise BadInput(f"{self.title}: the settings have {name} and {key}, which are one; leave one out.")
        return {keys.get(name, name): value for name, value in settings.items()}

    def check(self, model: type[Model], settings: Mapping[str, Any]) -> Model:
        """The settings as a model, defaults filled in.

        Raises:
            BadInput: the first thing that is wrong, what it should be, and an example.
        """
        from pydantic import ValidationError

        try:
            return model.model_validate(dict(settings))
        except ValidationError as error:
            raise BadInput(self._refusal(error)) from error

    def _refusal(self, error: ValidationError) -> str:
        from history.refusals import first_wrong

        first = error.errors()[0]
        option = next((each for each in self.options if first["loc"][:1] == (each.key,)), None)
        if option is None or len(first["loc"]) > 1:
            return f"{self.title}: the settings are wrong: {first_wrong(error)}; {self.docs_page} explains each."
        example = f"{option.help}, such as {option.variable}{option.example}"
        if first["type"] == "missing":
            return f"{option.variable} is missing: {example}."
        why = first["msg"].removeprefix("Value error, ")
        return f"{option.variable}{_as_typed(first['input'])} is refused: {why}. It takes: {example}."


def split_words(value: Any) -> Any:
    """A text as its words, with commas or blanks between; what is no text as it is."""
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

# Of every kind, and no part of its question: a campaign that is taken up again may have another one.
UPLOAD = Option(
    "upload",
    "URL in an object store that runs and archived rows are uploaded to, each as soon as it is there",
    "s3://bucket/plimsoll",
    planned=False,
)


class Campaigns(Protocol):
    """What a kind's package offers in ``campaign``; ``evidence`` are the archive's rows, or run folders by item.

    A kind that remembers takes ``decisions``, too.
    """

    def plan(self, settings: Mapping[str, Any], *, campaign_id: str, created_at: str, seed: int) -> Campaign: ...
    def follow_up(self, campaign: Campaign, rows: Rows, **memory: Any) -> list[Item]: ...
    def result(self, campaign: Campaign, evidence: Any, **memory: Any) -> Summary: ...


class Page(Protocol):
    """What its page's module offers; ``result`` is the kind's own, ``links`` maps run ids to addresses of pages."""

    def render(self, result: Any, links: Mapping[str, str]) -> str: ...


class Search(Protocol):
    """What a kind's package offers in ``search``; returns lines for people, and may conclude the campaign anew."""

    def search(
        self, folder: CampaignFolder, options: Mapping[str, Any], places: Places, say: Callable[[str], object]
    ) -> list[str]: ...


class Outputs(Protocol):
    """What a kind's package offers in ``outputs``; ``result`` is the kind's own."""

    def conclude(self, folder: CampaignFolder, result: Any, rows: Rows, places: Places, now: datetime) -> None: ...
    def read_decisions(self, campaigns: Path) -> Any: ...  # of a kind that remembers


@cache
def names() -> tuple[str, ...]:
    """Every kind: the packages of this folder, but for the one that several of them calculate with."""
    found = (module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]) if module.ispkg)
    return tuple(name for name in found if name != "statistics")


def of(name: str) -> Kind:
    """A kind by its name.

    Raises:
        BadInput: there is none.
    """
    if name not in names():
        raise BadInput(f"There is no kind of campaign {name!r}; known: {', '.join(names())}.")
    return cast("Kind", import_module(f"campaigns.{name}").KIND)
