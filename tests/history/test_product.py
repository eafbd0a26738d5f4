"""The digests of the Plimsoll that recorded, and of the judge."""

from pathlib import Path
from zipfile import ZipFile

import pytest

from history import product
from history.product import Product


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A product of two modules, outside any repository."""
    for package in ("judge", "clusters"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "module.py").write_text("VALUE = 1\n")
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    monkeypatch.setattr(product, "ROOT", tmp_path)
    return tmp_path


def digests() -> tuple[Product, str]:
    """Return both digests, calculated again."""
    return product.product.__wrapped__(), product.judge_digest.__wrapped__()


def test_another_judge_has_another_digest(sources: Path) -> None:
    """A change of the judge changes both digests, a change elsewhere only the product's, other files neither."""
    first = digests()
    (sources / "clusters" / "module.py").write_text("VALUE = 2\n")
    (sources / "judge" / "notes.txt").write_text("nothing")
    second = digests()
    (sources / "judge" / "module.py").write_text("VALUE = 2\n")
    third = digests()

    assert first[0] != second[0]
    assert first[1] == second[1] != third[1]


def test_without_a_repository_the_version_and_the_source_are_known(sources: Path) -> None:
    """Without a repository, version and source digest are known, and the commit is empty."""
    found = digests()[0]

    assert sources.is_dir()
    assert (found.version, found.commit) == ("1.2.3", "")
    assert str(found) == f"1.2.3 (source {found.source})"


def test_this_checkout_names_its_commit() -> None:
    """This checkout names its commit with forty digits, or none without a repository."""
    found = product.product()

    assert len(found.commit) in (0, 40)
    assert len(found.source) == product.DIGITS


def test_an_archive_of_the_sources_has_the_digest_of_the_folder(
    sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An archive of the sources has the folder's digest, since a Spark driver imports the judge from one."""
    of_folder = digests()[1]
    with ZipFile(tmp_path / "sources.zip", "w") as archive:
        archive.write(sources / "judge" / "module.py", "judge/module.py")
    monkeypatch.setattr(product, "ROOT", tmp_path / "sources.zip")

    assert product.judge_digest.__wrapped__() == of_folder
