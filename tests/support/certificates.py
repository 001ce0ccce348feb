"""Certificates for tests of TLS: an authority of the test's own, and what it signs."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from contextlib import suppress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

PEM = serialization.Encoding.PEM
DAY = datetime.timedelta(days=1)
_SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=False,
    encipher_only=False,
    decipher_only=False,
)
"""Python 3.13 asks for this of an authority, and for its key's identifier in what it signs."""


def client_hello() -> bytes:
    """What a client sends first in a TLS handshake."""
    outgoing = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


class Signed:
    """A key and its certificate."""

    def __init__(self, authority: Authority, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self._authority = authority
        self._key = key
        self.certificate = certificate

    @property
    def key_pem(self) -> str:
        return self._key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode()

    def encrypted_key_pem(self, password: str) -> str:
        secret = serialization.BestAvailableEncryption(password.encode())
        return self._key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, secret).decode()

    @property
    def certificate_pem(self) -> str:
        return self.certificate.public_bytes(PEM).decode()

    @property
    def pem(self) -> str:
        """Key and certificate."""
        return self.key_pem + self.certificate_pem

    def pkcs12(self, password: str) -> bytes:
        secret = serialization.BestAvailableEncryption(password.encode())
        return pkcs12.serialize_key_and_certificates(
            b"kmini", self._key, self.certificate, [self._authority.certificate], secret
        )


class Authority:
    """Signs certificates."""

    def __init__(self, name: str = "tests") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = (
            _builder(self._name, self._key.public_key())
            .issuer_name(self._name)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .add_extension(_SIGNS_CERTIFICATES, critical=True)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(PEM).decode()

    def sign(self, name: str, *, unit: str | None = None, is_expired: bool = False, host: str | None = None) -> Signed:
        """A certificate of this common name, for servers on the loopback interface, unless a host is given, and for
        clients."""
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Example, Inc.")]
        if unit is not None:
            attributes.append(x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, unit))
        attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, name))
        loopback = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        hosts = loopback if host is None else [x509.DNSName(host)]
        certificate = (
            _builder(x509.Name(attributes), key.public_key(), ended=is_expired)
            .issuer_name(self._name)
            .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return Signed(self, key, certificate)

    def write(self, folder: Path) -> Path:
        """The authority's certificate, in a file."""
        path = folder / "authority.pem"
        path.write_text(self.pem)
        return path


def _builder(name: x509.Name, key: ec.EllipticCurvePublicKey, *, ended: bool = False) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 2 * DAY)
        .not_valid_after(now - DAY if ended else now + DAY)
    )
