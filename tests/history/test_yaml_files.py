"""What a person wrote as YAML is read, or refused in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from history.errors import BadInput
from history.yaml_files import parse, read_mapping


def test_a_mapping_is_read(tmp_path: Path) -> None:
    """Text beyond ASCII included."""
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
    """Broken YAML, a list, an empty file, and one in another encoding."""
    file = tmp_path / "settings.yaml"
    file.write_bytes(content)

    with pytest.raises(BadInput, match=sentence):
        read_mapping(file, "The settings")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """A folder, and nothing at all."""
    with pytest.raises(BadInput, match=r"^The fault mix .* cannot be read: Is a directory"):
        read_mapping(tmp_path, "The fault mix")
    with pytest.raises(BadInput, match="cannot be read: No such file or directory"):
        read_mapping(tmp_path / "none.yaml", "The fault mix")


def test_text_names_where_it_comes_from() -> None:
    """Such as a scenario's name."""
    with pytest.raises(BadInput, match=r"^steady is no YAML: "):
        parse("a: [", "steady")
