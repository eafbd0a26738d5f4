"""The pages agree with the code in names, tables, settings, commands and links."""

import re
import subprocess
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from campaigns import kinds
from clusters.kafka.servers import QUICK
from clusters.runtimes import capabilities
from clusters.runtimes.runtime import OPTIONAL
from clusters.scenario.conditions import Condition
from clusters.scenario.groups import Group
from clusters.scenario.scenario import Cluster, Load, Scenario, Topic, load_scenario, parse_scenario, scenario_names
from clusters.scenario.steps.catalog import STEPS
from commands.app import app
from commands.main import variables_of
from history.anomalies import SEVERITY
from history.events import stage_events
from history.exit_codes import MEANINGS
from history.folder import RunFolder
from history.tables import IMPORTED, JUDGED, RECORDED
from judge.checks.allowed import ALLOWED, LOSS
from operators.campaign_dag import COMMON
from operators.progress import Progress
from operators.stages import stages
from tests.docs.texts import helped

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
CODE = sorted(
    folder.name
    for folder in ROOT.iterdir()
    if folder.is_dir() and folder.name not in ("tests", "runs") and folder.name[0] != "." and any(folder.rglob("*.py"))
)
PAGES = sorted(
    page
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *DOCS.rglob("*.md")]
    if page.parent.name != "known-bugs"  # recorded runs in their own words
)
CAMPAIGNS = {kind.command for kind in map(kinds.of, kinds.names())}
LARGEST_IMAGE_BYTES = 300_000
MACHINE_PATH = re.compile(r"(?<![\w.…])/(?:home|root|work|mnt|srv)/")
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


def page(name: str) -> str:
    """Return the text of a page in docs/."""
    return (DOCS / name).read_text()


def blocks(text: str, language: str) -> list[str]:
    """Return the fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def rows(text: str) -> list[list[str]]:
    """Return the cells of every table row, without backticks."""
    return [
        [cell.strip().replace("`", "") for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|")
    ]


def section(text: str, title: str) -> str:
    """Return the text of a section, up to the next heading."""
    found = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#|\Z)", text, re.DOTALL | re.MULTILINE)
    assert found, f"there is no section {title!r}"
    return found[1]


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub generates them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def folders() -> set[str]:
    """Return every folder with Python files, without the tests' ones."""
    return {str(file.parent.relative_to(ROOT)) for folder in CODE for file in (ROOT / folder).rglob("*.py")}


# --- what all pages share --------------------------------------------------------------------------


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    """Every relative link has its file, and every anchor its heading."""
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        if target.startswith("https://"):
            continue
        name, _, anchor = target.partition("#")
        file = (path.parent / name).resolve() if name else path
        assert file.exists(), f"{path.name} links to {target}"
        assert not anchor or anchor in anchors(file.read_text()), f"{path.name} links to {target}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_know_no_machine(path: Path) -> None:
    """Pages contain no path or address of the machine of their author; a claim about other tools has its date."""
    text = path.read_text()

    assert not MACHINE_PATH.search(text)
    assert "no other tool" not in text.lower() or re.search(r"no other tool[^.]*\(20\d\d-\d\d\)", text, re.IGNORECASE)


@pytest.mark.parametrize(
    ("text", "is_one"),
    [("see /home/me/runs", True), ("see …/runs/x", False), ("cd /srv/checkout", True), ("under docs/adr/", False)],
)
def test_a_machine_path_is_told_from_one_of_the_project(text: str, is_one: bool) -> None:
    """The pattern matches paths of a machine, and not those of the project."""
    assert bool(MACHINE_PATH.search(text)) == is_one


def test_commands_exist() -> None:
    """Every make target on a page is in the Makefile or a campaign."""
    targets = {*re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE), *CAMPAIGNS}
    named = {name for path in PAGES for name in re.findall(r"(?:`|^)make ([a-z-]+)", path.read_text(), re.MULTILINE)}

    assert named - targets == set()
    assert {"demo", "test", "run", "judge", "up", "down"} <= named


