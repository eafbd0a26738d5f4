"""Write the generated pages of docs/: ``python -m tests.docs.writers [NAME [RESULT …]]``, or ``make docs`` for all.

``known_bugs`` takes in folders of ``make known-bugs``, and ``claims`` files ``result.json`` of ``make claims``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tests.docs.writers.registry import DOCS, WRITERS, module


def main(arguments: Sequence[str] | None = None) -> None:
    """Take in the results, and write all pages or those of one writer."""
    parser = argparse.ArgumentParser(prog="python -m tests.docs.writers", description=__doc__)
    parser.add_argument("name", nargs="?", choices=WRITERS, help="write the pages of this writer only")
    parser.add_argument("results", nargs="*", help="results to take in first")
    asked = parser.parse_args(arguments)
    for name in [asked.name] if asked.name else WRITERS:
        writer = module(name)
        if asked.results:
            writer.add(asked.results)
        for page, text in writer.pages().items():
            (DOCS / page).write_text(text)


if __name__ == "__main__":
    main()
