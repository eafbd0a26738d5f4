"""Tests of the JVM's class cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from history.java import Java
from spark import class_cache as module
from spark.class_cache import class_cache

OPTIONS = "-XX:+UseSerialGC"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Keep caches in a folder of the test."""
    monkeypatch.setattr(module, "FOLDER", tmp_path / "java")
    return tmp_path / "java"


def java(version: str = "25.0.4") -> Java:
    """Return a Java of this version, which nothing starts."""
    return Java(home=Path("/java"), version=version, vendor="vendor", released="2026-08-18")


def test_the_first_jvm_writes_the_cache_and_later_ones_read_it(folder, capsys):
    """Only the first block asks for a cache, and says so."""
    with class_cache(java(), OPTIONS) as first:
        Path(first.rpartition("=")[2].strip('"')).write_text("classes")
    with class_cache(java(), OPTIONS) as second:
        (cache,) = folder.iterdir()

    assert "-XX:AOTCacheOutput=" in first
    assert second.endswith(f' "-XX:AOTCache={cache}"')
    assert capsys.readouterr().err.count("once") == 1


@pytest.mark.parametrize(("version", "options"), [("25.0.5", OPTIONS), ("25.0.4", "-XX:+UseParallelGC")])
def test_another_jvm_has_another_cache(version, options, folder):
    """A cache is read only by the Java and the options that wrote it."""
    with class_cache(java(), OPTIONS) as first:
        Path(first.rpartition("=")[2].strip('"')).write_text("classes")
    with class_cache(java(version), options) as other:
        assert "-XX:AOTCacheOutput=" in other


def test_a_jvm_that_wrote_none_leaves_nothing(folder):
    """A killed JVM, and a judgement that failed, leave no file."""
    with class_cache(java(), OPTIONS):
        pass
    block = class_cache(java(), OPTIONS)
    Path(block.__enter__().rpartition("=")[2].strip('"')).write_text("cl")
    assert not block.__exit__(RuntimeError, RuntimeError(), None)
    assert [*folder.iterdir()] == []


def test_an_older_java_has_no_cache(folder):
    """Java 21 cannot write one in a single step."""
    with class_cache(java("21.0.9"), OPTIONS) as options:
        assert options == OPTIONS
    assert not folder.exists()
