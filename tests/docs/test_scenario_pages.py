"""The pages on the scenario language and its faults agree with the code."""

import re

import yaml

from clusters.kafka.servers import QUICK
from clusters.runtimes.runtime import OPTIONAL
from clusters.scenario.conditions import Condition
from clusters.scenario.groups import Group
from clusters.scenario.scenario import Cluster, Load, Scenario, Topic, parse_scenario, scenario_names
from clusters.scenario.steps.catalog import STEPS
from tests.docs.pages import blocks, page, rows, section

SCENARIO = """
name: page
why: The frame around a page's example.
cluster: {{brokers: 3}}
topics: {{orders: {{partitions: 2, replicas: [A, B, C]}}}}
load: {{topic: orders, group: {{members: 2}}}}
phases:
  - example:
{steps}
"""


def test_every_scenario_has_its_expected_result() -> None:
    """The page of those that ship has one row for each file in scenarios/."""
    names = dict.fromkeys(scenario_names(), 0)
    for row in rows(page("shipped-scenarios.md")):
        if row[0] in names:
            assert row[1]
            names[row[0]] += 1

    assert {name for name, times in names.items() if times != 1} == set()


def test_examples_of_the_scenario_language_parse() -> None:
    """Each example block parses as a scenario or a list of steps, and each step and condition has an example."""
    steps, conditions = set(), set()
    for block in blocks(page("scenarios.md") + page("faults.md"), "yaml"):
        whole = not block.startswith("- ")
        indented = "".join(f"      {line}\n" for line in block.splitlines())
        scenario = parse_scenario(block if whole else SCENARIO.format(steps=indented), "the example")
        for step in (step for phase in scenario.phases for step in phase.steps):
            steps.add(step.key)
            conditions |= {name for _, value in step if isinstance(value, Condition) for name in value.model_fields_set}

    assert steps == STEPS.keys()
    assert conditions == Condition.model_fields.keys()


def test_fields_of_the_scenario_language_are_explained() -> None:
    """Every field of a scenario, its cluster, its topics and its load; every field of a step in an example."""
    text = page("scenarios.md") + page("faults.md")
    fields = [*Scenario.model_fields, *Topic.model_fields, *Load.model_fields, *Group.model_fields]
    of_cluster = [f"cluster.{name}" for name in Cluster.model_fields]
    in_steps = {field.alias or name for step in STEPS.values() for name, field in step.model_fields.items()}
    shorthand = {step.shorthand for step in STEPS.values()}

    assert [name for name in [*fields, *of_cluster] if f"`{name}`" not in text] == []
    assert [name for name in in_steps - shorthand if not re.search(rf"\b{name}:", text)] == []


def test_broker_settings_that_are_not_kafkas_own_are_told() -> None:
    """The broker settings that differ from Kafka's defaults are on the page with their values."""
    text = page("scenarios.md")

    assert [each for each in map("=".join, QUICK.items()) if f"`{each}`" not in text] == []


def test_targets_in_the_table_are_targets() -> None:
    """Each target of the table can be the target of a step."""
    targets = [row[0] for row in rows(section(page("scenarios.md"), "Targets"))[2:]]
    for target in targets:
        steps = f"      - pause: {yaml.safe_dump(target).splitlines()[0]}"
        assert str(parse_scenario(SCENARIO.format(steps=steps), target).phases[0].steps[0].targets[0]) == target

    assert len(targets) == 15


def test_every_step_is_in_a_table_of_steps() -> None:
    """The step's row explains it and marks a fault. The table of needs has what it needs of the runtime."""
    text = page("faults.md")
    told = {
        name: row[0]
        for table in re.findall(r"^\| step \|.*?\n\n", text, re.DOTALL | re.MULTILINE)
        for row in rows(table)[2:]
        for name in re.findall(r"\w+", row[0].replace("(*fault*)", ""))
    }
    single = set(re.findall(r"^\*\*`(write|read)`\*\*", text, re.MULTILINE))
    needs = {
        name: set(re.findall(r"\w+", row[1])) for row in rows(section(text, "Needs"))[2:] for name in row[0].split(", ")
    }

    assert told.keys() | single == STEPS.keys()
    assert {name for name, cell in told.items() if f"{name} (*fault*)" in cell} == {
        name for name, step in STEPS.items() if step.fault
    }
    of_network = {"disconnect": {"network"}, "reconnect": {"network"}}  # or a hook
    parts = {name: needed for name, step in STEPS.items() if (needed := step.needs.intersection(OPTIONAL))}
    assert parts | of_network == {name: needed for name, needed in needs.items() if needed and name in STEPS}


def test_the_verification_of_every_fault_is_explained() -> None:
    """Each fault is in one row of the table."""
    table = rows(section(page("faults.md"), "How each fault is verified"))[2:]
    named = [name for row in table for name in row[0].partition(" (")[0].split(", ")]

    assert sorted(named) == sorted(name for name, step in STEPS.items() if step.fault)
    assert all(all(row) for row in table)
