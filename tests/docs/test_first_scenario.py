"""The lesson in docs/first-scenario.md gives its reader what it shows."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from clusters.paths import ROOT

pytestmark = pytest.mark.cluster

PAGE = (ROOT / "docs" / "first-scenario.md").read_text()
FILES = dict(re.findall(r"```yaml\n(?=name: (\w+)\n)(.*?)```", PAGE, re.DOTALL))
SHOWN = dict(re.findall(r"```\n\./plimsoll run (\w+)\.yaml\n```.*?```\n(.*?)```", PAGE, re.DOTALL))
COMMON = re.compile(r"\[\d\d:\d\d\] |…?/\S+|\d[\d,]*")  # times, paths and counts differ from run to run


def pattern(line: str) -> str:
    """Return a regular expression for a shown line: its words, in their order."""
    return r"[^\n]*".join(map(re.escape, COMMON.split(line)))


@pytest.mark.parametrize("name", FILES)
def test_a_scenario_of_the_lesson_ends_as_shown(tmp_path: Path, name: str) -> None:
    """The shown lines occur in the command's output in the page's order."""
    file = tmp_path / f"{name}.yaml"
    file.write_text(FILES[name])
    command = [str(ROOT / "plimsoll"), "run", str(file), "--runtime", "process", "--runs", str(tmp_path / "runs")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    expected = r"(?:.*\n)*?".join(f"{pattern(line)}\n" for line in SHOWN[name].splitlines())
    assert re.search(rf"^{expected}", done.stdout, re.MULTILINE), done.stdout + done.stderr
    assert done.returncode == 0


def test_the_page_shows_the_end_of_each_of_its_scenarios() -> None:
    """Each file has a command and its output; a line matches other counts, but no other verdict."""
    assert FILES.keys() == SHOWN.keys() == {"first", "second"}
    assert re.fullmatch(pattern("[00:48]   fault: kill, broker-1"), "[01:02]   fault: kill, broker-3")
    assert not re.fullmatch(pattern("verdict: pass"), "verdict: fail")
