"""Tests of clusters.kafka.properties."""

from pathlib import Path

import pytest

from clusters.kafka.properties import (
    environment_of,
    parse_properties,
    providers_of,
    read_properties,
    render,
    resolved,
)
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
    assert resolved(read_properties(client), client) == {"a": "s3", "b": "ann!", "c": "orders", "d": "${x}"}


def test_variables_that_are_referred_to_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """In both spellings; others are not, even with the same name in a file."""
    for name in ("USER_NAME", "PASSWORD", "OTHER"):
        monkeypatch.setenv(name, name.lower())
    jaas = 'username="${env:USER_NAME}" password="${env::PASSWORD}"'
    settings = {"sasl.jaas.config": jaas, "ssl.key.password": "${file:secrets:OTHER}"}
    assert environment_of(settings) == {"USER_NAME": "user_name", "PASSWORD": "password"}


def test_java_gets_the_providers_of_references() -> None:
    """Only those that are used; a text without a reference needs none."""
    assert providers_of({"a": "${env:NAME}", "b": "${vault:x:y}"}) == {
        "config.providers": "env",
        "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
    }
    assert providers_of({"a": "$env:NAME"}) == {}


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
        resolved(read_properties(client), client)


def test_a_configuration_file_has_a_line_per_setting() -> None:
    """A configuration file has one setting per line, sorted by name."""
    assert render({"b": "2", "a": "x=y"}) == "a=x=y\nb=2\n"


def test_letters_beyond_ascii_are_escaped() -> None:
    """Characters beyond ASCII are escaped, since Java reads properties files as ISO 8859-1."""
    assert render({"log.dirs": "/für Übungen/𝄞/data"}) == "log.dirs=/f\\u00fcr \\u00dcbungen/\\ud834\\udd1e/data\n"


def test_a_value_ends_with_its_line() -> None:
    """Backslashes, line ends and leading blanks in values are escaped; blanks within values are not."""
    jaas = 'a required\n  user_a="\\d";'
    assert render({"sasl.jaas.config": jaas}) == 'sasl.jaas.config=a required\\n  user_a="\\\\d";\n'
    assert render({"a": " b c"}) == "a=\\ b c\n"
    assert render({"a b": "c"}) == "a\\ b=c\n"


@pytest.mark.parametrize("text", [" b c", 'a\n  user="\\d"', "/für Übungen/𝄞", "${directory:/run:password}", "#=:!"])
def test_a_rendered_setting_is_read_back(text: str) -> None:
    """Names and values come back unchanged."""
    assert parse_properties(render({"name": text, "a b": "c"})) == {"name": text, "a b": "c"}
