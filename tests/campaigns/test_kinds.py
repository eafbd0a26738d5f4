"""Declarations of the kinds of campaigns, and settings from options and files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from campaigns import kinds, randomised
from clusters.paths import ROOT
from history.errors import BadInput
from tests.docs.texts import helped

OPTIONS = [(name, option) for name in kinds.names() for option in kinds.of(name).form]
# other settings that an option needs
BESIDE: dict[tuple[str, str], dict[str, Any]] = {
    ("bisect", "metric"): {"phase": "steady"},
    ("known_bugs", "kafka"): {"bugs": []},
    ("known_bugs", "mode"): {"bugs": [], "kafka": ["3.9.1"]},
    ("bisect", "phase"): {"scenario": "benchmark", "metric": "latency_p99_ms"},
    ("qualify", "cluster"): {"base": None, "head": None},
}


def test_every_package_declares_its_kind() -> None:
    """Every campaign package declares its kind under the package's name, with a page in docs/."""
    assert {"bisect", "known_bugs", "nightly"} <= set(kinds.names())
    assert {name: kinds.of(name).name for name in kinds.names()} == {name: name for name in kinds.names()}
    assert all((ROOT / kinds.of(name).docs_page).is_file() for name in kinds.names())
    with pytest.raises(BadInput, match="There is no kind of campaign 'hunt'; known: bisect, capacity"):
        kinds.of("hunt")


