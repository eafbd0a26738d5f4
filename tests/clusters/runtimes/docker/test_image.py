"""Checks of a node image before the first server starts in it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import ContainerError

from clusters.runtimes.docker import image
from history.errors import BadInput
from history.java import Java

JAVA = Java(home=Path("/opt/jdk"), version="21.0.8", vendor="Temurin", released="2026-07-15")


class Client:
    """A Docker client whose node image has this id; ``ran`` has the commands run, ``error`` the error of each."""

    def __init__(self, image_id: str = "sha256:1", error: Exception | None = None) -> None:
        self.ran: list[list[str]] = []
        self.error = error
        self.images = SimpleNamespace(get=lambda _: SimpleNamespace(id=image_id))
        self.containers = SimpleNamespace(run=self._run)

    def _run(self, _: str, command: list[str], **__: Any) -> None:
        self.ran.append(command)
        if self.error:
            raise self.error


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and an existing node image."""
    monkeypatch.setattr(image, "CACHE", tmp_path)
    monkeypatch.setattr(image, "node_image", lambda _: "plimsoll-node:x")
    return tmp_path


def test_a_java_is_tried_once_in_an_image() -> None:
    """Each Java is tried once per image; another image or another Java is tried again."""
    client: Any = Client()
    other: Any = Client("sha256:2")

    for _ in range(2):
        image._check_java(client, JAVA)
    image._check_java(other, JAVA)
    image._check_java(client, JAVA.model_copy(update={"version": "25.0.1"}))

    assert (len(client.ran), len(other.ran)) == (2, 1)
    assert client.ran[0] == ["/opt/jdk/bin/java", "-version"]


def test_a_java_that_does_not_run_is_refused_each_time() -> None:
    """A Java that fails is rejected with its output every time, since its folder may be replaced meanwhile."""
    said = ContainerError(None, 127, "java", "x", b"java: GLIBC_2.38 not found\n")
    client: Any = Client(error=said)

    for _ in range(2):
        with pytest.raises(
            BadInput, match=r"Java 21\.0\.8 \(Temurin\) does not run .* \(java: GLIBC_2\.38 not found\)"
        ):
            image._check_java(client, JAVA)

    assert len(client.ran) == 2
