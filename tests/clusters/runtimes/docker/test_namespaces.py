"""Scripts in a node's network namespace and on its disk."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clusters.runtimes.docker import image
from clusters.runtimes.docker.namespaces import Namespaces
from clusters.runtimes.docker.runtime import DockerRuntime
from clusters.runtimes.nodes import Node


class Containers:
    """Docker's containers; they keep the runs, and return output only with the json-file log driver, like docker-py."""

    def __init__(self) -> None:
        self.ran: list[dict[str, Any]] = []

    def run(self, _image: str, command: list[str], **settings: Any) -> bytes | None:
        self.ran.append({"script": command[-1], **settings})
        return b"said" if settings.get("log_config", {}).get("Type") == "json-file" else None


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The runtime of a run on a fake daemon; created volumes are in ``disks``."""
    disks: list[tuple[str, Any]] = []
    volumes = SimpleNamespace(create=lambda name, **settings: disks.append((name, settings["labels"])))
    opened = DockerRuntime(Path("/runs/a-run"))
    client = SimpleNamespace(containers=Containers(), volumes=volumes)
    opened._daemon.__dict__["client"] = client
    monkeypatch.setattr(image, "node_image", lambda _: "x")
    monkeypatch.setattr(Namespaces, "holder", lambda *_: "holder")
    return SimpleNamespace(runtime=opened, client=client, disks=disks)


def test_what_a_script_printed_is_read_whatever_the_hosts_log_driver(played: Any) -> None:
    """A script runs with NET_ADMIN only and the run's label, and its output does not depend on the log driver."""
    node = Node("a", "broker", "172.30.7.1", Path("/w"), "java", ())
    assert played.runtime._namespaces.run_script(node, "echo said", "speak") == "said"

    (ran,) = played.client.containers.ran
    assert (ran["network_mode"], ran["cap_drop"], ran["cap_add"]) == ("container:holder", ["ALL"], ["NET_ADMIN"])
    assert (ran["labels"], ran["remove"]) == ({"plimsoll.run": "/runs/a-run"}, True)


def test_a_disk_that_is_gone_is_not_made_without_a_label(played: Any) -> None:
    """A missing disk is created with the run's label, so that it is removed later; a mount would create it without."""
    node = Node("a", "broker", "172.30.7.1", Path("/w"), "java", (), disk_bytes=10**6)
    assert played.runtime.disks.run_script(node, "cp -a /disk/. data/") == "said"

    (ran,) = played.client.containers.ran
    assert (ran["network_mode"], "cap_add" in ran) == ("none", False)
    ((name, labels),) = played.disks
    assert name in ran["volumes"]
    assert labels == {"plimsoll.run": "/runs/a-run"}
