"""The pages agree with each other and with the code: links, the index, the README, the map, dependencies, decisions."""

import re
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest

from campaigns import kinds
from clusters.scenario.scenario import load_scenario
from history.events import stage_events
from history.folder import RunFolder
from service.progress import Progress
from service.stages import stages
from tests.docs.pages import DOCS, PAGES, ROOT, anchors, blocks, page, rows, section

CODE = sorted(
    folder.name
    for folder in ROOT.iterdir()
    if folder.is_dir() and folder.name not in ("tests", "runs") and folder.name[0] != "." and any(folder.rglob("*.py"))
)
LARGEST_IMAGE_BYTES = 300_000
MACHINE_PATH = re.compile(r"(?<![\w.…])/(?:home|root|work|mnt|srv)/")


def folders() -> set[str]:
    """Return every folder with Python files, without the tests' ones."""
    return {str(file.parent.relative_to(ROOT)) for folder in CODE for file in (ROOT / folder).rglob("*.py")}


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


def test_pages_that_the_code_names_exist() -> None:
    """Every page in docs/ that a comment or message refers to exists."""
    settings = [*ROOT.glob("*.yaml"), *(ROOT / "clusters").rglob("*.yaml"), *(ROOT / "scenarios").glob("*.yaml")]
    files = [ROOT / "Makefile", *settings, *(file for folder in CODE for file in (ROOT / folder).rglob("*.py"))]
    named = {name for file in files for name in re.findall(r"docs/[\w/-]+\.md", file.read_text())}

    assert named - {str(path.relative_to(ROOT)) for path in DOCS.rglob("*.md")} == set()


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


def test_every_direct_dependency_has_a_reason() -> None:
    """Each dependency of pyproject.toml has one row with its reason, and removed ones have none."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = project["dependency-groups"]

    for title, wanted in (
        ("To run", project["project"]["dependencies"]),
        ("Optional", [*groups["notify"], *groups["workers"], *groups["postgres"], *groups["edn"]]),
        ("To test against S3", groups["s3"]),
        ("To develop", [wanted for wanted in [*groups["dev"], *groups["fuzz"]] if isinstance(wanted, str)]),
    ):
        names = {re.split(r"[^\w-]", requirement)[0].lower() for requirement in wanted}
        table = {row[0]: row[1] for row in rows(section(page("dev/dependencies.md"), title))[2:]}
        assert table.keys() == names
        assert all(table.values())


def test_decisions_are_numbered_and_have_their_three_parts() -> None:
    """Decisions are numbered without gaps, and are short with context, decision and consequences, unless replaced."""
    decisions = sorted((DOCS / "dev" / "adr").glob("*.md"))

    assert [int(path.name[:4]) for path in decisions] == list(range(1, len(decisions) + 1))
    for path in decisions:
        text = path.read_text()
        parts = re.findall(r"^## (\w+)$", text, re.MULTILINE)
        assert parts == ["Context", "Decision", "Consequences"] or re.search(
            r"\nReplaced by \[\d+\]\(\d{4}-.+\.md\)", text
        )
        assert text.startswith(f"# {int(path.name[:4])}. ")
        assert len(text.splitlines()) < 60


def test_the_changelog_begins_with_what_is_unreleased() -> None:
    """The changelog follows Keep a Changelog: Unreleased first, with only its kinds of change."""
    titles = re.findall(r"^(##+) (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)

    assert titles[0] == ("##", "[Unreleased]")
    kinds = {title for level, title in titles if level == "###"}
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert all(later != earlier for earlier, later in pairwise(titles))
