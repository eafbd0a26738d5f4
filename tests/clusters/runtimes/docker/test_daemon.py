"""Whether Docker answers, and its error messages."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import APIError, ContainerError, DockerException

from clusters.runtimes.docker import daemon as module
from clusters.runtimes.docker.daemon import Daemon, daemon_answers, said_by, trying
from history.errors import BadInput, HarnessError


def test_no_daemon_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a daemon, ``daemon_answers`` returns False."""

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
    """A Docker error is quoted in one line: its explanation, or a script's output without the script."""
    assert said_by(error) == said


def test_what_docker_refuses_leaves_as_an_error_of_the_harness() -> None:
    """A Docker error becomes a harness error with the attempt and a hint; other errors are raised unchanged."""
    said = r"^Docker could not pause a: it hangs; try again\.$"
    with pytest.raises(HarnessError, match=said), trying("pause a", "try again"):
        raise DockerException("it hangs")
    with pytest.raises(BadInput, match="another"), trying("pause a"):
        raise BadInput("another")


class Container:
    """A container of Docker's client that returns these outputs in turn and repeats the last one."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.asked: list[list[str]] = []

    def exec_run(self, command: list[str]) -> Any:
        self.asked.append(command)
        return SimpleNamespace(output=self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])


def test_an_answer_that_is_not_whole_is_asked_for_again() -> None:
    """An incomplete output is requested again; a complete empty output is accepted."""
    lossy = Container(b"", b"class htb\n>0\n", b"<\nclass", b"<\nclass htb\n>0\n")
    assert Daemon(Path("/runs/a")).printed_by(lossy, ["tc", "class"], "show it") == "class htb\n"
    assert len(lossy.asked) == 4
    assert lossy.asked[0][-2:] == ["tc", "class"]
    assert Daemon(Path("/runs/a")).printed_by(Container(b"<\n>0\n"), ["tc"], "show it") == ""


def test_a_command_that_fails_or_never_answers_whole_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed command, and a command without a complete output, is an error: empty output would be misread."""
    monkeypatch.setattr(module, "_ANSWER_LIMIT_S", 0.0)
    for answer, said in ((b"<\nno tc\n>127\n", "exit status 127, no tc"), (b"", "Waited 0 s for Docker to show it")):
        with pytest.raises(HarnessError, match=said):
            Daemon(Path("/runs/a")).printed_by(Container(answer), ["tc"], "show it")
