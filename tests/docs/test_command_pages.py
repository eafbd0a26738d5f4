"""The pages agree with the commands: targets, options, variables and exit codes."""

import re
import subprocess

import pytest

from campaigns import kinds
from commands.app import app
from commands.main import variables_of
from history.exit_codes import MEANINGS
from tests.docs.pages import PAGES, ROOT, page, rows, section
from tests.docs.texts import helped

CAMPAIGNS = {kind.command for kind in map(kinds.of, kinds.names())}


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
        ("clean KAFKA=3.9.1", "make clean takes no KAFKA=; it takes ALL, CLUSTER, JSON."),
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
