"""Describe a scenario on Airflow's page: purpose, phases, expected result, and how to read it."""

from __future__ import annotations

import math

import yaml

from campaigns.known_bugs.bugs import BUGS, Bug
from clusters.run.stages import stages
from clusters.scenario.scenario import Scenario
from clusters.scenario.steps.step import Step
from history.anomalies import ANOMALIES
from history.kafka_versions import affected_range
from service.progress import rounded
from service.stages import expected_s

_READING = """## How to read it

- The grid is the experiment's timeline: set up, one task per phase, drain, collect, tear down, judge, publish.
- A phase is red only if the harness failed. A wait that timed out is evidence, and the phase stays green.
- `judge` is green only if the verdict is `pass`. It is red for `fail` (a guarantee was violated) and for `unknown` (the
  evidence is insufficient). Its log shows the verdict in one sentence.
- Under Details, `judge` and `publish` link to the run's page and to its Data Docs.
- Only `resolve`, `judge` and `publish` are retried. Trigger the DAG again for a new run."""
ANY_DOC = f"""It runs a scenario that has no DAG of its own: one that you pass as JSON, or a prepared run's.

## Phases

`phases` lists them, and `phase` is mapped over them: one task after the other, named by the phase.

{_READING}"""


def doc_of(scenario: Scenario) -> str:
    """Return the DAG page's Markdown."""
    phases = [stage for stage in stages(scenario) if stage.phase]
    lines = [f"{scenario.why}", "", f"It takes about {rounded(expected_s(scenario))}.", "", "## Phases", ""]
    for number, (stage, phase) in enumerate(zip(phases, scenario.phases, strict=True), 1):
        lines.append(f"{number}. **{phase.name}**, about {rounded(stage.expected_s)}")
        lines += [f"    - `{as_written(step)}`" for step in phase.steps]
    return "\n".join([*lines, "", "## Expected result", "", expected(scenario), "", _READING])


def as_written(step: Step) -> str:
    """Return a step as YAML, in seconds and bytes."""
    settings = step.model_dump(exclude_defaults=True)[step.key]
    if list(settings) == [step.shorthand]:
        settings = settings[step.shorthand]
    text = yaml.safe_dump(settings, default_flow_style=True, sort_keys=False, width=math.inf)
    return f"{step.key}: {text.removesuffix(chr(10)).removesuffix('...').strip()}"


def display_name(scenario: Scenario) -> str:
    """Return a title: ``kafka_18991`` → KAFKA-18991, ``rolling_restart`` → Rolling restart."""
    bug = _bug(scenario)
    words = scenario.name.replace("_", " ").replace("isr", "ISR")
    if bug and words.upper() == bug.issue.replace("-", " "):
        return bug.issue
    return words[:1].upper() + words[1:]


def tags(scenario: Scenario) -> list[str]:
    """Return a scenario's kind and its faults."""
    kinds = ["positive control"] * bool(scenario.control) + ["known bug"] * bool(_bug(scenario))
    return ["scenario", *kinds, *sorted(set(scenario.faults))]


def expected(scenario: Scenario) -> str:
    """Return the expected verdict, and the versions for which it differs."""
    if scenario.control:
        return (
            f"`pass`: {ANOMALIES[scenario.control].control}, which its configuration permits. It is a positive "
            "control: if the judge does not detect that, the verdict is `unknown`."
        )
    bug = _bug(scenario)
    if bug is None:
        return "`pass`: every guarantee of its configuration was checked and held."
    ranges = affected_range(bug.issue)
    if "behaviour_change" in bug.shown_as:
        return f"`pass`; on Kafka {ranges} the run's page reports a change of behaviour, {bug.issue}: {bug.title}."
    link = f"[{bug.issue}](https://issues.apache.org/jira/browse/{bug.issue})"
    return f"`pass`, but `fail` on Kafka {ranges}, {link}: {bug.title}."


def _bug(scenario: Scenario) -> Bug | None:
    return next((bug for bug in BUGS if bug.scenario == scenario.name), None)
