"""From what was asked for to settings."""

from pathlib import Path

import pytest

from campaigns.asked import settings_of
from history.errors import BadInput


def test_short_names_win_over_the_file(tmp_path: Path) -> None:
    """A comparison's versions are given on the command line, and the rest in a file."""
    file = tmp_path / "compare.yaml"
    file.write_text("pairs: 4\naa_pairs: 3\nbase: 2.8.2\n")
    asked = {"file": file, "base": "3.0.2", "head": "3.1.2", "scenario": "steady", "pairs": None, "settings": {}}

    assert settings_of("compare", asked) == {
        "pairs": 4,
        "aa_pairs": 3,
        "base": "3.0.2",
        "head": "3.1.2",
        "scenarios": ["steady"],
    }


def test_settings_are_a_merge_patch() -> None:
    """What is not named stays as the kind's own file says; null drops a key."""
    usual = settings_of("nightly", {})
    patched = settings_of("nightly", {"settings": {"repetitions": 1, "retention": {"days": 3}, "webhook": None}})

    assert usual["repetitions"] != 1
    assert (patched["repetitions"], patched["retention"]["days"]) == (1, 3)
    assert patched["retention"]["runs"] == usual["retention"]["runs"]
    assert "webhook" not in patched


@pytest.mark.parametrize(
    ("text", "sentence"),
    [(None, "cannot be read"), ("pairs: [", "is no YAML"), ("- 1", "holds no mapping")],
)
def test_a_file_that_is_no_settings_is_bad_input(tmp_path: Path, text: str | None, sentence: str) -> None:
    """One sentence that says which file, and what was expected."""
    file = tmp_path / "x.yaml"
    if text is not None:
        file.write_text(text)

    with pytest.raises(BadInput, match=sentence):
        settings_of("capacity", {"file": file})
