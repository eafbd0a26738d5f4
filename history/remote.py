"""Object store paths (``s3://bucket/runs/x``) with some of ``pathlib``'s methods.

A folder exists if objects exist below it.
"""

from __future__ import annotations

import errno
import io
import re
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, Self, TypeAlias, cast
from urllib.parse import urlsplit

from history.access import variables
from history.errors import BadInput
from history.scratch import scratch

AT_ONCE = 8  # small objects wait for the network
SCHEMES = ("s3", "gs", "abfs", "abfss", "hdfs")
_BUFFER_BYTES = 8 << 20
_KEYS = {
    "access_key": "AWS_ACCESS_KEY_ID",
    "secret_key": "AWS_SECRET_ACCESS_KEY",
    "session_token": "AWS_SESSION_TOKEN",
}
_URL = re.compile(r"[a-z][a-z0-9+.-]*://")


class Stat(NamedTuple):
    """An object's size and time, as in ``os.stat_result``."""

    st_size: int
    st_mtime_ns: int


@dataclass(frozen=True, order=True)
class PureRemotePath:
    """A name in an object store, as ``pathlib.PurePath``."""

    store: str
    inner: PurePosixPath

    def __str__(self) -> str:
        return f"{self.store}/{self.inner}".removesuffix("/.")

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def stem(self) -> str:
        return self.inner.stem

    @property
    def suffix(self) -> str:
        return self.inner.suffix

    @property
    def parent(self) -> Self:
        return type(self)(self.store, self.inner.parent)

    @property
    def parents(self) -> list[Self]:
        return [type(self)(self.store, inner) for inner in self.inner.parents]

    def __truediv__(self, more: str | PurePosixPath) -> Self:
        return type(self)(self.store, self.inner / more)

    def with_name(self, name: str) -> Self:
        return type(self)(self.store, self.inner.with_name(name))

    def relative_to(self, other: PureRemotePath) -> PurePosixPath:
        return PurePosixPath(self.store, self.inner).relative_to(PurePosixPath(other.store, other.inner))


