"""Tests of clusters.kafka.properties."""

from pathlib import Path

import pytest

from clusters.kafka.properties import parse_properties, read_properties
from history.errors import BadInput


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1\nb: 2\nc 3", {"a": "1", "b": "2", "c": "3"}),
        ("# a=1\n! b=2\n\n  c = 3", {"c": "3"}),
        ("a=one \\\n   two\nb=3", {"a": "one two", "b": "3"}),
        ("a=ends with \\\\\nb=3", {"a": "ends with \\", "b": "3"}),
        (r"a\:b=x\u00e9\ty", {"a:b": "xé\ty"}),
        ("a=1\na=2", {"a": "2"}),
        ("a", {"a": ""}),
    ],
)
def test_properties_are_read_as_java_reads_them(text: str, expected: dict[str, str]) -> None:
    """Separators, comments, continued lines, escapes and repeated keys mean what they mean in Java."""
    assert parse_properties(text) == expected


def test_references_to_secrets_are_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """File, directory and environment references are replaced by what they name."""
    (tmp_path / "secrets.properties").write_text("password=s3\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "user").write_text("ann")
    monkeypatch.setenv("TOPIC", "orders")
    client = tmp_path / "client.properties"
    client.write_text("a=${file:secrets.properties:password}\nb=${directory:folder:user}!\nc=${env::TOPIC}\nd=${x}\n")
    assert read_properties(client) == {"a": "s3", "b": "ann!", "c": "orders", "d": "${x}"}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("a=${vault:secret:password}", "provider vault; file, directory and env are supported"),
        ("a=${file:missing.properties:x}", "missing.properties cannot be read: No such file"),
        ("a=${env::MISSING_VARIABLE}", "names MISSING_VARIABLE, which does not exist"),
    ],
)
def test_an_unresolvable_reference_is_rejected(tmp_path: Path, line: str, says: str) -> None:
    """The message names the reference and what it lacks."""
    client = tmp_path / "client.properties"
    client.write_text(line)
    with pytest.raises(BadInput, match=says):
        read_properties(client)
