"""Hand-written YAML, with one-sentence errors; clients lack PyYAML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from history.errors import BadInput

MAX_BYTES = 1 << 20
MAX_NODES = 100_000  # with aliases expanded


def read_text(path: Path, what: str) -> str:
    """Read a file; errors begin with ``what``.

    Raises: BadInput.
    """
    try:
        with path.open("rb") as file:
            read = file.read(MAX_BYTES + 1)
        if len(read) > MAX_BYTES:
            raise BadInput(f"{what} {path} has more than {MAX_BYTES} bytes; give the path of a YAML file.")
        return read.decode()
    except (OSError, ValueError) as error:  # a path with a NUL is a ValueError
        why = error.strerror if isinstance(error, OSError) else str(error)
        why = "it is no text in UTF-8" if isinstance(error, UnicodeError) else why
        raise BadInput(f"{what} {path} cannot be read: {why}; give the path of a YAML file.") from error


def parse(text: str, where: object) -> Any:
    """Parse YAML; errors begin with ``where``.

    Raises: BadInput: also a duplicate key, or too many nodes.
    """
    try:
        return yaml.load(text, _Loader)  # a SafeLoader
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # invalid dates or numbers are ValueErrors
        why = "it is nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())
        raise BadInput(f"{where} is no YAML: {why}.") from error


class _Loader(yaml.SafeLoader):
    def get_single_node(self) -> yaml.Node | None:
        node = super().get_single_node()
        if node is not None:
            _count(node, {}, set())
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        "while reading a mapping",
                        node.start_mark,
                        f"the key {key.value!r} is there twice",
                        key.start_mark,
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def _count(node: yaml.Node, known: dict[int, int], above: set[int]) -> int:
    if id(node) in above:
        raise yaml.constructor.ConstructorError(
            None, None, "an alias refers to a node that contains it", node.start_mark
        )
    if id(node) in known:
        return known[id(node)]
    parts: list[yaml.Node] = []
    if isinstance(node, yaml.MappingNode):
        parts = [part for pair in node.value for part in pair]
    elif isinstance(node, yaml.SequenceNode):
        parts = node.value
    above.add(id(node))
    found = 1 + sum(_count(part, known, above) for part in parts)
    above.discard(id(node))
    if found > MAX_NODES:
        raise yaml.constructor.ConstructorError(
            None, None, f"it has more than {MAX_NODES} entries, aliases followed", node.start_mark
        )
    known[id(node)] = found
    return found


def read_mapping(path: Path, what: str) -> dict[str, Any]:
    """Read a mapping.

    Raises: BadInput.
    """
    mapping = parse(read_text(path, what), path)
    if not isinstance(mapping, dict):
        raise BadInput(f"{path} holds no mapping; lines such as 'pairs: 10' are needed.")
    return mapping
