"""YAML files by users are read, or rejected in one sentence."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from history.errors import BadInput
from history.yaml_files import parse, read_mapping


def test_a_mapping_is_read(tmp_path: Path) -> None:
    """A mapping is read, with text beyond ASCII."""
    file = tmp_path / "settings.yaml"
    file.write_bytes("pairs: 10\nwhy: „naïve“\n".encode())

    assert read_mapping(file, "The settings") == {"pairs": 10, "why": "„naïve“"}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"a: [", r"settings\.yaml is no YAML: .*line 1"),
        (b"- a", r"settings\.yaml holds no mapping; lines such as 'pairs: 10' are needed\.$"),
        (b"", "holds no mapping"),
        (b"a: \xff", r"^The settings .*settings\.yaml cannot be read: it is no text in UTF-8"),
    ],
)
def test_what_is_no_mapping_is_refused(tmp_path: Path, content: bytes, sentence: str) -> None:
    """Broken YAML, a list, an empty file and another encoding are rejected."""
    file = tmp_path / "settings.yaml"
    file.write_bytes(content)

    with pytest.raises(BadInput, match=sentence):
        read_mapping(file, "The settings")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """A folder and a missing file are rejected."""
    with pytest.raises(BadInput, match=r"^The fault mix .* cannot be read: Is a directory"):
        read_mapping(tmp_path, "The fault mix")
    with pytest.raises(BadInput, match="cannot be read: No such file or directory"):
        read_mapping(tmp_path / "none.yaml", "The fault mix")


def test_text_names_where_it_comes_from() -> None:
    """An error in text names its source, such as a scenario."""
    with pytest.raises(BadInput, match=r"^steady is no YAML: "):
        parse("a: [", "steady")


MULTIPLIED = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in pairwise("abcdefg")
)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("pairs: 1\npairs: 2\n", r"the key 'pairs' is there twice.*line 2"),
        ("a: {b: 1, b: 2}", "the key 'b' is there twice"),
        ("&a [*a]", "an alias refers to a node that contains it"),
        ("[" * 20_000, "nested too deeply"),
        ("day: 2024-02-30", "day is out of range"),
        (f"n: {'9' * 5_000}", "limit"),
        (MULTIPLIED, "more than 100000 entries"),
    ],
)
def test_what_no_reader_should_take_is_refused(text: str, why: str) -> None:
    """Duplicate keys, recursive aliases, deep nesting, and invalid dates and numbers are rejected."""
    with pytest.raises(BadInput, match=f"^x is no YAML: .*{why}"):
        parse(text, "x")


def test_an_alias_may_stand_beside_what_it_means() -> None:
    """An alias used twice, and a key in two mappings, are accepted."""
    assert parse("a: &a {n: 1}\nb: *a\nc: {<<: *a, n: 2}", "x") == {"a": {"n": 1}, "b": {"n": 1}, "c": {"n": 2}}


def test_a_file_without_end_is_refused(tmp_path: Path) -> None:
    """A device, or a file of more than a megabyte, is rejected."""
    (tmp_path / "large.yaml").write_text(f"a: 1 # {'x' * (1 << 20)}")

    for path in (Path("/dev/zero"), tmp_path / "large.yaml"):
        with pytest.raises(BadInput, match="has more than 1048576 bytes"):
            read_mapping(path, "The settings")
