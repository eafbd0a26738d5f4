"""The settings of a capacity plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from history.yaml_files import read_mapping


def read_settings(path: Path) -> dict[str, Any]:
    """Read the file, to which ``question.demand`` is relative; raise BadInput if it is missing or not YAML."""
    settings = read_mapping(path, "The settings")
    question = settings.get("question")
    if isinstance(question, dict) and isinstance(question.get("demand"), str) and question["demand"]:
        question["demand"] = str(path.parent.resolve() / Path(question["demand"]).expanduser())
    return settings
