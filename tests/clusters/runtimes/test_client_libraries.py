"""The client libraries for nodes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusters.paths import ROOT
from clusters.runtimes import client_libraries as module
from clusters.runtimes.client_libraries import LIBRARIES, client_libraries, locked_requirements
from history.errors import HarnessError

LOCK = """\
# written by a tool
kafka-python==3.0.1 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
    # via plimsoll
kafka-python-ng==9.9.9 \\
    --hash=sha256:cc
pyarrow==26.0.1 ; python_version >= "3.11" \\
    --hash=sha256:dd
"""


def test_a_package_keeps_its_version_and_hashes() -> None:
    """A requirement has its version and hashes, without comments, and without packages of a longer name."""
    assert locked_requirements(LOCK, ("kafka-python",)) == (
        "kafka-python==3.0.1 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n"
    )


def test_packages_come_in_the_order_asked_for() -> None:
    """Requirements are in the given order and keep their markers."""
    wanted = locked_requirements(LOCK, ("pyarrow", "kafka-python-ng"))

    assert [line for line in wanted.splitlines() if not line.startswith(" ")] == [
        'pyarrow==26.0.1 ; python_version >= "3.11" \\',
        "kafka-python-ng==9.9.9 \\",
    ]


def test_a_package_that_is_not_locked_is_told() -> None:
    """A package that is not locked is an error with its name and the remedy."""
    with pytest.raises(HarnessError, match=r"requirements\.lock has no confluent-kafka; run `make lock`"):
        locked_requirements(LOCK, ("kafka-python", "confluent-kafka"))


def test_the_projects_lock_has_them_all() -> None:
    """The project's lock has a hash for each library, as the installer requires."""
    lock = (ROOT / "requirements.lock").read_text()

    assert all("--hash=sha256:" in locked_requirements(lock, (name,)) for name in LIBRARIES)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache, and a Python version other than the image's."""
    monkeypatch.setattr(module, "CACHE", tmp_path)
    monkeypatch.setattr(module, "IMAGE_PYTHON", "3.99")
    client_libraries.cache_clear()
    yield tmp_path / "clients"
    client_libraries.cache_clear()


def test_the_libraries_are_fetched_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The libraries are installed once, by hashes, into a folder that all users can read."""
    asked: list[list[str]] = []

    def install(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        (Path(command[command.index("--target") + 1]) / "kafka.py").touch()
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(module, "run_command", install)
    folder = client_libraries()
    client_libraries.cache_clear()

    assert client_libraries() == folder
    assert (len(asked), "--require-hashes" in asked[0]) == (1, True)
    assert sorted(file.name for file in folder.iterdir()) == ["kafka.py", "requirements.txt"]
    assert folder.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(
    ("end", "raised"),
    [
        (subprocess.CompletedProcess([], 2, "", "no such index"), HarnessError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_half_a_folder_is_none(
    cache: Path, monkeypatch: pytest.MonkeyPatch, end: Any, raised: type[BaseException]
) -> None:
    """If the installer fails or is interrupted, no folder is left."""

    def install(*_: Any, **__: Any) -> Any:
        if isinstance(end, BaseException):
            raise end
        return end

    monkeypatch.setattr(module, "run_command", install)
    with pytest.raises(raised):
        client_libraries()
    assert [file.name for file in cache.iterdir()] == [".lock"]


@pytest.fixture
def same_python(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The image has this Python version, and fetching is an error."""
    monkeypatch.setattr(module, "IMAGE_PYTHON", f"{sys.version_info.major}.{sys.version_info.minor}")

    def fetch(*_: Any) -> None:
        raise AssertionError("this process has them")

    monkeypatch.setattr(module, "_fetch", fetch)


@pytest.mark.usefixtures("same_python")
def test_on_the_images_python_the_libraries_are_linked() -> None:
    """If the image's Python is this one, installed libraries are hard-linked, without scripts and compiled files."""
    folder = client_libraries()

    code = f"import sys; sys.path = ['{folder}', *sys.path]; {IMPORTS}"
    inner = subprocess.check_output([sys.executable, "-I", "-S", "-B", "-c", code], text=True)
    assert inner.split() == [str(folder)] * 3
    assert (folder / "kafka" / "__init__.py").stat().st_nlink > 1
    assert [*folder.rglob("*.pyc"), *folder.rglob("bin")] == []


IMPORTS = (
    "import confluent_kafka, kafka, pyarrow; from pathlib import Path; "
    "print(*(Path(module.__file__).parents[1] for module in (confluent_kafka, kafka, pyarrow)))"
)


@pytest.mark.usefixtures("same_python")
def test_on_another_file_system_they_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """On another file system the libraries are copied."""

    def refuse(*_: Any) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)

    assert (client_libraries() / "kafka" / "__init__.py").stat().st_nlink == 1


@pytest.mark.usefixtures("same_python")
def test_other_versions_than_the_locked_ones_are_not_linked() -> None:
    """Libraries in other versions than the locked ones are not linked."""
    lock = (ROOT / "requirements.lock").read_text()
    wanted = locked_requirements(lock, LIBRARIES)

    assert [library.metadata["Name"] for library in module.installed_here(wanted)] == [*LIBRARIES]
    assert module.installed_here(wanted.replace("pyarrow==", "pyarrow==1")) == []


def test_libraries_for_another_python_are_not_linked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Libraries of another Python version are not linked: compiled modules fit one version only."""
    wanted = locked_requirements((ROOT / "requirements.lock").read_text(), LIBRARIES)
    monkeypatch.setattr(module, "IMAGE_PYTHON", "3.99")

    assert module.installed_here(wanted) == []
