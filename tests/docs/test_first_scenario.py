"""The lesson in docs/first-scenario.md gives its reader what it shows."""

from __future__ import annotations

import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import partial
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


def run(folder: Path, name: str) -> subprocess.CompletedProcess[str]:
    """Run a scenario of the lesson by its command."""
    file = folder / f"{name}.yaml"
    file.write_text(FILES[name])
    command = [str(ROOT / "plimsoll"), "run", str(file), "--runtime", "process", "--runs", str(folder / name)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, subprocess.CompletedProcess[str]]:
    """The commands of all scenarios, which ran at the same time."""
    folder = tmp_path_factory.mktemp("lesson")
    with ThreadPoolExecutor(len(FILES)) as pool:
        return dict(zip(FILES, pool.map(partial(run, folder), FILES), strict=True))


@pytest.mark.parametrize("name", FILES)
def test_a_scenario_of_the_lesson_ends_as_shown(ended: dict[str, subprocess.CompletedProcess[str]], name: str) -> None:
    """The shown lines occur in the command's output in the page's order."""
    done = ended[name]
    expected = r"(?:.*\n)*?".join(f"{pattern(line)}\n" for line in SHOWN[name].splitlines())

    assert re.search(rf"^{expected}", done.stdout, re.MULTILINE), done.stdout + done.stderr
    assert done.returncode == 0


def test_the_page_shows_the_end_of_each_of_its_scenarios() -> None:
    """Each file has a command and its output; a line matches other counts, but no other verdict."""
    assert FILES.keys() == SHOWN.keys() == {"first", "second"}
    assert re.fullmatch(pattern("[00:48]   fault: kill, broker-1"), "[01:02]   fault: kill, broker-3")
    assert not re.fullmatch(pattern("verdict: pass"), "verdict: fail")
