"""Certificates that kmini makes for tests and dev stacks: an authority of its own, and what it signs.

The authority is kept beside the data, so that clients go on to trust a broker that starts again. What it signs is good
for a day. Files with private keys can be read by their owner only. Needs the package cryptography (extra `tls`).
"""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

FOLDER = "security"
"""In the data directory."""
AUTHORITY, AUTHORITY_KEY = "authority.pem", "authority.key"

GOOD_FOR = datetime.timedelta(days=1)
AUTHORITY_GOOD_FOR = datetime.timedelta(days=3650)
SKEW = datetime.timedelta(hours=1)
"""By which a client's clock may be behind."""


class Signed(NamedTuple):
    """A private key and its certificate, as PEM."""

    key: str
    certificate: str


class Authority:
    """Signs the certificates of a broker and of its clients."""

    def __init__(self, folder: Path | None = None) -> None:
        """The authority in a folder, or a new one. Raises ImportError without cryptography, and ValueError for files
        that cannot be read as what they are."""
        try:
            from cryptography import x509
            from cryptography.hazmat.primitives import serialization
            from cryptography.hazmat.primitives.asymmetric import ec
        except ImportError:
            raise ImportError(
                "made certificates need the package cryptography, as pip install '.[tls]' in a clone brings it"
            ) from None
        self._key: ec.EllipticCurvePrivateKey
        if folder is not None and (folder / AUTHORITY).exists():
            try:
                key = serialization.load_pem_private_key((folder / AUTHORITY_KEY).read_bytes(), None)
                self._certificate = x509.load_pem_x509_certificate((folder / AUTHORITY).read_bytes())
            except (OSError, ValueError) as error:
                raise ValueError(f"{folder}: cannot go on with the certificates there: {error}") from None
            assert isinstance(key, ec.EllipticCurvePrivateKey)
            self._key = key
        else:
            self._key = ec.generate_private_key(ec.SECP256R1())
            name = _name("kmini, for tests")
            self._certificate = self._signed(name, name, self._key, AUTHORITY_GOOD_FOR, is_authority=True)

    @property
    def pem(self) -> str:
        """Its certificate, which clients have to trust."""
        return _pem_of(self._certificate)

    def keep(self, folder: Path) -> None:
        """Write it to a folder, if it is not there."""
        if not (folder / AUTHORITY).exists():
            write_secret(folder / AUTHORITY_KEY, _key_pem_of(self._key))
            (folder / AUTHORITY).write_text(self.pem)

    def sign(self, name: str, hosts: Sequence[str] = ()) -> Signed:
        """A new key with a certificate of this common name, good for a day: for servers at these hosts and addresses,
        and for clients."""
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._signed(_name(name), self._certificate.subject, key, GOOD_FOR, hosts=hosts)
        return Signed(_key_pem_of(key), _pem_of(certificate))

    def _signed(
        self,
        name: x509.Name,
        issuer: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        good_for: datetime.timedelta,
        *,
        hosts: Sequence[str] = (),
        is_authority: bool = False,
    ) -> x509.Certificate:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.x509.oid import ExtendedKeyUsageOID as Usage

        now = datetime.datetime.now(datetime.timezone.utc)
        own, of_issuer = key.public_key(), self._key.public_key()
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(issuer)
            .public_key(own)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - SKEW)
            .not_valid_after(now + good_for)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(_key_usage(is_authority), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(own), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(of_issuer), critical=False)
        )
        if not is_authority:
            usage = x509.ExtendedKeyUsage([Usage.SERVER_AUTH, Usage.CLIENT_AUTH])
            builder = builder.add_extension(usage, critical=False)
        if hosts:
            names = x509.SubjectAlternativeName([_general_name(host) for host in dict.fromkeys(hosts)])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, hashes.SHA256())


def write_secret(path: Path, text: str) -> None:
    """Write a file that only its owner can read, from its first moment on, in a folder that is made if it is missing.
    A file of that name is replaced."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(text)
    temporary.replace(path)


def _name(common_name: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_usage(is_authority: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem_of(certificate: x509.Certificate) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM).decode("ascii")


def _key_pem_of(key: ec.EllipticCurvePrivateKey) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode("ascii")