@dataclass(frozen=True, order=True)
class RemotePath(PureRemotePath):
    """A path in an object store, sent to Spark's workers; ``listed`` caches a listing."""

    listed: Stat | None = field(default=None, compare=False, repr=False)

    def resolve(self) -> RemotePath:
        return self

    @property
    def key(self) -> str:
        return f"{_connected(self.store).root}/{self.inner}".removesuffix("/.").lstrip("/")

    @property
    def filesystem(self) -> Any:
        return _connected(self.store).filesystem

    def _info(self) -> Any:
        return self.filesystem.get_file_info(self.key)

    def is_file(self) -> bool:
        return self.listed is not None or bool(self._info().is_file)

    def is_symlink(self) -> bool:
        return False

    def is_dir(self) -> bool:
        return self.listed is None and self._info().type.name == "Directory"

    def exists(self) -> bool:
        return self.listed is not None or self._info().type.name != "NotFound"

    def stat(self) -> Stat:
        if self.listed is not None:
            return self.listed
        info = self._info()
        if not info.is_file:
            raise self._missing()
        return Stat(info.size, info.mtime_ns or 0)

    def iterdir(self) -> Iterator[RemotePath]:
        return self._below(recursive=False)

    def rglob(self, pattern: str) -> Iterator[RemotePath]:
        return (found for found in self._below(recursive=True) if fnmatchcase(found.name, pattern))

    def glob(self, pattern: str) -> Iterator[RemotePath]:
        if "**" in pattern:
            below, parts = self._below(recursive=True), pattern.split("/")
            yield from (found for found in below if _fits(found.relative_to(self).parts, parts))
            return
        first, _, rest = pattern.partition("/")
        for found in self.iterdir():
            if fnmatchcase(found.name, first) and (not rest or found.listed is None):
                yield from found.glob(rest) if rest else [found]

    def _below(self, *, recursive: bool) -> Iterator[RemotePath]:
        from pyarrow.fs import FileSelector

        root = _connected(self.store).root
        for info in self.filesystem.get_file_info(FileSelector(self.key, recursive=recursive, allow_not_found=True)):
            inner = PurePosixPath(info.path.lstrip("/").removeprefix(root).lstrip("/"))
            yield RemotePath(self.store, inner, Stat(info.size, info.mtime_ns or 0) if info.is_file else None)

    def open(self, mode: str = "r", *, errors: str = "strict", newline: str | None = None) -> Any:
        if mode not in {"r", "rb"}:
            raise ValueError(f"{self} can be opened for reading alone, not as {mode!r}.")
        try:
            stream = self.filesystem.open_input_stream(self.key, compression=None, buffer_size=_BUFFER_BYTES)
        except FileNotFoundError:
            raise self._missing() from None
        return stream if mode == "rb" else io.TextIOWrapper(stream, "utf-8", errors, newline)

    def read_bytes(self) -> bytes:
        try:
            with self.filesystem.open_input_file(self.key) as file:
                return bytes(file.read())
        except FileNotFoundError:
            raise self._missing() from None

    def read_text(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        with io.TextIOWrapper(io.BytesIO(self.read_bytes()), encoding, errors) as text:
            return text.read()

    def write_bytes(self, data: bytes) -> None:
        with self.filesystem.open_output_stream(self.key, compression=None) as stream:
            stream.write(data)

    def write_text(self, text: str) -> None:
        self.write_bytes(text.encode())

    def mkdir(self, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Do nothing: stores have no folders."""

    def _missing(self) -> FileNotFoundError:
        return FileNotFoundError(errno.ENOENT, "there is no such object", str(self))


AnyPath: TypeAlias = Path | RemotePath


def path_of(text: str | AnyPath) -> Path:
    """Convert a path or an object store's URL.

    ``RemotePath`` is typed as ``Path``; recording never gets one.

    Raises: BadInput: another scheme, no bucket, or credentials or options.
    """
    if not isinstance(text, str):
        return cast("Path", text)
    if not _URL.match(text):
        return Path(text)
    url = urlsplit(text, allow_fragments=False)
    if url.scheme == "file":
        return Path(url.path)
    if url.scheme not in SCHEMES:
        raise BadInput(f"{text} has the scheme {url.scheme}://; known: {', '.join(f'{each}://' for each in SCHEMES)}.")
    if not url.netloc or url.query or (url.scheme == "s3" and "@" in url.netloc):
        without_credentials = re.sub(r"//[^/@]*@", "//…@", text).partition("?")[0]
        raise BadInput(
            f"{without_credentials} is no address such as {url.scheme}://bucket/runs/x; credentials and the "
            "endpoint belong in the environment (docs/object-stores.md)."
        )
    return cast("Path", RemotePath(f"{url.scheme}://{url.netloc}", PurePosixPath(url.path.strip("/"))))


def check_reachable(path: AnyPath) -> None:
    """Check that a path's store is usable.

    Raises: BadInput.
    """
    if isinstance(path, Path):
        return
    try:
        found = RemotePath(path.store, PurePosixPath()).is_dir()
        next(path.iterdir(), None)
    except OSError as error:
        why = " ".join(str(error).split())[:300].rstrip(".")
        raise BadInput(f"{path} cannot be read: {why}; check address, credentials and endpoint.") from error
    if not found:
        raise BadInput(f"{path} cannot be read: there is no bucket {path.store}; create it, or correct the address.")


def may_pass(error: Exception, path: AnyPath) -> bool:
    """Return whether the system or a store failed, and not the decoder of a damaged file, which sets no ``errno``."""
    return isinstance(error, OSError) and (error.errno is not None or not isinstance(path, Path))


def write_parquet(table: Any, file: AnyPath) -> None:
    """Write one file, with the same bytes everywhere."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if isinstance(file, Path):
        pq.write_table(table, file)
        return
    made = pa.BufferOutputStream()
    pq.write_table(table, made)
    file.write_bytes(made.getvalue())


def parquet_file(file: AnyPath, **options: Any) -> Any:
    """Open a ``pyarrow.parquet.ParquetFile``, reading only the needed ranges."""
    import pyarrow.parquet as pq

    if isinstance(file, Path):
        return pq.ParquetFile(file, **options)
    return pq.ParquetFile(file.key, filesystem=file.filesystem, pre_buffer=True, **options)


def read_parquet(source: AnyPath, **options: Any) -> Any:
    """Call ``pyarrow.parquet.read_table``."""
    import pyarrow.parquet as pq

    if isinstance(source, Path):
        return pq.read_table(source, **options)
    return pq.read_table(source.key, filesystem=source.filesystem, **options)


def remove_tree(folder: AnyPath) -> None:
    """Remove a folder, if it exists."""
    if isinstance(folder, Path):
        shutil.rmtree(folder, ignore_errors=True)
    elif folder.exists():
        folder.filesystem.delete_dir(folder.key)


@contextmanager
def written_here(folder: AnyPath) -> Iterator[Path]:
    """Yield a local folder that is uploaded on success."""
    if isinstance(folder, Path):
        yield folder
        return
    with scratch() as here:
        yield here
        upload_tree(here, folder)


def upload_tree(source: Path, target: RemotePath) -> None:
    """Upload a local folder."""
    upload_files(source, sorted(file for file in source.rglob("*") if file.is_file()), target)


def upload_files(source: Path, files: list[Path], target: RemotePath) -> None:
    """Upload files, several at a time.

    Raises: BadInput: a file is outside ``source``; nothing was uploaded.
    """
    for file in files:
        if not file.resolve().is_relative_to(source.resolve()):
            raise BadInput(f"{file} leads out of {source} and is not uploaded; remove it from the folder.")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda file: _upload(file, target / file.relative_to(source).as_posix()), files))


def _upload(file: Path, target: RemotePath) -> None:
    with file.open("rb") as source, target.filesystem.open_output_stream(target.key, compression=None) as sink:
        shutil.copyfileobj(source, sink, _BUFFER_BYTES)


class _Store(NamedTuple):
    filesystem: Any
    root: str


@lru_cache(maxsize=16)
def _connected(store: str) -> _Store:
    from pyarrow import fs

    scheme, _, bucket = store.partition("://")
    if scheme != "s3":
        filesystem, root = fs.FileSystem.from_uri(f"{store}/")
        return _Store(filesystem, root.strip("/"))
    given = variables()
    keys = {option: given.get(name) for option, name in _KEYS.items()}
    endpoint = urlsplit(given.get("AWS_ENDPOINT_URL_S3") or given.get("AWS_ENDPOINT_URL") or "")
    region = given.get("AWS_REGION") or given.get("AWS_DEFAULT_REGION")
    return _Store(
        fs.S3FileSystem(
            **(keys if keys["access_key"] and keys["secret_key"] else {}),  # else the SDK looks for them
            endpoint_override=endpoint.netloc or None,
            scheme=endpoint.scheme or None,
            allow_delayed_open=True,  # one request, not three, for a small object
            region=region or ("us-east-1" if endpoint.netloc else fs.resolve_s3_region(bucket)),
        ),
        bucket,
    )


def _fits(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_fits(parts[skipped:], pattern[1:]) for skipped in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _fits(parts[1:], pattern[1:])
