"""Which Java is taken, and what the shim around the wheel's Java passes on."""

import subprocess

from history import java


def a_java(folder, says):
    """A stand-in for bin/java that prints a version banner and nothing else."""
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    path.chmod(0o755)
    return path


def test_a_suitable_java_home_is_taken(tmp_path, monkeypatch):
    """JAVA_HOME wins when it is a Java 21."""
    a_java(tmp_path, 'openjdk version "21.0.4" 2024-07-16')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    java.java_home.cache_clear()

    assert tmp_path == java.java_home()


def test_an_old_java_is_passed_over(tmp_path, monkeypatch):
    """A Java 11 in JAVA_HOME and nothing on PATH lead to the wheel's Java."""
    a_java(tmp_path / "old", 'openjdk version "11.0.2" 2019-01-15')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(java, "_SHIM", tmp_path / "shim")
    java.java_home.cache_clear()

    assert tmp_path / "shim" == java.java_home()


def test_the_shim_runs_and_drops_the_module_that_the_wheel_lacks(tmp_path):
    """The shim's java starts although Spark asks for the incubator module, and is a suitable version."""
    home = java._shim_of_wheel(tmp_path / "with space")
    command = [home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"]

    assert java.java_version(home / "bin" / "java") in java.SUITABLE
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_a_java_that_does_not_run_has_no_version(tmp_path):
    """A missing or broken java is no Java."""
    assert java.java_version(tmp_path / "java") is None
    assert java.java_version(a_java(tmp_path, "no banner")) is None
