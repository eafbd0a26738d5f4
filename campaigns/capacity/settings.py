"""The settings file of a capacity plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from history.yaml_files import read_mapping


def read_settings(path: Path) -> dict[str, Any]:
    """Read the settings; ``question.demand`` is relative to their file.

    Raises:
        BadInput: the file is missing, or no YAML.
    """
    settings = read_mapping(path, "The settings")
    question = settings.get("question")
    if isinstance(question, dict) and isinstance(question.get("demand"), str) and question["demand"]:
        question["demand"] = str(path.parent.resolve() / Path(question["demand"]).expanduser())
    return settings
