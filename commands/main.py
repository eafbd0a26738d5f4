"""The command line: signals, streams, make's variables, exit codes."""

from __future__ import annotations

import io
import logging
import os
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from typer.main import get_command

from commands.app import PRINT_JSON, app, run_command
from commands.outcome import Outcome, print_error, say, stdout_for_json
from history.exit_codes import BAD_INPUT, MEANINGS, PASS

FROM_MAKE = "--from-make"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    ``--from-make "KAFKA SEED" run`` reads variables from the environment.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    from_make = given[:1] == [FROM_MAKE]
    _prepare_streams()
    _handle_signals()
    _show_what_is_fetched()
    words, refusal = _options(given[2], given[1].split()) if from_make else (given, "")
    as_json = "--json" in words
    with stdout_for_json() if as_json and words[0] not in PRINT_JSON else nullcontext():
        outcome = Outcome(BAD_INPUT, error=refusal) if refusal else run_command(words)
    if as_json:
        say(outcome.as_json())
        return outcome.code
    if outcome.error:
        print_error(outcome.error)
    for line in outcome.lines:
        say(line)
    if from_make and outcome.code != PASS:  # make has its own exit code
        print_error(f"exit code {outcome.code}: {MEANINGS[outcome.code]}")
    return outcome.code


class Variable(NamedTuple):
    """Make's variable: an option (``--kafka``), or an argument if empty."""

    option: str
    is_flag: bool = False
    is_list: bool = False


def variables_of(command: str) -> dict[str, Variable]:
    """Map ``KAFKA`` to ``--kafka``."""
    commands: dict[str, Any] = getattr(get_command(app), "commands", {})
    return dict(_variables(commands[command])) if command in commands else {}


def _variables(command: Any) -> Iterator[tuple[str, Variable]]:
    for param in command.params:
        if param.param_type_name == "argument":
            yield param.name.upper(), Variable("", is_list=param.nargs == -1)
        elif not param.is_eager:
            option = param.opts[0]
            yield option.lstrip("-").upper().replace("-", "_"), Variable(option, is_flag=param.is_flag)


def _options(command: str, names: Sequence[str]) -> tuple[list[str], str]:
    """Return options, or an error if the command lacks one."""
    takes, words = variables_of(command), [command]
    for name in names:
        if name not in takes:
            return words, _refusal(command, name, list(takes))
        value, variable = os.environ.get(name, ""), takes[name]
        if variable.is_flag:
            words += [variable.option] if value not in ("", "0") else []
        elif variable.is_list:
            words += shlex.split(value)
        elif value:
            words.append(f"{variable.option}={value}" if variable.option else value)
    return words, ""


def _refusal(command: str, name: str, takes: list[str]) -> str:
    near = get_close_matches(name, takes, n=1)
    hint = f"did you mean {near[0]}=? It takes" if near else "it takes"
    return f"make {command} takes no {name}=; {hint} {', '.join(takes)}."


def _prepare_streams() -> None:
    """Escape unencodable text; fill closed streams (``>&-``), whose numbers later files would get."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = getattr(sys, name)
        if stream is None:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # gets the lowest free number
            setattr(sys, name, Path(os.devnull).open("w" if number else "r"))  # noqa: SIM115  # never closed
        elif number and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _handle_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):  # background jobs, and so Airflow, would ignore SIGINT
        signal.signal(number, _as_interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup ignores it
        signal.signal(signal.SIGHUP, _as_hang_up)


def _as_interrupt(_signal: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _as_hang_up(number: int, _frame: object) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)  # a closed terminal repeats it
    raise KeyboardInterrupt


def _show_what_is_fetched() -> None:
    lines = logging.StreamHandler()
    lines.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.getLogger("plimsoll")
    logger.handlers, logger.propagate = [lines], False  # Airflow logs whatever reaches the root
    logger.setLevel(logging.INFO)
