"""Certificates, tried by handshakes over a pair of sockets."""

from __future__ import annotations

import socket
import ssl
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from clusters.kafka.certificates import issue
from clusters.kafka.security import Access

NODES = {"broker-1": "127.9.0.11", "producer": "127.9.0.14"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run's certificates."""
    issue(tmp_path, NODES)
    return tmp_path


def server(folder: Path) -> ssl.SSLContext:
    """As a broker with ssl.client.auth=required."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "broker-1.pem")
    context.load_verify_locations(folder / "authority.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def meet(broker: ssl.SSLContext, client: Access, address: str) -> bytes:
    """What a client is told by a broker that it calls at an address, once both believe each other."""
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
    """Either side shows a certificate of the run's authority, and the broker's names its address."""
    assert meet(server(folder), Access("producer", str(folder), tls="mutual"), NODES["broker-1"]) == b"hello"


def test_another_address_is_not_believed(folder: Path) -> None:
    """A certificate is good for the address of its node alone."""
    with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
        meet(server(folder), Access("producer", str(folder), tls="mutual"), "127.9.0.12")


def test_another_run_is_not_believed(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Every run has an authority of its own."""
    other = tmp_path_factory.mktemp("other")
    issue(other, NODES)

    with pytest.raises(ssl.SSLCertVerificationError, match=r"unable to get local issuer|self-signed|signature failure"):
        meet(server(folder), Access("producer", str(other), tls="mutual"), NODES["broker-1"])


def test_who_shows_no_certificate_is_turned_away(folder: Path) -> None:
    """A client of one-way TLS at a broker that asks for a certificate."""
    with pytest.raises(OSError, match=r"(?i)certificate required|reset|eof"):
        meet(server(folder), Access("producer", str(folder), tls="one_way"), NODES["broker-1"])


def test_keys_are_their_owners_alone(folder: Path) -> None:
    """Nobody else of the host may read them, and the authority's is not there at all."""
    assert sorted(file.name for file in folder.iterdir()) == ["authority.pem", "broker-1.pem", "producer.pem"]
    assert {stat.S_IMODE((folder / f"{node}.pem").stat().st_mode) for node in NODES} == {0o600}
    assert "PRIVATE" not in (folder / "authority.pem").read_text()
