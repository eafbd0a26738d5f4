"""From what was asked for, by make or in Airflow's form, to a campaign's settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from campaigns.campaign import Kind
from campaigns.nightly.settings import read_settings
from clusters.paths import ROOT
from clusters.scenario.scenario import merge_patch
from history.yaml_files import read_mapping

_SHORT = ("base", "head", "pairs", "bugs", "kafka", "tries")


def settings_of(kind: Kind, asked: Mapping[str, Any]) -> dict[str, Any]:
    """A settings file (the kind's own, or ``file``), patched by ``settings`` and then by the short names that are set.

    ``asked`` holds ``file``, ``settings`` and the kind's short names: of a comparison ``base``, ``head``, ``scenario``
    and ``pairs``, of known bugs ``bugs``, ``kafka`` and ``tries``, of claims ``kafka``.

    Raises:
        BadInput: the file is missing or no YAML mapping.
    """
    file, more = asked.get("file"), asked.get("settings") or {}
    told: dict[str, Any] = {}
    if kind == "nightly":
        told = read_settings(Path(file or ROOT / "nightly.yaml"))
    elif kind == "capacity" or file:
        told = read_mapping(Path(file or ROOT / "capacity.yaml"), "The settings")
    short = {name: asked[name] for name in _SHORT if asked.get(name) is not None}
    if asked.get("scenario"):
        short["scenarios"] = [asked["scenario"]]
    return merge_patch(merge_patch(told, more), short)
