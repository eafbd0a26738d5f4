"""Issue a run's certificates: one authority, and one per node's address."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from history.folder import write_private

AUTHORITY = "authority.pem"
VALID = timedelta(days=365)
EARLIER = timedelta(days=1)  # for clocks that are behind

Key = ec.EllipticCurvePrivateKey


def issue(folder: Path, addresses: Mapping[str, str]) -> None:
    """Write the authority's certificate, and ``<node>.pem`` (key and certificate).

    The authority's key is never written, so that no more can be issued.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    authority = (
        _certificate("authority", key, _name("authority"))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, SHA256())
    )
    (folder / AUTHORITY).write_bytes(authority.public_bytes(Encoding.PEM))
    for node, address in addresses.items():
        own = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            _certificate(node, own, authority.subject)
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), critical=False)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .sign(key, SHA256())
        )
        # Java accepts keys as PKCS#8 only (KIP-651).
        pem = own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        write_private(folder / f"{node}.pem", (pem + certificate.public_bytes(Encoding.PEM)).decode())


def _certificate(name: str, key: Key, issuer: x509.Name) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLIER)
        .not_valid_after(now + VALID)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
