"""Certificates, tried by TLS handshakes over a pair of sockets."""

from __future__ import annotations

import socket
import ssl
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from clusters.kafka.access import Access
from clusters.kafka.security import Secrets

NODES = {"broker-1": "127.9.0.11", "producer": "127.9.0.14"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run's certificates."""
    return secrets(tmp_path)


def secrets(path: Path) -> Path:
    """Create a run's certificates and client settings; return their folder."""
    made = Secrets(path / "security", tls="mutual")
    made.create(NODES)
    return made.folder


def server(folder: Path) -> ssl.SSLContext:
    """Return a broker's TLS context with ssl.client.auth=required."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "broker-1.pem")
    context.load_verify_locations(folder / "authority.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def meet(broker: ssl.SSLContext, client: Access, address: str) -> bytes:
    """Connect a client to the broker at this address; return what the client receives after the handshake."""
    theirs, ours = socket.socketpair()
    for end in (theirs, ours):
        end.settimeout(5)

    def serve() -> None:
        with theirs, broker.wrap_socket(theirs, server_side=True) as accepted:
            accepted.sendall(b"hello")

    with ThreadPoolExecutor(1) as pool:
        served = pool.submit(serve)
        try:
            with client.encrypted(ours, address) as calling:
                return calling.recv(5)
        finally:
            ours.close()
            served.exception()


def test_nodes_of_a_run_believe_each_other(folder: Path) -> None:
    """A client and a broker with certificates of the same run complete the handshake."""
    assert meet(server(folder), Access(folder / "producer.properties"), NODES["broker-1"]) == b"hello"


def test_another_address_is_not_believed(folder: Path) -> None:
    """A broker's certificate is rejected at an address other than the broker's."""
    with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
        meet(server(folder), Access(folder / "producer.properties"), "127.9.0.12")


def test_another_run_is_not_believed(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A broker's certificate is rejected by a client of another run, which has its own certificate authority."""
    other = secrets(tmp_path_factory.mktemp("other"))

    with pytest.raises(ssl.SSLCertVerificationError, match=r"unable to get local issuer|self-signed|signature failure"):
        meet(server(folder), Access(other / "producer.properties"), NODES["broker-1"])


def test_who_shows_no_certificate_is_turned_away(folder: Path) -> None:
    """A broker that requires client certificates rejects a client of one-way TLS."""
    settings = folder / "stranger.properties"
    settings.write_text("security.protocol=SSL\nssl.truststore.location=authority.pem\n")

    with pytest.raises(OSError, match=r"(?i)certificate required|reset|eof"):
        meet(server(folder), Access(settings), NODES["broker-1"])


def test_keys_are_their_owners_alone(folder: Path) -> None:
    """Only the owner can read a node's key; the authority's key is not kept."""
    assert sorted(file.name for file in folder.glob("*.pem")) == ["authority.pem", "broker-1.pem", "producer.pem"]
    assert {stat.S_IMODE((folder / f"{node}.pem").stat().st_mode) for node in NODES} == {0o600}
    assert "PRIVATE" not in (folder / "authority.pem").read_text()
