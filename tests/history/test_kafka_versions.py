"""Kafka's versions, and the features and bugs that depend on them."""

from __future__ import annotations

import pytest

from history.kafka_versions import AFFECTED, METADATA_LEVELS, RELEASES, Span, Version, affected, affected_range, has


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("3.9.1", (3, 9, 1)),
        ("4.10.2-SNAPSHOT", (4, 10, 2)),
        ("3.9", (3, 9, 0)),
        ("3.7-IV4", (3, 7, 0)),
        ("v3.6.1", (3, 6, 1)),
    ],
)
def test_a_version_is_its_numbers(text: str, parts: tuple[int, int, int]) -> None:
    """A version is its numbers; a minor release is its first patch."""
    assert Version.parse(text) == parts


@pytest.mark.parametrize("text", ["", "trunk", "4", "IV-1"])
def test_what_has_no_number_is_no_version(text: str) -> None:
    """Text without version numbers is rejected with an example."""
    with pytest.raises(ValueError, match=r"is no version such as 3\.9\.1"):
        Version.parse(text)


def test_versions_compare_by_numbers() -> None:
    """Versions are compared by numbers, so that 4.10 is after 4.9, and printed as Kafka prints them."""
    assert Version(4, 9, 3) < Version(4, 10)
    assert (str(Version(3, 9)), Version(3, 9, 1).minor_release) == ("3.9.0", "3.9")


def test_a_span_ends_before_its_second_version() -> None:
    """A span ends before its second version, or has no end."""
    ended, lasting = Span(Version(3, 4), Version(3, 4, 1)), Span(Version(3, 4))

    assert [Version(3, 3, 2) in ended, Version(3, 4) in ended, Version(3, 4, 1) in ended] == [False, True, False]
    assert [Version(3, 3, 2) in lasting, Version(9, 0) in lasting] == [False, True]


@pytest.mark.parametrize(
    ("feature", "version", "there"),
    [
        ("strict_min_isr", "2.8.2", False),
        ("strict_min_isr", "3.6.2", False),
        ("strict_min_isr", "3.7.0", True),
        ("strict_min_isr", "trunk", True),
        ("kraft", "3.2.3", False),
        ("kraft", "3.3.0", True),
        ("zookeeper", "3.9.1", True),
        ("zookeeper", "4.0.0", False),
        ("zookeeper", "trunk", False),
        ("elr", "3.9.1", False),
        ("elr", "4.0.0", True),
    ],
)
def test_a_feature_begins_and_ends_with_a_version(feature: str, version: str, there: bool) -> None:
    """A feature begins and ends with a version; text without a number counts as newest."""
    assert has(feature, version) is there


@pytest.mark.parametrize(
    ("version", "found"),
    [("2.8.2", True), ("3.3.2", True), ("3.3.3", False), ("3.4.0", True), ("3.4.1", False), ("trunk", False)],
)
def test_a_bug_is_in_some_versions(version: str, found: bool) -> None:
    """A bug that was fixed in two release lines has two spans; a version without a number is not affected."""
    assert affected("KAFKA-14704", version) is found


@pytest.mark.parametrize(
    ("version", "mode", "found"),
    [
        ("3.5.2", "zookeeper", True),
        ("3.5.2", "kraft", False),
        ("3.5.2", None, True),
        ("3.6.0", "kraft", True),
        ("4.4.0", "kraft", True),
        ("3.2.3", None, False),
    ],
)
def test_a_bug_may_be_in_one_mode_alone(version: str, mode: str | None, found: bool) -> None:
    """A bug can be limited to one mode; without a known mode either counts."""
    assert affected("HW-WAITS", version, mode) is found


def test_a_range_names_the_mode() -> None:
    """A range of affected versions names the mode, unless it is both."""
    assert affected_range("KAFKA-14704") == "from 2.8.0 to before 3.3.3, and from 3.4.0 to before 3.4.1"
    assert affected_range("HW-WAITS") == "from 3.6.0 on with KRaft, and from 3.3.0 to before 4.0.0 with ZooKeeper"


def test_tables_are_in_order() -> None:
    """Metadata levels grow with their releases, and each such release is known."""
    assert sorted(METADATA_LEVELS) == list(METADATA_LEVELS)
    assert sorted(METADATA_LEVELS.values()) == list(METADATA_LEVELS.values())
    assert METADATA_LEVELS.keys() <= set(RELEASES)
    assert all(span.before is None or span.since < span.before for spans in AFFECTED.values() for span in spans)
