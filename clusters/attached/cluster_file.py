"""Read a file that describes a cluster, such as mine.yaml."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from clusters.kafka.access import Access
from clusters.kafka.properties import render
from clusters.runtimes.ports import Endpoint
from clusters.scenario.steps.catalog import STEPS
from clusters.scenario.values import Bytes, BytesPerSecond, LongSeconds, Model, Seconds
from history.errors import BadInput
from history.folder import write_private
from history.refusals import first_wrong
from history.yaml_files import parse, read_text

# Each hook, with the placeholders that only it has.
HOOKS: Mapping[str, tuple[str, ...]] = {
    "kill": ("seconds",),
    "start": (),
    "stop": ("seconds",),
    "pause": ("seconds",),
    "resume": (),
    "disconnect": ("peer", "peer_host", "direction", "seconds"),
    "reconnect": ("peer", "peer_host", "direction"),
    "logs": (),
    "segments": ("target",),
    "upgrade": (),
}
COMMON_PLACEHOLDERS = ("broker", "host", "rack")
ENDED_BY = {fault: key for key, step in sorted(STEPS.items()) for fault in step.ends if {key, fault} <= HOOKS.keys()}
PERMITTED = (*ENDED_BY, "upgrade")
_PLACEHOLDER = re.compile(r"\{\{\w+\}\}|\{(\w+)\}")  # {{name}} belongs to a Go template


def _endpoint(value: object) -> object:
    if not isinstance(value, str):
        return value
    host, _, port = value.rpartition(":")
    if not port.isdigit() or not host or not 1 <= int(port) <= 65535:
        raise ValueError(f"{value!r} is no address such as broker-1.staging:9092")
    return Endpoint(host.removeprefix("[").removesuffix("]"), int(port))


AnyEndpoint = Annotated[Endpoint, BeforeValidator(_endpoint)]


def _argument(value: object) -> object:
    """Convert a number, which YAML reads without quotes."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


class Hook(Model):
    """A program with its arguments; ``environment`` names variables that it gets, too."""

    run: list[Annotated[str, BeforeValidator(_argument)]] = Field(min_length=1)
    limit: Seconds = 30.0
    environment: list[Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")]] = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _is_no_shell(cls, value: object) -> object:
        run = value.get("run") if isinstance(value, dict) else value
        is_command = isinstance(run, str) or isinstance(value, list)
        if is_command:
            raise ValueError(
                "no shell runs hooks; give run: a list of program and arguments, such as [ssh, '{host}', reboot]"
            )
        return value

    @property
    def placeholders(self) -> Iterator[str]:
        return (match[1] for each in self.run for match in _PLACEHOLDER.finditer(each) if match[1])

    def arguments(self, values: Mapping[str, str]) -> list[str]:
        return [_PLACEHOLDER.sub(lambda match: values[match[1]] if match[1] else match[0], each) for each in self.run]


class OwnTopics(Model):
    """The topics that runs create."""

    prefix: str = Field(default="plimsoll-", pattern=r"^[A-Za-z0-9._-]{1,100}$")


class Caps(Model):
    """The most that a run may put on the cluster; ``bytes`` and ``rate`` are sums over its loads."""

    rate: BytesPerSecond = 5e6
    partitions: int = Field(default=24, ge=1)
    bytes: Bytes = 10 * 10**9
    duration: LongSeconds = 3600.0


class ClusterFile(Model):
    """A cluster that somebody else runs.

    ``client`` is a client.properties (relative: of a run's ``work/``), ``addresses`` replaces advertised addresses by
    broker id, for port forwards, ``allow`` names faults.
    """

    bootstrap: list[AnyEndpoint] = Field(min_length=1)
    client: Path | None = None
    addresses: dict[int, AnyEndpoint] = Field(default_factory=dict)
    topics: OwnTopics = OwnTopics()
    caps: Caps = Caps()
    allow: list[str] = Field(default_factory=list)
    hooks: dict[str, Hook] = Field(default_factory=dict)
    down: Literal["until_start", "restarts_itself"] = "until_start"

    def client_id(self, name: str) -> str:
        return f"{self.topics.prefix}{name}"

    @property
    def returns_by_itself(self) -> bool:
        return self.down == "restarts_itself"

    @model_validator(mode="after")
    def _hooks_fit(self) -> Self:
        for name, hook in self.hooks.items():
            self._check_hook(name, hook)
        for fault in self.allow:
            if fault not in PERMITTED:
                raise ValueError(f"allow: hooks cannot inject {fault!r}; known: {', '.join(PERMITTED)}")
            if fault not in self.hooks:
                raise ValueError(f"allow: {fault} needs hooks.{fault}; add {fault}: {{run: [program, argument, …]}}")
        return self

    def _check_hook(self, name: str, hook: Hook) -> None:
        if name not in HOOKS:
            raise ValueError(f"hooks.{name} is no hook; known: {', '.join(HOOKS)}")
        known = (*COMMON_PLACEHOLDERS, *HOOKS[name])
        if unknown := [each for each in hook.placeholders if each not in known]:
            named = ", ".join(f"{{{each}}}" for each in known)
            raise ValueError(f"hooks.{name}.run: unknown placeholder {{{unknown[0]}}}; known: {named}")
        end = ENDED_BY.get(name)
        if end and end not in self.hooks and not (end == "start" and self.returns_by_itself):
            instead = ", or down: restarts_itself if brokers return by themselves" if end == "start" else ""
            raise ValueError(f"hooks.{name} needs a hook that ends it; add {end}: {{run: [program, …]}}{instead}")


@dataclass(frozen=True)
class Described:
    """A cluster, described by a file or by a connection with its clients' ``settings``."""

    source: Path
    cluster: ClusterFile
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def access(self) -> Access | None:
        return Access(self.source, self.settings) if self.settings else access_of(self.cluster)

    def write_settings(self, work: Path) -> None:
        if self.settings and self.cluster.client:
            file = work / self.cluster.client
            file.parent.mkdir(mode=0o700)
            write_private(file, render(self.settings))


def read_cluster_file(path: Path) -> ClusterFile:
    """Return a file's cluster; ``client`` and programs with a slash are relative to the file.

    Raises:
        BadInput: the file is no description of a cluster.
    """
    document = parse(read_text(path, "The cluster file"), path)
    if not isinstance(document, dict):
        raise BadInput(f"{path} describes no cluster; give at least bootstrap: [host:port].")
    cluster = cluster_of(document, path)
    hooks = {name: _beside(hook, path.parent.absolute()) for name, hook in cluster.hooks.items()}
    client = path.parent.absolute() / cluster.client if cluster.client else None
    return cluster.model_copy(update={"client": client, "hooks": hooks})


def cluster_of(document: Mapping[str, Any], source: Path) -> ClusterFile:
    """Return a document's cluster; raise BadInput if an entry is wrong."""
    try:
        return ClusterFile.model_validate(document)
    except ValidationError as error:
        raise BadInput(f"{source}: {first_wrong(error)}.") from error


def _beside(hook: Hook, folder: Path) -> Hook:
    program, *arguments = hook.run
    return hook.model_copy(update={"run": [str(folder / program), *arguments]}) if "/" in program else hook


def access_of(file: ClusterFile, work: Path = Path()) -> Access | None:
    """Return the security settings, None for plaintext; raise BadInput if the client.properties cannot be used."""
    return Access(work / file.client) if file.client else None
