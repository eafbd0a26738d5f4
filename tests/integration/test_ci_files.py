"""The files for CI systems: valid by their schemas, with steps that run here in order."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters.paths import ROOT
from tests.docs.pages import blocks
from tests.junit_schema import outcomes

ACTION, TEMPLATE, PAGE = ROOT / "action.yml", ROOT / "ci" / "gitlab.yml", ROOT / "docs" / "ci.md"
IMPORT = f"import {ROOT}/docs/examples/operations.jsonl --format operations"
RUN = "run steady --runtime process --kafka 3.9.1"


def read(path: Path) -> Any:
    """Return a YAML file's content."""
    return yaml.safe_load(path.read_text())


# --- schemas ---------------------------------------------------------------------------------------


def refused(schema: str, *files: Path) -> str:
    """Return check-jsonschema's errors for files by one of its schemas; empty if they are valid."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr if done.returncode else ""


@pytest.mark.skipif(find_spec("check_jsonschema") is None, reason="check-jsonschema is missing; make .venv/.dev")
def test_files_and_examples_keep_to_the_schemas(tmp_path: Path) -> None:
    """The action, the template and the page's examples are valid; each schema rejects a wrong key."""
    workflow, pipeline = tmp_path / "workflow.yml", tmp_path / "pipeline.yml"
    for path, block in zip((workflow, pipeline), blocks(PAGE.read_text(), "yaml"), strict=True):
        path.write_text(block)
    wrong, job = tmp_path / "wrong.yml", tmp_path / "job.yml"
    job.write_text(TEMPLATE.read_text().replace("\n.plimsoll:", "\nplimsoll:"))  # anything is valid in a hidden job

    assert refused("github-actions", ACTION) == ""
    assert refused("github-workflows", workflow) == ""
    assert refused("gitlab-ci", job, pipeline) == ""
    wrong.write_text(ACTION.read_text().replace("composite", "compost"))
    assert "compost" in refused("github-actions", wrong)
    wrong.write_text(job.read_text().replace("when: always", "when: ever"))
    assert "ever" in refused("gitlab-ci", wrong)


def test_actions_of_others_are_pinned() -> None:
    """Other authors' actions are pinned by commit, since tags can move."""
    used = [step["uses"] for step in read(ACTION)["runs"]["steps"] if "uses" in step]

    assert [re.sub("@[0-9a-f]{40}$", "", name) for name in used] == ["actions/cache", "actions/upload-artifact"]


def test_no_input_becomes_part_of_a_script() -> None:
    """An input reaches a script through the environment alone, since pull requests could otherwise inject commands."""
    scripts = [step["run"] for step in read(ACTION)["runs"]["steps"] if "run" in step]

    assert [script for script in scripts if "${{" in script] == []


# --- their steps -----------------------------------------------------------------------------------


def github(folder: Path, **inputs: str) -> tuple[int, dict[str, str]]:
    """Run the action's steps as GitHub does, up to the first failure; return its exit code and all outputs.

    Steps of other actions (cache, upload) are left out.
    """
    action, output = read(ACTION), folder / "output"
    values = {f"inputs.{name}": each["default"] for name, each in action["inputs"].items()}
    values |= {f"inputs.{name}": value for name, value in inputs.items()}
    environment = {
        **os.environ,
        "GITHUB_ACTION_PATH": str(ROOT),
        "GITHUB_OUTPUT": str(output),
        "GITHUB_STEP_SUMMARY": str(folder / "step.md"),
    }
    code = 0
    for step in (each for each in action["runs"]["steps"] if "run" in each and not code):
        assert step["shell"] == "bash"
        own = {name: filled(text, values) for name, text in step.get("env", {}).items()}
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        code = subprocess.run(command, cwd=folder, env=environment | own, check=False).returncode
    return code, dict(line.split("=", 1) for line in output.read_text().splitlines())


def filled(text: str, values: dict[str, str]) -> str:
    """Return a text with GitHub's expressions replaced; one without a value is an error."""
    return re.sub(r"\$\{\{ ([\w.]+) \}\}", lambda found: values[found[1]], text)


@pytest.mark.pipeline
def test_the_action_fails_with_the_exit_code_of_what_it_ran(tmp_path: Path) -> None:
    """The action fails with its command's exit code, and the files have the reason."""
    code, told = github(tmp_path, command=IMPORT, results="kept here")

    assert (code, told["exit-code"]) == (1, "1")
    assert re.fullmatch("plimsoll-[0-9a-f]{16}", told["key"])
    found = tmp_path / "kept here"
    assert outcomes((found / "junit.xml").read_text())["plimsoll/plimsoll import"] == "fail"
    assert (tmp_path / "step.md").read_text().strip() == (found / "summary.md").read_text().strip()
    (run,) = (found / "runs").iterdir()
    verdict = json.loads((run / "verdict" / "verdict.json").read_text())
    assert verdict["anomalies"] == {"lost_write": 1, "poll_skip": 1}
    assert (run / "report" / "index.html").is_file()


def test_bad_input_is_told_from_a_failure(tmp_path: Path) -> None:
    """Bad input exits with 3, and the step fails without running the input as a command."""
    code, told = github(tmp_path, command="run stedy; touch owned")

    assert (code, told["exit-code"]) == (3, "3")
    assert not (tmp_path / "owned").exists()


def gitlab(folder: Path, command: str) -> int:
    """Run the template's script in a separate clone, as GitLab does, with the packages where the cache puts them.

    Returns: its exit code.
    """
    job = read(TEMPLATE)[".plimsoll"]
    (folder / ".plimsoll").mkdir()
    for cached in job["cache"]["paths"]:
        (folder / cached).symlink_to((ROOT / Path(cached).name).resolve())
    environment = {**os.environ, **job["variables"], "PLIMSOLL_COMMAND": command}
    environment |= {"PLIMSOLL_REPOSITORY": str(ROOT), "PLIMSOLL_REF": "HEAD"}
    script = "\n".join([*job["before_script"], *job["script"]])
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script], cwd=folder, env=environment, check=False
    ).returncode


def test_the_template_tells_bad_input_from_a_failure(tmp_path: Path) -> None:
    """The template exits with 3 for bad input, and its command's text is not run by a shell."""
    assert gitlab(tmp_path, "run stedy; touch owned") == 3
    assert not list(tmp_path.rglob("owned"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "code", "outcome", "suites"),
    [
        pytest.param(IMPORT, 1, "fail", {"plimsoll"}, marks=pytest.mark.pipeline),
        pytest.param(RUN, 0, "pass", {"plimsoll", "invariants.steady"}, marks=pytest.mark.cluster),
    ],
    ids=["import", "run"],
)
def test_the_template_ends_as_its_command(
    tmp_path: Path, command: str, code: int, outcome: str, suites: set[str]
) -> None:
    """The template exits with its command's code and has the result files; a scenario runs on real brokers."""
    assert gitlab(tmp_path, command) == code
    assert read(TEMPLATE)[".plimsoll"]["artifacts"]["reports"]["junit"] == "$PLIMSOLL_RESULTS/junit.xml"
    found = outcomes((tmp_path / "plimsoll-results" / "junit.xml").read_text())
    assert found[f"plimsoll/plimsoll {command.split(maxsplit=1)[0]}"] == outcome
    assert suites <= {name.split("/")[0] for name in found}
