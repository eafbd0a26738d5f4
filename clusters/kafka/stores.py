"""Read PKCS12 and JKS stores; needs cryptography, which client nodes lack."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

from clusters.kafka.access import Identity
from history.errors import BadInput
from history.java import java_of

_JKS = bytes.fromhex("feedfeed")
_KEYTOOL_LIMIT_S = 60


class Store(NamedTuple):
    """A private key with its chain, and other certificates, as PEM."""

    identity: Identity | None
    authorities: str


def read_store(path: Path, password: str, key_password: str | None) -> Store:
    """Return a store's content; raise ValueError for another kind of file or a wrong password."""
    data = path.read_bytes()
    if data.startswith(_JKS):
        data = _converted(path, password, key_password)
    found = pkcs12.load_pkcs12(data, password.encode())
    others = "".join(map(_pem, found.additional_certs))
    if found.key is None or found.cert is None:
        return Store(None, others)
    key = found.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Store(Identity(_pem(found.cert) + others, key.decode()), others)


def _pem(entry: pkcs12.PKCS12Certificate) -> str:
    return entry.certificate.public_bytes(Encoding.PEM).decode()


def _converted(store: Path, password: str, key_password: str | None) -> bytes:
    """Return a JKS store as PKCS12; no password is on the command line."""
    keytool = java_of().home / "bin" / "keytool"
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "store.p12"
        command = [str(keytool), "-importkeystore", "-noprompt", "-srckeystore", str(store), "-destkeystore"]
        command += [str(target), "-deststoretype", "PKCS12"]
        for option in ("-srcstorepass:env", "-deststorepass:env"):
            command += [option, "STORE_PASSWORD"]
        secrets = {"STORE_PASSWORD": password}
        key = f"{key_password or password}\n".encode()  # keytool reads it if the store's does not fit
        try:
            subprocess.run(command, env=secrets, input=key, capture_output=True, timeout=_KEYTOOL_LIMIT_S, check=True)
        except FileNotFoundError:
            raise BadInput(f"{store} is a JKS store; {keytool}, which opens it, is missing.") from None
        except subprocess.SubprocessError:
            raise ValueError(store) from None
        return target.read_bytes()
