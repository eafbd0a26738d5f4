"""Claims on real brokers, by the command behind make."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from clusters.paths import ROOT

pytestmark = [pytest.mark.cluster, pytest.mark.docker, pytest.mark.slow]


@pytest.mark.parametrize(("kafka", "c18", "c48"), [("3.0.2", "refuted", "shown"), ("3.9.1", "shown", "refuted")])
def test_versions_answer_as_their_source_says(tmp_path: Path, kafka: str, c18: str, c48: str) -> None:
    """KAFKA-13091 is fixed in 3.1, KAFKA-15583 changed the rule in 3.7; most claims are decided either way."""
    command = [sys.executable, "-m", "commands", "claims", "--kafka", kafka, "--name", "c1"]
    done = subprocess.run(
        [*command, "--runs", str(tmp_path / "runs")], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads((tmp_path / "site" / "claims" / "c1" / "result.json").read_text())
    answers = {name: answer["verdict"] for name, answer in told["answers"].items()}
    assert (answers["C18"], answers["C48"]) == (c18, c48)
    assert sum(verdict != "not observable" for verdict in answers.values()) >= 44
    assert f"C48 {c48}" in done.stdout
    assert (tmp_path / "site" / "claims" / "c1" / "index.html").is_file()


def test_a_version_that_nobody_knows_is_refused() -> None:
    """With the known ones, before anything starts."""
    command = [sys.executable, "-m", "commands", "claims", "--kafka", "5.0.0"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 3
    assert "5.0.0 is no version that the claims know; known are 2.8, 3.0" in done.stderr
