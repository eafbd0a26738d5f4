"""Shells run only constant scripts, so that a user's text never becomes one; exceptions are listed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path, PurePath

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
PRODUCT = ("campaigns", "claims", "clusters", "commands", "dags", "evidence", "expectations", "history", "imports")
PRODUCT += ("judge", "kafka_files", "operators", "reports", "service", "spark", "bench")
SHELLS = {"sh", "bash", "dash", "ash", "zsh", "ksh"}
CALLS_A_SHELL = {"os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"}
CALLS_A_SHELL |= {"asyncio.create_subprocess_shell"}
# The only places that compose a shell script, with the reason.
EXCEPTIONS = {
    "service/airflow.py:_spawn": "each word is quoted by shlex.join",
    "clusters/runtimes/docker/image.py:run_script": "of numbers, addresses and names made here; in a container",
    "campaigns/nightly/subject.py:stage": "the command that whoever wrote the settings wants to be run",
    "campaigns/bisect/builds.py:made": "the command that was asked for; the build's name is in a variable",
}


def shells(source: str) -> Iterator[str]:
    """Yield the functions of a source that start a shell with a script that is not constant."""
    for function, node in _calls_and_lists(ast.parse(source)):
        if (isinstance(node, ast.Call) and _asks_for_shell(node)) or (
            isinstance(node, ast.List | ast.Tuple) and _is_made_up(node.elts)
        ):
            yield function


def _calls_and_lists(tree: ast.AST, function: str = "") -> Iterator[tuple[str, ast.AST]]:
    for node in ast.iter_child_nodes(tree):
        named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        yield function, node
        yield from _calls_and_lists(node, node.name if named else function)


def _asks_for_shell(call: ast.Call) -> bool:
    asked = [word.value for word in call.keywords if word.arg == "shell"]
    wanted = any(not (isinstance(value, ast.Constant) and value.value is False) for value in asked)
    return wanted or ast.unparse(call.func) in CALLS_A_SHELL


def _is_made_up(words: list[ast.expr]) -> bool:
    """Return whether this is a shell's command line whose script is not constant."""
    values = [word.value if isinstance(word, ast.Constant) else None for word in words]
    for place, value in enumerate(values[:1]):
        if isinstance(value, str) and PurePath(value).name in SHELLS:
            flags = [at for at, flag in enumerate(values) if isinstance(flag, str) and flag[:1] == "-" and "c" in flag]
            return not flags or not all(isinstance(text, str) for text in values[place + 1 : flags[0] + 2])
    return False


def test_no_shell_is_told_what_a_user_wrote() -> None:
    """Every shell of the product runs a constant script, except in the listed places."""
    found = {
        f"{file.relative_to(REPOSITORY)}:{function}"
        for folder in PRODUCT
        for file in (REPOSITORY / folder).rglob("*.py")
        for function in shells(file.read_text())
    }

    assert found == set(EXCEPTIONS)


@pytest.mark.parametrize(
    ("line", "is_found"),
    [
        ("run(['sh', '-c', f'touch {name}'])", True),
        ("run(['/bin/bash', '-euc', script, 'sh', name])", True),
        ("run(('sh', '-c', 'exec \"$@\"', 'sh', name))", False),
        ("run(['bash', '--norc', '-c', 'true'])", False),
        ("run(['bash', path])", True),
        ("run(command, shell=True)", True),
        ("run(command, shell=wanted)", True),
        ("run(command, shell=False)", False),
        ("os.system(f'rm {name}')", True),
        ("run(['dd', f'of={name}'])", False),
        ("SHELLS = ['shell', name]", False),
    ],
)
def test_a_made_up_script_is_found_and_a_constant_is_not(line: str, is_found: bool) -> None:
    """A composed script is found and a constant one is not; values after it are parameters and not run."""
    assert list(shells(f"def f(name, script, command, path, wanted):\n    {line}")) == ["f"] * is_found
