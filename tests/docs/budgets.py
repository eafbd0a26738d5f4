"""Measure the size of the project against the table in CONTRIBUTING.md.

``python -m tests.docs.budgets`` prints today's figures and what is over its limit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

import yaml

from tests.docs.habits import habits_in
from tests.docs.texts import GENERATED_PART, ROOT, docs_of_code, files, part, read_code, text_of, words
from tests.docs.writers import registry

GENERATED = {f"docs/{name}" for name in (*registry.names(), "client-matrix.md", "shipped-scenarios.md")}
UNCOUNTED = {"CHANGELOG.md"}  # grows with each release
PAGE, FILE, FUNCTION, CLASS = PARTS = (
    *("words of a page", "lines of a file", "lines of a function"),
    "public methods and properties of a class",
)
ROW = re.compile(r"^\| ([a-z][^|]*?) \| ([\d,.]+) \| ([\d,.]*) ?\|$", re.MULTILINE)
EXCEPTIONS = Path(__file__).with_name("too_large.yaml")


@cache
def pages() -> dict[str, int]:
    """Path of each page → its words, without a generated part."""
    return {
        str(path.relative_to(ROOT)): words(GENERATED_PART.sub("", path.read_text()))
        for path in files(".md")
        if path.name not in UNCOUNTED and part(path) in ("", "docs")
    }


def generated_parts() -> int:
    """Return the words of the generated parts of pages that people write."""
    return sum(words(part[2]) for page in pages() for part in GENERATED_PART.finditer((ROOT / page).read_text()))


def is_generated(page: str) -> bool:
    """Whether a program writes a page from code or recorded rows."""
    return page in GENERATED


def sources(*left_out: str) -> Iterator[Path]:
    """Yield the Python files outside the given top-level folders."""
    return (path for path in files(".py") if part(path) not in left_out)


def lines(paths: Iterator[Path]) -> int:
    """Return the number of lines of some files."""
    return sum(path.read_text().count("\n") for path in paths)


def habits_per_1000_words() -> float:
    """Return how many phrases of ``habits.HABITS`` 1,000 words of the project contain."""
    texts = [text_of(path) for path in files(".py", ".md", ".yaml", ".yml") if path.name not in UNCOUNTED]
    return round(1000 * sum(habits_in(text).total() for text in texts) / sum(words(text) for text in texts), 1)


MEASURES: Mapping[str, Callable[[], float]] = {
    "words of README and hand-written user docs": lambda: sum(
        count for page, count in pages().items() if not page.startswith("docs/dev/") and not is_generated(page)
    ),
    "words of `docs/dev/`": lambda: sum(
        count for page, count in pages().items() if page.startswith("docs/dev/") and not is_generated(page)
    ),
    "words of generated pages": lambda: (
        sum(count for page, count in pages().items() if is_generated(page)) + generated_parts()
    ),
    "habits per 1,000 words": habits_per_1000_words,
    "words of docstrings and comments, without tests": lambda: sum(
        words(docs_of_code(path.read_text())) for path in sources("tests")
    ),
    "lines of source, without bench and tests": lambda: lines(sources("tests", "bench")),
    "lines of `bench/`": lambda: lines(path for path in files(".py") if part(path) == "bench"),
}


@cache
def oversized() -> dict[str, int]:
    """Return each page, file, function and class over its limit, with its size.

    A name is a path, or ``path:name`` of a function or class.
    """
    limits = budgets((ROOT / "CONTRIBUTING.md").read_text())
    return {name: size for kind, name, size in _sizes() if size > limits[kind]}


def _sizes() -> Iterator[tuple[str, str, int]]:
    yield from ((PAGE, page, count) for page, count in pages().items() if not is_generated(page))
    for path in files(".py"):
        name, source = str(path.relative_to(ROOT)), path.read_text()
        yield FILE, name, source.count("\n")
        for each in read_code(source).definitions:
            kind, size = (FUNCTION, each.lines) if each.public is None else (CLASS, each.public)
            yield kind, f"{name}:{each.name}", size


def budgets(contributing: str) -> dict[str, float]:
    """Return what CONTRIBUTING.md permits of each measure: its budget, or its ceiling while that is larger."""
    return {name: max(_number(budget), _number(ceiling)) for name, budget, ceiling in ROW.findall(contributing)}


def exceptions() -> dict[str, int]:
    """Return the ceilings of the pages, files, functions and classes that are known to be too large."""
    grouped: dict[str, dict[str, int]] = yaml.safe_load(EXCEPTIONS.read_text())
    return {name: ceiling for group in grouped.values() for name, ceiling in group.items()}


def _number(text: str) -> float:
    return float(text.replace(",", "") or 0)


def main() -> None:
    """Print each measure and its budget, and each part that is over its limit as a line of too_large.yaml."""
    contributing = (ROOT / "CONTRIBUTING.md").read_text()
    permitted = budgets(contributing)
    for name, measure in MEASURES.items():
        print(f"{name}: {measure():,} of {permitted[name]:,.10g}")
    for name, size in sorted(oversized().items()):
        print(f"  {name}: {size}")


if __name__ == "__main__":
    main()
