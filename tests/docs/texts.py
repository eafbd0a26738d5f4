"""The texts that people read in this repository: pages, docstrings, comments, messages and comments of YAML files."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeGuard

ROOT = Path(__file__).resolve().parents[2]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DOCUMENTED = (ast.Module, ast.ClassDef, *FUNCTIONS)
NOT_PROSE = re.compile(r"```.*?```|`[^`]*`|https?://\S+|<!--.*?-->", re.DOTALL)
YAML_COMMENT = re.compile(r"(?:^|\s)#\s?(.*)$", re.MULTILINE)
LINK_TARGET = re.compile(r"(?<=\])\([^)\s]*\)")
GENERATED_PART = re.compile(r"(<!-- make docs -->)(.*?)(<!-- end -->)", re.DOTALL)
WORD = re.compile(r"\S*\w\S*")
SENTENCE_WORDS = 4  # a string literal of fewer is a name, a label or a format


def files(*suffixes: str) -> Iterator[Path]:
    """Yield the repository's files with one of the suffixes, new files included, in the order of their names."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
    for name in sorted(filter(None, listed)):
        path = ROOT / name
        if path.suffix in suffixes and path.is_file():
            yield path


def part(path: Path) -> str:
    """Return the top-level folder of a file, or '' for a file that lies in none."""
    return path.relative_to(ROOT).parts[0] if path.parent != ROOT else ""


def page_text(markdown: str) -> str:
    """Return the prose of a page, without code and addresses."""
    return NOT_PROSE.sub(" ", markdown)


class Definition(NamedTuple):
    """A function or a class; ``public`` counts the public methods and properties of a class."""

    name: str
    lines: int
    public: int | None = None


@dataclass
class Code:
    """What one walk through a file's code finds."""

    docstrings: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    definitions: list[Definition] = field(default_factory=list)


@cache
def read_code(source: str) -> Code:
    """Walk through Python code once."""
    code, documenting = Code(), set[int]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED):
            docstring = ast.get_docstring(node)
            if docstring is not None:
                code.docstrings.append(docstring)
                documenting.add(id(node.body[0].value))  # type: ignore[attr-defined]  # the docstring's expression
            if not isinstance(node, ast.Module):
                code.definitions.append(_definition(node))
        elif isinstance(node, ast.Constant) and id(node) not in documenting and _is_sentence(node.value):
            code.messages.append(node.value)
    return code


def _is_sentence(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and len(value.split()) >= SENTENCE_WORDS


def _definition(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> Definition:
    public = sum(map(_is_public_function, node.body)) if isinstance(node, ast.ClassDef) else None
    return Definition(node.name, (node.end_lineno or node.lineno) - node.lineno + 1, public)


def _is_public_function(node: ast.stmt) -> bool:
    return isinstance(node, FUNCTIONS) and not node.name.startswith("_")


@cache
def docs_of_code(source: str) -> str:
    """Return the docstrings and comments of Python code, one per line or more."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = [token.string.lstrip("#! ") for token in tokens if token.type == tokenize.COMMENT]
    return "\n".join([*read_code(source).docstrings, *comments])


def messages_of_code(source: str) -> str:
    """Return the string literals of Python code that are sentences, docstrings left out, one per line or more."""
    return "\n".join(read_code(source).messages)


def yaml_text(source: str) -> str:
    """Return the comments of a YAML file, one per line."""
    return "\n".join(YAML_COMMENT.findall(source))


def text_of(path: Path) -> str:
    """Return what people read in a file: a page's prose, code's docstrings, comments and messages, YAML's comments."""
    content = path.read_text()
    if path.suffix == ".py":
        return f"{docs_of_code(content)}\n{messages_of_code(content)}"
    return page_text(content) if path.suffix == ".md" else yaml_text(content)


def words(text: str) -> int:
    """Return the number of words: whatever has a letter or a digit, except where a link leads."""
    return len(WORD.findall(LINK_TARGET.sub(" ", text)))


def helped() -> dict[str, str]:
    """Return the rows of ``make help``."""
    text = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return dict(re.findall(r"^  make ([a-z-]+) +(.+)$", text, re.MULTILINE))
