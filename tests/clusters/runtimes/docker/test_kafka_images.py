"""Kafka images: the error for an image that is not available."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import APIError, ImageNotFound

from clusters.runtimes.docker import daemon
from clusters.runtimes.docker.kafka_images import image_id
from history.errors import BadInput


@pytest.fixture
def images(monkeypatch: pytest.MonkeyPatch) -> dict[str, SimpleNamespace]:
    """The images of a daemon that reaches no registry."""
    there: dict[str, SimpleNamespace] = {}

    def get(reference: str) -> SimpleNamespace:
        if reference not in there:
            raise ImageNotFound("none")
        return there[reference]

    def pull(_: str) -> None:
        raise APIError("500", explanation="dial tcp 127.0.0.1:1: connection refused")

    client: Any = SimpleNamespace(images=SimpleNamespace(get=get, pull=pull), close=lambda: None)
    monkeypatch.setattr(daemon.docker, "from_env", lambda **_: client)
    return there


def test_an_image_that_no_registry_gives_is_refused_with_what_to_do(images: dict[str, SimpleNamespace]) -> None:
    """A missing image that cannot be pulled is rejected with the remedies; a local image needs no registry."""
    images["me/kafka:1"] = SimpleNamespace(id="sha256:1")

    assert image_id("me/kafka:1") == "sha256:1"
    with pytest.raises(BadInput) as refused:
        image_id("me/kafka:2")
    assert str(refused.value) == (
        "--kafka=image:me/kafka:2 cannot be had: Docker could not pull me/kafka:2: dial tcp 127.0.0.1:1: connection "
        "refused; correct its name, let Docker reach its registry, or build it."
    )
