"""The settings of a capacity plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clusters.attached.named import is_connection
from history.yaml_files import read_mapping


def read_settings(path: Path) -> dict[str, Any]:
    """Read the file, to which the paths in it are relative; raise BadInput if it is missing or not YAML."""
    settings = read_mapping(path, "The settings")
    for part, key in (("question", "demand"), ("measurement", "cluster")):
        own = settings.get(part)
        if isinstance(own, dict) and isinstance(given := own.get(key), str) and given and not is_connection(given):
            own[key] = str(path.parent.resolve() / Path(given).expanduser())
    return settings
