"""YAML that somebody wrote: one sentence says why it cannot be used. Apart from what clients without PyYAML import."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from history.errors import BadInput


def read_text(path: Path, what: str) -> str:
    """A file's text; ``what`` the file is begins the sentence, such as "The fault mix".

    Raises:
        BadInput: it is missing, a folder, not readable, or no text.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise BadInput(f"{what} {path} cannot be read: {why}; give the path of a YAML file.") from error


def parse(text: str, where: object) -> Any:
    """What YAML holds; ``where`` it comes from begins the sentence.

    Raises:
        BadInput: it is no YAML.
    """
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise BadInput(f"{where} is no YAML: {' '.join(str(error).split())}.") from error


def read_mapping(path: Path, what: str) -> dict[str, Any]:
    """A file that holds a mapping.

    Raises:
        BadInput: it cannot be read, or holds something else.
    """
    told = parse(read_text(path, what), path)
    if not isinstance(told, dict):
        raise BadInput(f"{path} holds no mapping; lines such as 'pairs: 10' are needed.")
    return told
