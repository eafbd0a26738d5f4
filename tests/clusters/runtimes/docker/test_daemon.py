"""Whether Docker answers, and its own words where it refuses."""

from __future__ import annotations

import pytest
from docker.errors import APIError, ContainerError, DockerException

from clusters.runtimes.docker import daemon as module
from clusters.runtimes.docker.daemon import daemon_answers, said_by, trying
from history.errors import BadInput, HarnessError


def test_no_daemon_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the socket is missing or does not answer."""

    def nobody(**_: object) -> None:
        raise DockerException("no socket")

    monkeypatch.setattr(module.docker, "from_env", nobody)
    assert daemon_answers() is False


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            APIError("500 Server Error", explanation="no such\n  container: a"),
            "no such container: a",
        ),
        (APIError("500 Server Error"), "500 Server Error"),
        (
            ContainerError(None, 2, ["sh"], "x", b"RTNETLINK: busy\n"),
            "exit status 2, RTNETLINK: busy",
        ),
        (ContainerError(None, 1, "false", "x", None), "exit status 1, nothing printed"),
        (OSError("Read timed out."), "Read timed out"),
        (DockerException("x" * 900), "x" * 500),
    ],
)
def test_docker_is_quoted_in_one_line(error: Exception, said: str) -> None:
    """Its explanation where it gives one; of a script, what that printed and not the script."""
    assert said_by(error) == said


def test_what_docker_refuses_leaves_as_an_error_of_the_harness() -> None:
    """With what was tried and what may help; what others raise within passes as it is."""
    said = r"^Docker could not pause a: it hangs; try again\.$"
    with pytest.raises(HarnessError, match=said), trying("pause a", "try again"):
        raise DockerException("it hangs")
    with pytest.raises(BadInput, match="another"), trying("pause a"):
        raise BadInput("another")
