"""A campaign's plan is written once and never changed."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from campaigns.campaign import Campaign, CampaignFolder, Item, check_name
from history.errors import BadInput

ITEM = Item(name="pair-1-base", scenario="steady", kafka="3.9.1", labels={"role": "base"})
PLAN = Campaign(campaign_id="c1", kind="compare", created_at="2026-01-01", seed=1, settings={"pairs": 1}, items=[ITEM])


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Below the folder of its kind; writing the same again changes nothing."""
    folder = CampaignFolder.of(tmp_path, "compare", "c1")
    folder.write_plan(PLAN)
    folder.write_plan(PLAN)

    assert folder.read_plan() == PLAN
    assert folder.plan == tmp_path / "compare" / "c1" / "campaign.json"


def test_a_plan_of_an_earlier_version_is_resumed(tmp_path: Path) -> None:
    """Which of its runs may have others beside them is no part of the question."""
    folder = CampaignFolder.of(tmp_path, "nightly", "c1")
    folder.write_plan(PLAN)
    folder.write_plan(PLAN.model_copy(update={"items": [ITEM.model_copy(update={"at_once": True})]}))

    assert folder.read_plan() == PLAN


def test_another_plan_is_refused(tmp_path: Path) -> None:
    """What was fixed before the first run stays fixed."""
    folder = CampaignFolder.of(tmp_path, "compare", "c1")
    folder.write_plan(PLAN)

    with pytest.raises(BadInput, match="never changes, give a new name"):
        folder.write_plan(PLAN.model_copy(update={"seed": 2}))
    assert folder.read_plan() == PLAN


@pytest.mark.parametrize(
    ("text", "sentence"), [(None, "campaign.json is missing"), ("{}", "is no plan of this format")]
)
def test_what_is_no_campaign_is_bad_input(tmp_path: Path, text: str | None, sentence: str) -> None:
    """One sentence each."""
    folder = CampaignFolder(tmp_path)
    if text is not None:
        folder.plan.write_text(text)

    with pytest.raises(BadInput, match=sentence):
        folder.read_plan()


@pytest.mark.parametrize(
    "name",
    [
        "..",
        ".",
        "../x",
        "a/b",
        "/etc",
        "",
        "; touch x",
        "$(touch x)",
        "a\nb",
        ".hidden",
        "-rf",
        "a..b",
        "größe",
        "a" * 101,
    ],
)
def test_a_name_is_no_way_out_of_the_site(name: str) -> None:
    """Nor an option of a command; dots and dashes within one are in order."""
    with pytest.raises(BadInput, match="is no name of a folder"):
        check_name(name)
    check_name("nightly-2026.03.01")


@pytest.mark.parametrize("name", ["..", "../x", "a/b", "; touch x", "A"])
def test_an_item_has_a_plain_name(name: str) -> None:
    """It becomes part of a task's name and of a file's."""
    with pytest.raises(ValidationError, match="name"):
        Item(name=name, scenario="steady", kafka="3.9.1")
