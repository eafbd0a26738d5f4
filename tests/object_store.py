"""An S3 server on loopback for tests: S3 over HTTP, in memory, gone when it ends."""

import os
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from pyarrow import fs

from clusters.waiting import wait_until
from history import remote
from tests.conftest import S3_PYTHON

BUCKET = "recorded"
_ADDRESS = re.compile(r"Running on (http://[\d.]+:\d+)")


class Server(NamedTuple):
    """A running server: its address, and a bucket as a URL."""

    address: str
    bucket: str

    def ask_for_credentials(self, *, after: str) -> None:
        """Refuse unknown access keys after so many requests; ``inf``: never."""
        plain = {"Content-Type": "text/plain"}
        asked = urllib.request.Request(f"{self.address}/moto-api/reset-auth", after.encode(), plain)
        urllib.request.urlopen(asked, timeout=60).close()


@contextmanager
def serving(scratch: Path, host: str = "127.0.0.1") -> Iterator[Server]:
    """A server with an empty bucket; the environment names it and its credentials meanwhile, as a user's would."""
    log = scratch / "s3.log"
    command = [str(S3_PYTHON), "-m", "moto.server", "-H", host, "-p", "0"]
    with log.open("w") as told, pytest.MonkeyPatch.context() as environment:
        process = subprocess.Popen(command, stdout=told, stderr=subprocess.STDOUT)
        try:
            found = wait_until(lambda: _ADDRESS.search(log.read_text()), limit_s=60, what="the S3 server")
            for name in [name for name in os.environ if name.startswith("AWS_")]:
                environment.delenv(name)
            environment.setenv("AWS_ENDPOINT_URL", found[1])
            environment.setenv("AWS_ACCESS_KEY_ID", "tester")
            environment.setenv("AWS_SECRET_ACCESS_KEY", "secret")
            address = found[1].removeprefix("http://")
            make = fs.S3FileSystem(
                endpoint_override=address, scheme="http", region="us-east-1", allow_bucket_creation=True
            )
            make.create_dir(BUCKET)
            remote._connected.cache_clear()
            yield Server(found[1], f"s3://{BUCKET}")
        finally:
            process.terminate()
            process.wait()
            remote._connected.cache_clear()
