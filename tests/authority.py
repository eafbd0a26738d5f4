"""A certificate authority whose certificates name this host."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

DAY = timedelta(days=1)


class Authority:
    """Issue certificates; ``certificate`` is its own, as PEM."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("authority")
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        own = self._builder("authority", self._key, DAY).add_extension(constraints, critical=True)
        self.certificate = own.sign(self._key, SHA256()).public_bytes(Encoding.PEM).decode()

    def issue(self, name: str, *, expires: timedelta = DAY) -> str:
        """Return a private key and a certificate for localhost; a negative time has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        hosts = x509.SubjectAlternativeName([x509.DNSName("localhost")])
        certificate = self._builder(name, key, expires).add_extension(hosts, critical=False).sign(self._key, SHA256())
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return (pem + certificate.public_bytes(Encoding.PEM)).decode()

    def _builder(self, name: str, key: ec.EllipticCurvePrivateKey, expires: timedelta) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        serial = x509.random_serial_number()
        return x509.CertificateBuilder(self._name, _name(name), key.public_key(), serial, now - 9 * DAY, now + expires)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])
