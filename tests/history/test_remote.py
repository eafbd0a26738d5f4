"""Paths in an object store in memory, with the same results as pathlib for the same files."""

import pickle
from pathlib import Path, PurePosixPath
from uuid import uuid4

import pyarrow as pa
import pytest

from history.errors import BadInput
from history.folder import RunFolder
from history.remote import (
    RemotePath,
    check_reachable,
    may_pass,
    parquet_file,
    path_of,
    read_parquet,
    remove_tree,
    upload_tree,
    write_parquet,
    written_here,
)

FILES = {
    "manifest.json": b"{}",
    "brokers/broker-1/server.log": b"one\ntw\xff\n",
    "brokers/broker-1/data/orders-0/00000000000000000000.log": b"batches",
    "brokers/broker-2/data/disk/orders-0/00000000000000000000.log": b"",
    "sends/a.parquet": b"rows",
}


@pytest.fixture
def here(tmp_path):
    """Some local files."""
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    return tmp_path


@pytest.fixture
def there(here):
    """The same files in a store."""
    folder = RemotePath("fsspec+memory://", PurePosixPath(f"tests-{uuid4().hex}/runs/x"))
    upload_tree(here, folder)
    return folder


@pytest.mark.parametrize(
    "pattern",
    ["*", "*.json", "*/*", "*/*/server.log", "*/**/orders-0", "*/**/*.log", "brokers/*/server.log", "nothing*"],
)
def test_glob_finds_what_pathlib_finds(here, there, pattern):
    """glob finds the same files and folders as pathlib."""
    assert [str(found.relative_to(there)) for found in sorted(there.glob(pattern))] == [
        str(found.relative_to(here)) for found in sorted(here.glob(pattern))
    ]


def test_rglob_and_iterdir_find_what_pathlib_finds(here, there):
    """rglob finds everything below a folder and iterdir its direct entries; a missing folder has none."""
    assert {str(found.relative_to(there)) for found in there.rglob("*")} == {
        str(found.relative_to(here)) for found in here.rglob("*")
    }
    assert {found.name for found in there.iterdir()} == {"manifest.json", "brokers", "sends"}
    assert list((there / "absent").iterdir()) == []


def test_files_and_folders_are_told_apart(there):
    """A path is a file or a folder, whether from a listing or by name; a folder is a prefix with objects."""
    for found in (there / "manifest.json", next(there.glob("*.json"))):
        assert (found.is_file(), found.is_dir(), found.exists()) == (True, False, True)
        assert found.stat().st_size == 2
    for found in (there / "brokers", next(there.glob("brokers"))):
        assert (found.is_file(), found.is_dir(), found.exists()) == (False, True, True)
    absent = there / "absent"
    assert (absent.is_file(), absent.is_dir(), absent.exists()) == (False, False, False)


def test_what_is_missing_is_missing_as_in_pathlib(there):
    """Reading, opening and stat of a missing object raise an error with its URL."""
    absent = there / "absent"
    for ask in (absent.read_bytes, absent.read_text, absent.open, absent.stat):
        with pytest.raises(FileNotFoundError, match="runs/x/absent"):
            ask()


def test_text_is_read_line_by_line(there):
    """Text is read line by line, with invalid UTF-8 replaced on request."""
    log = there / "brokers" / "broker-1" / "server.log"
    with log.open(errors="replace") as lines:
        assert list(lines) == ["one\n", "tw�\n"]
    assert log.read_text(errors="replace") == "one\ntw�\n"
    with pytest.raises(UnicodeDecodeError):
        log.read_text()
    with pytest.raises(ValueError, match="can be opened for reading alone"):
        log.open("w")


def test_a_path_travels(there):
    """A path can be pickled for a worker, which connects itself; cached listing data does not affect equality."""
    listed = next(there.glob("*.json"))
    assert pickle.loads(pickle.dumps(listed)) == there / "manifest.json"
    assert hash(listed) == hash(there / "manifest.json")
    assert str(there).endswith("/runs/x")
    assert str(RemotePath("s3://bucket", PurePosixPath())) == "s3://bucket"