def shown(text: str) -> set[tuple[str, str]]:
    """Return (target, variable) of every make command in a text."""
    lines = re.findall(r"(?:`|^)make ([a-z-]+)((?: [^`\n]+)?)", text, re.MULTILINE)
    return {(target, name) for target, more in lines for name in re.findall(r"\b([A-Z_]+)=", more)}


def refused(pairs: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return the pairs whose variable the target does not accept."""
    return {(target, name) for target, name in pairs if name not in variables_of("run" if target == "demo" else target)}


def test_commands_take_what_they_are_shown_with() -> None:
    """Every variable that a page or make's help shows for a make target is one of the target's."""
    pages = {pair for path in PAGES for pair in shown(path.read_text())}
    of_help = {(target, name) for target, text in helped().items() for name in re.findall(r"\b([A-Z_]+)=", text)}

    assert refused(pages | of_help) == set()
    assert {("compare", "BASE"), ("soak", "MINUTES")} <= pages
    assert {("known-bugs", "TRIES"), ("fuzz", "SCHEDULES")} <= of_help
    assert refused({("run", "KAFAK"), ("run", "KAFKA")}) == {("run", "KAFAK")}


def test_options_of_commands_exist() -> None:
    """Every option that a page shows for a plimsoll command is one of the command's."""
    commands = {
        (command, option)
        for path in PAGES
        for command, more in re.findall(r"(?:`|^|/)plimsoll ([a-z-]+)((?: [^`\n]+)?)", path.read_text(), re.MULTILINE)
        for option in re.findall(r"(?<!\S)(--[a-z-]+)", more.partition("#")[0])
        if option not in ("--help", "--json")
    }
    options = {command: {each.option for each in variables_of(command).values()} for command, _ in commands}

    assert {(command, option) for command, option in commands if option not in options[command]} == set()
    assert {("run", "--kafka"), ("compare", "--pairs"), ("fuzz", "--schedules")} <= commands


def test_every_command_has_a_target() -> None:
    """Every command has a make target with a line of help; one rule calls all but three."""
    text = (ROOT / "Makefile").read_text()
    called = dict(re.findall(r"^([a-z-]+):.*\n\t@.*\$\(PLIMSOLL\) ([a-z-]+)$", text, re.MULTILINE))
    named = re.findall(r"^COMMANDS := (.+)$", text, re.MULTILINE)[0]
    commands = {*named.replace("$(KINDS)", "").split(), *CAMPAIGNS}

    assert {info.name for info in app.registered_commands} == commands - {"demo"}
    assert called == {"demo": "run", "down": "down", "clean": "clean"}
    assert "STARTED := $(filter-out demo down clean,$(COMMANDS))\n" in text
    assert commands <= helped().keys()


def test_exit_codes_stand_on_one_page() -> None:
    """Exit codes are listed on one page alone, each with the code's meaning."""
    told = {int(row[0]): row[1] for row in rows(section(page("commands.md"), "Exit codes"))[2:]}

    assert told == MEANINGS
    assert [path.name for path in PAGES if "| exit code |" in path.read_text()] == []


def test_options_of_a_campaign_are_on_its_page() -> None:
    """A campaign's page has each of its options: by option, make variable or setting."""
    for kind in map(kinds.of, kinds.names()):
        text = (ROOT / kind.docs_page).read_text()
        names = {o.name: (f"--{o.name.replace('_', '-')}", f"`{o.key}`", f"{o.name.upper()}=") for o in kind.options}
        missing = [name for name, spelled in names.items() if not any(each in text for each in spelled)]
        assert missing == [], kind.docs_page


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("lint RATE=1", "make lint takes no RATE=; it takes no variables."),
        ("RATE=1", "make help takes no RATE=; it takes no variables."),
        ("run lint KAFKA=3.9.1", "make lint takes no KAFKA=; it takes no variables."),
        ("run KAFAK=3.9.1", "make run takes no KAFAK=; did you mean KAFKA=? It takes SCENARIO, KAFKA,"),
        ("clean KAFKA=3.9.1", "make clean takes no KAFKA=; it takes ALL, JSON."),
        ("lint", ""),
        ("setup PYTHON=python3", ""),
    ],
)
def test_a_variable_that_would_do_nothing_is_refused(command: str, says: str) -> None:
    """An unused make variable is rejected by name before any command, also if another target accepts it."""
    dry = [] if says and "lint" not in command else ["-n"]
    made = [*dry, "--old-file", ".venv/.ready", *command.split()]
    done = subprocess.run(["make", *made], cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == (2 if says else 0)
    assert says in done.stderr


def test_pages_that_the_code_names_exist() -> None:
    """Every page in docs/ that a comment or message refers to exists."""
    settings = [*ROOT.glob("*.yaml"), *(ROOT / "clusters").rglob("*.yaml"), *(ROOT / "scenarios").glob("*.yaml")]
    files = [ROOT / "Makefile", *settings, *(file for folder in CODE for file in (ROOT / folder).rglob("*.py"))]
    named = {name for file in files for name in re.findall(r"docs/[\w/-]+\.md", file.read_text())}

    assert named - {str(path.relative_to(ROOT)) for path in DOCS.rglob("*.md")} == set()


# --- README ----------------------------------------------------------------------------------------


def test_every_scenario_has_its_expected_result() -> None:
    """The page of those that ship has one row for each file in scenarios/."""
    names = dict.fromkeys(scenario_names(), 0)
    for row in rows(page("shipped-scenarios.md")):
        if row[0] in names:
            assert row[1]
            names[row[0]] += 1

    assert {name for name, times in names.items() if times != 1} == set()


def test_the_demo_output_is_what_a_run_says(tmp_path: Path) -> None:
    """The README quotes announced steps in the words, and with the times, that a run uses."""
    scenario = load_scenario("follower_lag_then_leader_kill")
    run = RunFolder(tmp_path)
    said: list[str] = []
    for stage in stages(scenario)[1:]:  # the first makes the run's folder
        with stage_events(run.stages, stage.name):
            pass
    progress = Progress(stages(scenario), run, said.append)
    progress.begin(scenario)
    progress.look()
    spoken = {line.strip().partition("] ")[2] for line in said}

    output = next(block for block in blocks((ROOT / "README.md").read_text(), "") if block.startswith("[00:00]"))
    quoted = {line.partition("] ")[2] for line in output.splitlines() if "(about" in line or "in all" in line}
    assert quoted
    assert quoted <= spoken
    assert output.splitlines()[-1] == "verdict: pass"


def test_images_are_small() -> None:
    """Images are small, so that a clone is quick."""
    images = list((DOCS / "images").iterdir())

    assert images
    assert [image.name for image in images if image.stat().st_size > LARGEST_IMAGE_BYTES] == []


# --- the map ---------------------------------------------------------------------------------------


def test_the_map_lists_every_folder_with_code_once() -> None:
    """Each has one bullet, and no other folder has one; the kinds of campaigns share one."""
    named = re.findall(r"^- `([\w/]+)`: .+$", section(page("dev/map.md"), "Folders"), re.MULTILINE)

    assert sorted(named) == sorted(folders() - {f"campaigns/{name}" for name in kinds.names()})
    assert {"clusters/runtimes/docker", "dags"} <= folders()


def test_every_page_is_in_an_index() -> None:
    """Pages for users are linked from docs/README.md, pages for developers from the map."""
    index, the_map = DOCS / "README.md", DOCS / "dev" / "map.md"
    linked = {
        (start.parent / name).resolve()
        for start in (index, the_map)
        for name in re.findall(r"\]\(([\w./-]+\.md)\)", start.read_text())
    }

    assert set(DOCS.rglob("*.md")) - linked - {index} == set()
    assert (DOCS / "troubleshoot.md") in linked


def test_every_page_says_first_what_it_is_for() -> None:
    """Every page begins with a title and a sentence, before any table or example."""
    for path in DOCS.glob("*.md"):
        title, blank, sentence, *_ = path.read_text().splitlines()
        assert title.startswith("# "), path.name
        assert blank == "", path.name
        assert re.match(r"[A-Z`*\d]", sentence), path.name


# --- scenarios -------------------------------------------------------------------------------------


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
    assert {name: set(step.needs) for name, step in STEPS.items() if step.needs} == {
        name: needed for name, needed in needs.items() if needed and name in STEPS
    }


def test_the_verification_of_every_fault_is_explained() -> None:
    """Each fault is in one row of the table."""
    table = rows(section(page("faults.md"), "How each fault is verified"))[2:]
    named = [name for row in table for name in row[0].partition(" (")[0].split(", ")]

    assert sorted(named) == sorted(name for name, step in STEPS.items() if step.fault)
    assert all(all(row) for row in table)


# --- the run folder --------------------------------------------------------------------------------


TABLES = {**RECORDED, "imported": IMPORTED, **JUDGED}


@pytest.mark.parametrize("name", [name for name in TABLES if not name.startswith("timeline_")])
def test_every_column_is_explained(name: str) -> None:
    """A table's columns are listed in order, with type and nullability."""
    schema = TABLES[name]
    told = [
        [column, kind]
        for names, types, *_ in rows(section(page("run-folder.md"), f"`{name}`"))[2:]
        for column, kind in zip(names.split(", "), types.split(", "), strict=True)
    ]
    kinds = [str(field.type).replace("list<item: int32>", "list of int32") for field in schema]
    ends = ["?" if field.nullable else "" for field in schema]

    assert told == [[name, kind + end] for name, kind, end in zip(schema.names, kinds, ends, strict=True)]


def test_every_table_is_named() -> None:
    """Every table is named; those for the figures are named without columns."""
    text = page("run-folder.md")

    assert [name for name in TABLES if f"`{name}`" not in text] == []


@pytest.mark.parametrize(
    ("file", "folders", "known"),
    [
        ("events.jsonl", ("clusters", "imports"), {"inject", "injected", "capture", "error"}),
        ("stages.jsonl", ("operators", "campaigns"), {"stage_started", "stage_ended", "judging", "waiting"}),
    ],
)
def test_every_kind_of_event_is_explained(file: str, folders: tuple[str, ...], known: set[str]) -> None:
    """Every kind of event in the code is in the table of its file; those of ``history`` are in one of the two."""
    text = page("run-folder.md")
    tables = {name: rows(section(text, f"`{name}`"))[2:] for name in ("events.jsonl", "stages.jsonl")}
    told = {name: {kind for row in table for kind in row[0].split(", ")} for name, table in tables.items()}

    assert known <= told[file]
    assert kinds_written(*folders) - told[file] == set()
    assert kinds_written("history") <= told["events.jsonl"] | told["stages.jsonl"]


def kinds_written(*folders: str) -> set[str]:
    """Return the kinds of events that the code of these folders writes."""
    return {
        kind
        for folder in folders
        for file in (ROOT / folder).rglob("*.py")
        for kind in re.findall(r'(?:\.add|_record(?:_fault)?|_prove)\(\s*"(\w+)"', file.read_text())
    }


# --- verdicts --------------------------------------------------------------------------------------


def test_every_anomaly_is_explained_with_its_severity() -> None:
    """The page on verdicts has those of records that the final drain did not return, that on the checks all others."""
    unread = [tuple(row[:2]) for row in rows(section(page("verdicts.md"), "Loss"))[2:]]
    others = re.findall(r"^### (\w+) \((S\d)\)$", page("checks.md").partition("## Anomalies")[2], re.MULTILINE)

    assert unread == list(SEVERITY.items())[: len(unread)]
    assert {**dict(unread), **dict(others)} == SEVERITY


def test_findings_that_violate_no_guarantee_are_explained() -> None:
    """The page explains the cases that judge/checks/behaviour.py adds to the anomalies."""
    source = (ROOT / "judge" / "checks" / "behaviour.py").read_text()
    added = set(re.findall(r'_cases\(\s*"(\w+)"', source))

    assert set(re.findall(r"^- `(\w+)`", section(page("verdicts.md"), "Anomalies"), re.MULTILINE)) == added


def test_every_rule_of_what_is_permitted_has_a_row() -> None:
    """The rows have the anomalies of the rules, in their order; the verdict gives the reason."""
    table = rows(section(page("verdicts.md"), "What must hold follows from the configuration"))[2:]

    loss = ", ".join(LOSS)
    assert f"Loss stands for {loss}" in " ".join(page("verdicts.md").replace("`", "").split())
    assert [row[0].replace("loss", loss) for row in table] == [", ".join(rule.anomalies) for rule in ALLOWED]
    assert all(all(row) for row in table)


# --- runtimes, Airflow, dependencies, decisions ------------------------------------------------------


def test_capabilities_are_those_of_the_runtimes() -> None:
    """The table shows "yes" where a runtime has a capability, and "no" where it does not."""
    head, _, *told = rows(section(page("runtimes.md"), "What each can do"))

    assert {row[0]: row[1:3] for row in told} == {
        name: ["yes" if name in capabilities(runtime) else "no" for runtime in head[1:3]] for name in OPTIONAL
    }


def test_every_task_is_explained() -> None:
    """The table has a run's tasks in addition to its phases."""
    told = {row[0] for row in rows(section(page("airflow.md"), "The DAGs"))[2:]}

    names = {stage.name for stage in stages(load_scenario("steady")) if not stage.phase}

    assert {name for name in told if not name.startswith("phase_")} == {*names, "watcher"}


def test_every_parameter_is_explained() -> None:
    """The table has the params of dags/chaos.py."""
    source = (ROOT / "dags" / "chaos.py").read_text()
    params = re.findall(r'^    "(\w+)": Param\(', source, re.MULTILINE)

    assert [row[0] for row in rows(section(page("airflow.md"), "Parameters"))[2:]] == params
    assert params


def test_every_parameter_of_a_campaign_is_explained() -> None:
    """The table has the parameters that all campaigns share; the others are options, which a kind's page explains."""
    assert [row[0] for row in rows(section(page("airflow.md"), "Of a campaign"))[2:]] == list(COMMON)


def test_every_direct_dependency_has_a_reason() -> None:
    """Each dependency of pyproject.toml has one row with its reason, and removed ones have none."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = project["dependency-groups"]

    for title, wanted in (
        ("To run", project["project"]["dependencies"]),
        ("Optional", [*groups["notify"], *groups["postgres"], *groups["edn"]]),
        ("To test against S3", groups["s3"]),
        ("To develop", [wanted for wanted in [*groups["dev"], *groups["fuzz"]] if isinstance(wanted, str)]),
    ):
        names = {re.split(r"[^\w-]", requirement)[0].lower() for requirement in wanted}
        table = {row[0]: row[1] for row in rows(section(page("dev/dependencies.md"), title))[2:]}
        assert table.keys() == names
        assert all(table.values())


def test_decisions_are_numbered_and_have_their_three_parts() -> None:
    """Decisions are numbered without gaps, and are short with context, decision and consequences."""
    decisions = sorted((DOCS / "dev" / "adr").glob("*.md"))

    assert [int(path.name[:4]) for path in decisions] == list(range(1, len(decisions) + 1))
    for path in decisions:
        text = path.read_text()
        assert re.findall(r"^## (\w+)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"]
        assert text.startswith(f"# {int(path.name[:4])}. ")
        assert len(text.splitlines()) < 60


def test_the_changelog_begins_with_what_is_unreleased() -> None:
    """The changelog follows Keep a Changelog: Unreleased first, with only its kinds of change."""
    titles = re.findall(r"^(##+) (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)

    assert titles[0] == ("##", "[Unreleased]")
    kinds = {title for level, title in titles if level == "###"}
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert all(later != earlier for earlier, later in pairwise(titles))
