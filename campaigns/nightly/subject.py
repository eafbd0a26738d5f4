"""Build, copy and name the build that a nightly run tests."""

from __future__ import annotations

import logging
import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from campaigns.campaign import Item
from campaigns.nightly.settings import Subject
from clusters.kafka.builds import OWN, build_of
from history.errors import BadInput

SUBJECT, BUILD, LINK, CLUSTER = "subject", "build", "link", "cluster"  # labels of runs
SHORT = 12  # characters of a commit

log = logging.getLogger("plimsoll")


class Staged(NamedTuple):
    """The subject's ``kafka`` and labels."""

    kafka: str
    labels: dict[str, str]


def stage(subject: Subject) -> Staged:
    """Build the subject and copy its jars, so that all runs use the same; raise BadInput without a Kafka build."""
    if subject.command:
        log.info("building %s: %s", subject.name, subject.command)
        code = subprocess.run(["bash", "-c", subject.command], check=False).returncode
        if code:
            raise BadInput(f"The command of the subject ended with exit code {code}: {subject.command}")
    build = build_of(subject.kafka)
    is_release = build.origin is None
    digest = "" if is_release else build.jars.name.removeprefix(OWN)
    about = {"commit": build.commit[:SHORT], "jars": digest, "build": os.environ.get(subject.build_id, "")}
    words = ", ".join(f"{name} {value}" for name, value in about.items() if value)
    link = subject.link.replace("{commit}", build.commit) if build.commit else ""
    labels = {SUBJECT: subject.name, BUILD: f"{build.version} ({words})" if words else build.version, LINK: link}
    return Staged(subject.kafka if is_release else str(build.jars), labels)


def staged_in(items: Sequence[Item]) -> Staged | None:
    """Return a plan's subject, if any."""
    names = (SUBJECT, BUILD, LINK)
    own = next((item for item in items if SUBJECT in item.labels), None)
    return Staged(own.kafka, {name: own.labels[name] for name in names}) if own else None


def name_in(labels: Mapping[str, str], version: str) -> str:
    """Return the name of the subject or of a cluster of others, whose version may change; else the version."""
    return labels.get(SUBJECT) or labels.get(CLUSTER) or version


def by_name(row: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    """Use a row's ``name_in`` as its version; another cluster under one name begins new series."""
    cluster = f" {row['cluster']}" if row.get("cluster") else ""
    digest = f"{row['scenario_digest'].removesuffix(cluster)}{cluster}"
    return {**row, "kafka_version": name_in(labels, row["kafka_version"]), "scenario_digest": digest}
