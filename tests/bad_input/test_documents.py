"""Bad inputs: a small sample, each rejected in one sentence."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from history.errors import BadInput
from tests.bad_input import documents as bad_input
from tests.bad_input.documents import attempt, count
from tests.bad_input.groups import Group, by_hand, groups
from tests.bad_input.mutations import VALUES, Input, changed, places
from tests.bad_input.sentences import wrong_with

GROUPS = {group.kind: group for group in groups()}
HERE = {"scenario": 12, "nightly": 4, "capacity": 4}  # how many mutations are drawn, in addition to all inputs by hand


@pytest.mark.parametrize("kind", GROUPS)
def test_bad_input_is_refused_in_one_sentence(kind: str) -> None:
    """For each kind, the valid document passes; all inputs by hand and the drawn mutations are rejected cleanly."""
    assert count(GROUPS[kind], HERE.get(kind, 6)).wrong == []


_TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | _TEXT | st.dates()
_VALUES = st.recursive(_SCALARS, lambda inner: st.lists(inner) | st.dictionaries(_TEXT, inner), max_leaves=5)


@pytest.mark.parametrize("kind", ["scenario", "nightly", "capacity", "waivers"])
@settings(max_examples=15)
@given(data=st.data())
def test_whatever_stands_in_one_place_is_accepted_or_refused_in_one_sentence(kind: str, data: st.DataObject) -> None:
    """Any value at any place of a valid document is accepted, or rejected in one sentence."""
    document = yaml.safe_load(data.draw(st.sampled_from(sorted(GROUPS[kind].valid.values()))))
    place = data.draw(st.sampled_from(list(places(document))))
    value = data.draw(st.sampled_from(list(VALUES.values())) | _VALUES)
    told = yaml.safe_dump(changed(document, place, value), allow_unicode=True)
    _, wrong = attempt(GROUPS[kind], Input(f"{place} is {value!r}", told.encode()))

    assert wrong is None


def test_there_are_enough_of_them_by_hand() -> None:
    """At least 300 different inputs are written by hand, each for an existing kind."""
    told = [(kind, yaml.safe_dump(each)) for kind, of in by_hand().items() for each in of["bad"]]

    assert len(set(told)) == len(told) >= 300
    assert by_hand().keys() <= GROUPS.keys()


def group(feed: object) -> Group:
    """Return a group of one document."""
    return Group("x", {"x": "x"}, feed, lambda text: iter([Input("y", b"y")]))  # type: ignore[arg-type]


def refused(sentence: str) -> Group:
    """Return a group that rejects every input."""

    def feed(folder: Path, content: bytes) -> None:
        raise BadInput(sentence)

    return group(feed)


def test_what_is_accepted_is_no_bad_input() -> None:
    """An accepted mutation counts as valid; an accepted input by hand is an error."""
    counted = count(group(lambda folder, content: None))

    assert (counted.inputs, counted.valid, counted.wrong) == (0, 1, [])


def test_a_crash_is_told() -> None:
    """An exception other than the group's is reported as a crash."""

    def feed(folder: Path, content: bytes) -> None:
        raise KeyError("x")

    assert attempt(group(feed), Input("x", b"")) == (True, "crashed: KeyError: 'x'")


def test_what_takes_too_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """An input that takes too long is reported as a crash."""

    def feed(folder: Path, content: bytes) -> None:
        while True:
            pass

    monkeypatch.setattr(bad_input, "INPUT_LIMIT_S", 0.05)

    assert attempt(group(feed), Input("x", b"")) == (True, "crashed: HungError: not done after 0.05 s")


def test_what_is_started_is_told() -> None:
    """A process that starts before the rejection is reported."""

    def feed(folder: Path, content: bytes) -> None:
        subprocess.run(["true"], check=True)
        raise BadInput("No.")

    assert attempt(group(feed), Input("x", b""))[1] == "started something: subprocess.Popen"


def test_a_run_folder_that_is_left_is_told() -> None:
    """A run folder left by a rejected history is reported."""

    def feed(folder: Path, content: bytes) -> None:
        (folder / "runs" / "one").mkdir(parents=True)
        raise BadInput("No.")

    assert attempt(group(feed), Input("x", b"")) == (True, "left a run folder")


def test_a_sentence_must_say_what_it_should() -> None:
    """A sentence ends with a full stop, is one short line, and contains the expected words."""
    assert wrong_with("rate: -1 is no rate.", ("no rate",)) is None
    assert wrong_with("rate: -1 is no rate.", ("no size",)) == "does not say 'no size'"
    assert wrong_with("rate: -1 is no rate") == "ends without a full stop"
    assert wrong_with("rate\nis wrong.") == "has '\\n' in it"
    assert wrong_with(f"{'x' * 3_000}.") == "has 3001 characters"
    assert attempt(refused("No."), Input("x", b"", ("Yes",))) == (True, "does not say 'Yes': No.")
