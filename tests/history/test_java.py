"""The Java selected by --java, and the options that Spark's shim passes on."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from history import java
from history.errors import BadInput
from history.java import Java, java_of, spark_java_home


def a_java(home: Path, version: str, released: str = "2026-10-20") -> Path:
    """Create a fake JDK whose java reports this version."""
    command = home / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(
        "#!/bin/sh\nprintf '    java.runtime.version = %s\\n    java.vendor = Debian\\n"
        f"    java.version.date = %s\\n' '{version}' '{released}' >&2\n"
    )
    command.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hide the host's Java, and keep copies in a temporary folder."""
    monkeypatch.delenv(java.VARIABLE, raising=False)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java, "_SYSTEM", tmp_path / "jvm")
    monkeypatch.setattr(java, "_FOLDER", tmp_path / "copies")
    monkeypatch.setattr(java.shutil, "which", lambda _: None)
    java_of.cache_clear()
    yield
    java_of.cache_clear()


def test_the_java_of_the_lock_file_is_the_default() -> None:
    """The default is the lock file's Java, which needs no copy; the host's is not consulted."""
    told = java_of()

    assert told.feature in java.SUITABLE
    assert Path(told.command).is_file()
    assert told.home == java.JAVA_HOME
    assert java_of("") == told


def test_a_number_means_the_installed_one_with_the_newest_updates(tmp_path: Path) -> None:
    """A number selects the installed Java with the newest updates, and copies it."""
    a_java(tmp_path / "jvm" / "a", "17.0.15+6-Debian", "2025-04-15")
    a_java(tmp_path / "jvm" / "b", "17.0.21+1-Debian", "2026-10-20")
    a_java(tmp_path / "jvm" / "c", "21.0.9+1", "2026-11-20")
    told = java_of("17")

    assert str(told) == "17.0.21+1-Debian (Debian)"
    assert told.released == "2026-10-20"
    assert told.home.parent == tmp_path / "copies"


def test_the_environment_says_what_the_call_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment's --java is used where the call, or a scenario, names none."""
    a_java(tmp_path / "jvm" / "a", "17.0.21+1")
    monkeypatch.setenv(java.VARIABLE, str(a_java(tmp_path / "own", "21.0.9-internal")))

    assert java_of().feature == 21
    assert java_of("17").feature == 17


def test_a_copy_holds_what_links_lead_to_and_is_made_once(tmp_path: Path) -> None:
    """A JDK is copied once with its links' targets, which containers do not see; a changed JDK is another copy."""
    home = a_java(tmp_path / "jdk", "21.0.9+1")
    (tmp_path / "security").write_text("of the host")
    (home / "conf").symlink_to(tmp_path / "security")
    (home / "dangling").symlink_to(tmp_path / "nowhere")
    first = java_of(str(home)).home
    java_of.cache_clear()

    assert (first / "conf").read_text() == "of the host"
    assert not (first / "conf").is_symlink()
    assert java_of(str(home)).home == first
    (home / "lib").write_text("patched")
    java_of.cache_clear()
    assert java_of(str(home)).home != first


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ("21", "--java=21: no Java 21 was found by JAVA_HOME, on PATH or in"),
        ("/no/such/jdk", "--java=/no/such/jdk is no version and no folder of a JDK: its bin/java does not run."),
        ("old", r"is Java 11\.0\.2\+9; Spark runs on Java 17, 21 and 25."),
    ],
)
def test_an_unsuitable_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str, says: str) -> None:
    """An unsuitable Java is rejected with the places that were searched, or with the suitable versions."""
    a_java(tmp_path / "old", "11.0.2+9")
    monkeypatch.chdir(tmp_path)

    with pytest.raises(BadInput, match=says):
        java_of(told)


def test_a_java_that_says_nothing_of_itself_is_none(tmp_path: Path) -> None:
    """A program that reports no Java version is no Java."""
    home = a_java(tmp_path / "jdk", "21")
    assert java._probe(home) == Java(home=home, version="21", vendor="Debian", released="2026-10-20")

    (home / "bin" / "java").write_text("#!/bin/sh\necho java\n")
    assert java._probe(home) is None


def test_the_shim_runs_and_drops_the_module_that_small_runtimes_lack(tmp_path: Path) -> None:
    """The shim drops the module that small runtimes lack, without a warning, and passes on other options."""
    refused = ["--add-modules=jdk.incubator.vector", "--add-opens=java.base/sun.security.action=ALL-UNNAMED"]
    command = [spark_java_home() / "bin" / "java", *refused]

    started = subprocess.run([*command, "-version"], capture_output=True, text=True, check=False)
    assert (started.returncode, "WARNING" in started.stderr) == (0, False)
    assert subprocess.run([*command, "--no-such-option"], capture_output=True, check=False).returncode == 1
