"""Values of connections beside the environment."""

from __future__ import annotations

import os

import pytest

from history import access


def test_a_connection_goes_before_the_environment_and_stays_out_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection's value hides the variable, other variables stay, and the next connections replace it."""
    monkeypatch.setattr(os, "environ", {"DOCKER_HOST": "tcp://near:1", "HOME": "h"})
    monkeypatch.setattr(access, "_connections", {})
    access.use({"DOCKER_HOST": "tcp://far:1"})
    assert access.variables() == {"DOCKER_HOST": "tcp://far:1", "HOME": "h"}
    assert os.environ["DOCKER_HOST"] == "tcp://near:1"

    access.use({})
    assert access.variables() == os.environ
