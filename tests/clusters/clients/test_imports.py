"""Which modules the client nodes import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from clusters.runtimes.client_libraries import CLIENT_PACKAGES

ROOT = Path(__file__).resolve().parents[3]
OWN = {folder.parent.name for folder in ROOT.glob("*/*.py")} - set(CLIENT_PACKAGES)
ABSENT = ["cryptography", "pydantic", "yaml", "docker", "airflow", "pyspark", "pandas", "scipy", "fsspec", *sorted(OWN)]


def run_without(modules: list[str], code: str) -> str:
    """Run code in an interpreter in which these modules cannot be imported; return its stderr if it fails."""
    blocked = f"import sys; sys.modules.update(dict.fromkeys({modules!r})); {code}"
    done = subprocess.run([sys.executable, "-c", blocked], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


@pytest.mark.parametrize("client", ["producer", "consumer", "drain", "prober", "member", "share_member", "copier"])
def test_a_client_needs_the_node_libraries_only(client: str) -> None:
    """A client imports only the node libraries, and no other package of the project."""
    assert run_without(ABSENT, f"import clusters.clients.{client}") == ""


def test_the_recording_half_would_not_start_there() -> None:
    """Near miss: a module that needs pydantic does not start with the node libraries alone."""
    assert "pydantic" in run_without(["pydantic"], "import clusters.scenario.scenario")