@pytest.mark.parametrize(("name", "option"), OPTIONS, ids=lambda each: getattr(each, "name", each))
def test_an_option_is_a_setting(name: str, option: kinds.Option, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each option's example and choices can be planned, and its default is the settings' default."""
    kind = kinds.of(name)
    monkeypatch.setattr("campaigns.bisect.campaign.made", lambda _settings, build: build)
    monkeypatch.setattr(randomised, "choose_runtime", lambda _: "process")  # whether Docker is here or not

    optional = {each.name for each in kind.options if each.default}
    needed = {name: value for name, value in kind.example.items() if name not in optional}

    def planned(**settings: Any) -> dict[str, Any]:
        campaign = kind.campaign.plan(
            kind.settings(needed) | BESIDE.get((name, option.name), {}) | settings,
            campaign_id="c",
            created_at="2026-01-01T00:00:00+00:00",
            seed=1,
        )
        return campaign.settings

    for value in [option.type(option.example), *option.choices]:
        written = kind.settings({option.name: value})
        assert option.key in planned(**written)
    if option.default:
        usual = planned()[option.key]
        assert option.type(option.default) == (",".join(usual) if isinstance(usual, list) else usual)


def test_help_of_make_tells_each_campaign_by_its_declaration() -> None:
    """A campaign's row in make's help is its declaration's help, and its first example's options as variables."""
    told = helped()
    for kind in map(kinds.of, kinds.names()):
        shown = [f"{name.upper()}={value}" for name, value in kind.example.items()]
        assert told[kind.command] == " ".join([f"{kind.help}:" if shown else kind.help, *shown])


def test_declarations_are_light() -> None:
    """Importing the declarations does not import statistics or the scenario language, for fast completion."""
    program = (
        "import sys; from campaigns import kinds; [kinds.of(name) for name in kinds.names()];"
        "print({'pydantic', 'scipy', 'pandas', 'pyarrow', 'clusters.scenario'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)

    assert done.stdout.strip() == "set()"


def test_only_correctness_runs_may_be_several_at_once() -> None:
    """All kinds upload; only those whose runs are not all benchmarks have a limit of runs. Neither is a setting."""
    recording = {name: [option.name for option in kinds.of(name).recording] for name in kinds.names()}

    assert (recording["compare"], recording["fuzz"]) == (["upload"], ["upload", "at_once"])
    assert {name for name, options in recording.items() if "at_once" in options} == {
        *("claims", "clients", "fuzz", "known_bugs", "nightly", "qualify", "soak")
    }
    assert not any(option in kinds.of(name).options for name in kinds.names() for option in kinds.of(name).recording)


# --- settings --------------------------------------------------------------------------------------


def test_options_win_over_the_file(tmp_path: Path) -> None:
    """Command-line options override the settings file."""
    file = tmp_path / "compare.yaml"
    file.write_text("pairs: 4\naa_pairs: 3\nbase: 2.8.2\n")
    options = {"base": "3.0.2", "head": "3.1.2", "scenario": "steady", "pairs": None}

    assert kinds.of("compare").settings(options, file=file) == {
        "pairs": 4,
        "aa_pairs": 3,
        "base": "3.0.2",
        "head": "3.1.2",
        "scenarios": "steady",
    }


def test_settings_are_a_merge_patch() -> None:
    """Settings are merged as a JSON merge patch into the kind's file; null removes a key."""
    usual = kinds.of("nightly").settings({})
    patch = {"repetitions": 1, "retention": {"days": 3}, "webhook": None}
    patched = kinds.of("nightly").settings({}, patch=patch)

    assert usual["repetitions"] != 1
    assert (patched["repetitions"], patched["retention"]["days"]) == (1, 3)
    assert patched["retention"]["runs"] == usual["retention"]["runs"]
    assert "webhook" not in patched


@pytest.mark.parametrize(
    ("text", "sentence"),
    [(None, "cannot be read"), ("pairs: [", "is no YAML"), ("- 1", "holds no mapping")],
)
def test_a_file_that_is_no_settings_is_bad_input(tmp_path: Path, text: str | None, sentence: str) -> None:
    """An invalid settings file is rejected in one sentence with the file and the expectation."""
    file = tmp_path / "x.yaml"
    if text is not None:
        file.write_text(text)

    with pytest.raises(BadInput, match=sentence):
        kinds.of("capacity").settings({}, file=file)


@pytest.mark.parametrize(
    ("kind", "settings", "sentence"),
    [
        (
            "compare",
            {"base": "3.9.1"},
            "--head is missing: the version to test: a release, or a folder or tarball of jars, such as --head=3.1.2.",
        ),
        (
            "compare",
            {"base": "3.9.0", "head": "3.9.1", "pairs": 1},
            "--pairs=1 is refused: one pair has no interval; take two or more, or 0 to measure the noise of this host "
            "alone. It takes: pairs of runs, one of base and one of head, such as --pairs=10.",
        ),
        (
            "known_bugs",
            {"bugs": ["1", "2"]},
            "--bugs=1,2 is refused: '1' is no bug of the list; known: ",
        ),
        (
            "compare",
            {"base": "3.9.0", "head": "3.9.1", "aa_pairs": 1},
            "Comparison: the settings are wrong: aa_pairs: Input should be greater than or equal to 2 (got 1); "
            "docs/comparison.md explains each.",
        ),
        (
            "qualify",
            {"base": "3.9.0", "head": "3.9.1", "tires": 2},
            "Qualification: the settings are wrong: tires is unknown, and the nearest setting is tries; ",
        ),
        (
            "qualify",
            {"From": "3.9.0", "head": "3.9.1"},
            "Qualification: the settings are wrong: From is unknown, and the nearest setting is from; ",
        ),
        (
            "qualify",
            {"base": "3.9.0", "head": "3.9.1", "colour": 2},
            "Qualification: the settings are wrong: colour is unknown; docs/qualify.md explains each.",
        ),
        (
            "qualify",
            {"base": "3.9.0", "head": 4.3},
            '--to=4.3 is refused: it is read as a number; write it in quotes: "4.3". It takes: the version to upgrade '
            "to: a release, or a folder or tarball of jars, such as --to=3.9.1.",
        ),
        (
            "qualify",
            {"base": "3.9.0", "head": True},
            "--to=True is refused: Input should be a valid string. It takes: ",
        ),
    ],
)
def test_a_wrong_setting_is_told_with_an_example(kind: str, settings: dict[str, Any], sentence: str) -> None:
    """An invalid setting is rejected under its option's name with an example, or by its place."""
    with pytest.raises(BadInput) as refused:
        kinds.of(kind).campaign.plan(settings, campaign_id="c", created_at="2026-01-01", seed=1)

    assert str(refused.value).startswith(sentence)


def test_a_file_may_name_a_setting_as_its_option_does(tmp_path: Path) -> None:
    """A settings file may use an option's name; both names of one setting are rejected."""
    file = tmp_path / "settings.yaml"
    file.write_text("{from: 3.8.0, to: 3.9.1, tries: 2}")
    told = kinds.of("qualify").settings({"tries": 5}, file=file)

    assert told == {"base": "3.8.0", "head": "3.9.1", "tries": 5}
    file.write_text("{from: 3.8.0, base: 3.8.1, head: 3.9.1}")
    with pytest.raises(BadInput, match="the settings have from and base, which are one; leave one out"):
        kinds.of("qualify").settings({}, file=file)
