"""Which modules the client nodes import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from clusters.kafka.security import Secrets
from clusters.runtimes.client_libraries import CLIENT_PACKAGES

ROOT = Path(__file__).resolve().parents[3]
OWN = {folder.parent.name for folder in ROOT.glob("*/*.py")} - set(CLIENT_PACKAGES)
ABSENT = ["cryptography", "pydantic", "yaml", "docker", "airflow", "pyspark", "pandas", "scipy", "fsspec", *sorted(OWN)]


def run_without(modules: list[str], code: str) -> str:
    """Run code in an interpreter in which these modules cannot be imported; return its stderr if it fails."""
    blocked = f"import sys; sys.modules.update(dict.fromkeys({modules!r})); {code}"
    done = subprocess.run([sys.executable, "-c", blocked], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


@pytest.mark.parametrize(
    "client",
    [*("producer", "consumer", "drain", "prober", "member", "share_member", "copier"), "verifiable_producer"],
)
def test_a_client_needs_the_node_libraries_only(client: str) -> None:
    """A client imports only the node libraries, and no other package of the project."""
    assert run_without(ABSENT, f"import clusters.clients.{client}") == ""


def test_a_client_logs_in_there(tmp_path: Path) -> None:
    """The credentials of a made cluster need no other library."""
    secrets = Secrets(tmp_path / "security", "mutual", "SCRAM-SHA-512")
    secrets.create({"p1": "127.0.0.1"})
    file = secrets.client_file("p1")
    code = f"import pathlib, clusters.kafka.access as a; a.Access(pathlib.Path({str(file)!r})).kafka_python()"
    assert run_without(ABSENT, code) == ""


def test_the_recording_half_would_not_start_there() -> None:
    """Near miss: a module that needs pydantic does not start with the node libraries alone."""
    assert "pydantic" in run_without(["pydantic"], "import clusters.scenario.scenario")