def test_a_run_folder_is_sealed_here_and_checked_there(here):
    """A folder sealed locally is verified in the store; a changed, added or missing object is named."""
    RunFolder(here).seal()
    there = RemotePath("fsspec+memory://", PurePosixPath(f"tests-{uuid4().hex}/x"))
    upload_tree(here, there)
    run = RunFolder(there)
    assert run.check_seal() == []
    (there / "verdict" / "verdict.json").write_text("{}")  # is not sealed
    assert run.check_seal() == []
    (there / "sends" / "a.parquet").write_bytes(b"more")
    (there / "sends" / "b.parquet").write_bytes(b"more")
    remove_tree(there / "brokers" / "broker-2")
    assert run.check_seal() == [
        "brokers/broker-2/data/disk/orders-0/00000000000000000000.log is missing",
        "sends/a.parquet was changed after sealing",
        "sends/b.parquet was added after sealing",
    ]


def test_tables_have_the_same_bytes_in_a_store(tmp_path, there):
    """Tables have the same bytes in a store, and are read from it as from a local file."""
    table = pa.table({"n": [1, 2, 3]})
    write_parquet(table, tmp_path / "t.parquet")
    write_parquet(table, there / "t" / "t.parquet")
    assert (there / "t" / "t.parquet").read_bytes() == (tmp_path / "t.parquet").read_bytes()
    for file in (tmp_path / "t.parquet", there / "t" / "t.parquet"):
        assert read_parquet(file).equals(table)
        assert parquet_file(file).read_row_group(0).equals(table)


def test_what_only_writes_files_writes_them_here_first(tmp_path, there):
    """Files written through a temporary local folder are in the store at the end; a local folder is used directly."""
    with written_here(there / "docs") as folder:
        (folder / "static").mkdir()
        (folder / "static" / "a.css").write_text("a")
    assert (there / "docs" / "static" / "a.css").read_text() == "a"
    with written_here(tmp_path / "docs") as folder:
        assert folder == tmp_path / "docs"


def test_a_folder_is_removed_with_all_below_it(tmp_path, there):
    """A folder is removed with its contents and nothing else; a missing one is no error."""
    remove_tree(there / "brokers")
    assert {found.name for found in there.iterdir()} == {"manifest.json", "sends"}
    remove_tree(there / "brokers")
    remove_tree(tmp_path / "absent")


def test_a_path_is_relative_to_a_folder_of_its_own_store_alone():
    """The rest of the path is returned; a folder of another bucket is none of its parents, as in pathlib."""
    path = RemotePath("s3://bucket", PurePosixPath("runs/x"))
    assert path.relative_to(RemotePath("s3://bucket", PurePosixPath())) == PurePosixPath("runs/x")
    assert path.relative_to(RemotePath("s3://bucket", PurePosixPath("runs"))) == PurePosixPath("x")
    with pytest.raises(ValueError, match="not in the subpath"):
        path.relative_to(RemotePath("s3://other", PurePosixPath("runs")))


def test_urls_become_paths_in_a_store():
    """URLs become paths in a store, and others local paths."""
    path = path_of("s3://bucket/runs/x/")
    assert path == RemotePath("s3://bucket", PurePosixPath("runs/x"))
    assert str(path / "a b") == "s3://bucket/runs/x/a b"
    assert path_of(path) is path
    assert path_of("runs/x") == Path("runs/x")
    assert path_of(Path("runs/x")) == Path("runs/x")
    assert path_of("file:///tmp/x") == Path("/tmp/x")
    check_reachable(Path("nowhere"))


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("ftp://host/x", "has the scheme ftp://; known: s3://"),
        ("s3:///x", "is no address such as s3://bucket/runs/x"),
        ("s3://bucket/x?region=a", "credentials and the endpoint belong in the environment"),
        ("s3://key:hidden@bucket/x", "s3://…@bucket/x is no address"),
    ],
)
def test_a_url_that_cannot_be_used_is_bad_input(url, why):
    """An unusable URL is bad input in one sentence without its secrets."""
    with pytest.raises(BadInput) as refused:
        path_of(url)
    assert why in str(refused.value)
    assert "hidden" not in str(refused.value)


def test_a_stores_error_may_pass_and_a_damaged_files_does_not():
    """Errors of the system have a number, and a store's have none; a decoder's of a local file do not pass."""
    assert may_pass(OSError(5, "EIO"), Path("runs"))
    assert may_pass(OSError("AWS Error NETWORK_CONNECTION"), path_of("s3://bucket/runs"))
    assert not may_pass(OSError("Corrupt snappy compressed data."), Path("runs"))
    assert not may_pass(pa.ArrowInvalid("no Parquet"), path_of("s3://bucket/runs"))
