"""Read a file that describes a cluster, such as mine.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field, ValidationError

from clusters.kafka.client_access import ClientAccess
from clusters.scenario.values import Model
from history.errors import BadInput
from history.refusals import first_wrong
from history.yaml_files import parse, read_text

DEFAULT_PORT = 9092


class Address(Model):
    """A host, by name or IP address, and a port."""

    host: str = Field(min_length=1)
    port: int = Field(ge=1, le=65535)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _address(value: object) -> object:
    if not isinstance(value, str):
        return value
    host, _, port = value.rpartition(":")
    if not port.isdigit() or not host:
        raise ValueError(f"{value!r} is no address such as broker-1.staging:9092")
    return {"host": host.removeprefix("[").removesuffix("]"), "port": int(port)}


AnyAddress = Annotated[Address, BeforeValidator(_address)]


class ClusterFile(Model):
    """A cluster that somebody else runs.

    ``client`` is a client.properties, ``addresses`` replaces advertised addresses by broker id, for port forwards.
    """

    bootstrap: list[AnyAddress] = Field(min_length=1)
    client: Path | None = None
    addresses: dict[int, AnyAddress] = Field(default_factory=dict)


def read_cluster_file(path: Path) -> ClusterFile:
    """Return a file's cluster; ``client`` is relative to the file.

    Raises:
        BadInput: the file is no description of a cluster.
    """
    document = parse(read_text(path, "The cluster file"), path)
    if not isinstance(document, dict):
        raise BadInput(f"{path} describes no cluster; give at least bootstrap: [host:port].")
    try:
        found = ClusterFile.model_validate(document)
    except ValidationError as error:
        raise BadInput(f"{path}: {first_wrong(error)}.") from error
    return found.model_copy(update={"client": path.parent / found.client}) if found.client else found


def access_of(file: ClusterFile, keytool: str) -> ClientAccess | None:
    """Return the security settings, None for plaintext.

    Raises:
        BadInput: the client.properties cannot be used.
    """
    return ClientAccess(file.client, keytool) if file.client else None
