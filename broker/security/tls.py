"""TLS at a listener: key stores by Kafka's settings, and the principal that a client's certificate names.

A key store is PEM or PKCS12, in a file or, as PEM, in the setting itself. Java's own format (JKS) has to be converted.
Keys reach OpenSSL by a file in memory that has no name, or where the system has none, by one that only this user can
read and that is removed at once.
"""

from __future__ import annotations

import logging
import os
import re
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ...storage.config_key import shorten, split_list
from ..network.peer_log import PeerLog
from .resources import ANONYMOUS, Principal

peer_log = PeerLog(logging.getLogger("kmini.connection"))

Find = Callable[[str], tuple[str, str]]
"""Gives the name and the text of a setting at the listener; an empty text if it is not set."""

VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
JKS_MAGIC = bytes.fromhex("feedfeed")
PKCS12_BEGINS = b"\x30"
NEEDS_CRYPTOGRAPHY = "PKCS12 needs the package cryptography: pip install 'kmini[tls]'"


class TlsSettings(NamedTuple):
    """How the clients of one listener are served over TLS."""

    context: ssl.SSLContext
    rules: MappingRules

    def principal_of(self, certificate: dict[str, object] | None) -> Principal:
        """The principal of a client with this certificate, as `SSLObject.getpeercert` tells it."""
        if not certificate:
            return ANONYMOUS
        return Principal.user(self.rules.name_of(distinguished_name(certificate)))


def tls_settings(find: Find) -> TlsSettings:
    """The TLS settings of a listener. Raises ValueError, which names the setting and quotes no secret."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sslobject_class = ToldHandshake
    _set_versions(context, find)
    _set_ciphers(context, find)
    _load_keys(context, find)
    name, text = find("ssl.client.auth")
    if text.lower() not in CLIENT_AUTH:
        raise ValueError(f"{name}={shorten(text)}: must be none, requested or required")
    context.verify_mode = CLIENT_AUTH[text.lower()]
    if context.verify_mode is not ssl.CERT_NONE:
        _load_trusted(context, find)
    name, text = find("ssl.principal.mapping.rules")
    try:
        return TlsSettings(context, MappingRules(text))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _set_versions(context: ssl.SSLContext, find: Find) -> None:
    name, text = find("ssl.enabled.protocols")
    versions = [item.strip() for item in split_list(text)]
    unknown = [version for version in versions if version not in VERSIONS]
    if unknown or not versions:
        raise ValueError(f"{name}={shorten(text)}: must name {' or '.join(VERSIONS)}, or both")
    context.minimum_version = min(VERSIONS[version] for version in versions)
    context.maximum_version = max(VERSIONS[version] for version in versions)


def _set_ciphers(context: ssl.SSLContext, find: Find) -> None:
    """Set the cipher suites of TLS 1.2, by Java's names."""
    name, text = find("ssl.cipher.suites")
    suites = [item.strip() for item in split_list(text)]
    if not suites:
        return
    if newer := [suite for suite in suites if "_WITH_" not in suite]:
        raise ValueError(
            f"{name}: {shorten(newer[0])} is no suite of TLS 1.2, and this Python cannot choose those of TLS 1.3"
        )
    try:
        context.set_ciphers(":".join(map(_openssl_name, suites)))
    except ssl.SSLError:
        raise ValueError(f"{name}={shorten(text)}: OpenSSL has none of these suites") from None


def _openssl_name(suite: str) -> str:
    """TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 is ECDHE-RSA-AES128-GCM-SHA256 for OpenSSL; RSA is not named."""
    exchange, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    cipher = re.sub(r"AES_(\d+)", r"AES\1", cipher).replace("_CBC", "")
    cipher = cipher.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    return (cipher if exchange == "RSA" else f"{exchange}_{cipher}").replace("_", "-")


# --- handshakes

_REASONS = {
    "WRONG_VERSION_NUMBER": "it speaks no TLS, which this listener asks for",
    "HTTP_REQUEST": "it speaks HTTP without TLS",
    "UNEXPECTED_MESSAGE": "it speaks no TLS, which this listener asks for",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it has no certificate, which ssl.client.auth=required asks for",
    "CERTIFICATE_VERIFY_FAILED": "its certificate is not trusted here",
    "NO_SHARED_CIPHER": "it has no cipher suite in common with this listener",
    "UNSUPPORTED_PROTOCOL": "it speaks no version of TLS that ssl.enabled.protocols names",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not trust the certificate of this broker",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it does not trust the certificate of this broker",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it does not trust the certificate of this broker",
}


class ToldHandshake(ssl.SSLObject):
    """The TLS of one connection. asyncio ends a connection whose handshake fails without a word; this says why."""

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            told = f"the TLS handshake failed: {str(error.reason or error).lower().replace('_', ' ')}"
            peer_log.warning("closed a connection: %s", _REASONS.get(str(error.reason), told))
            raise


# --- key stores


class Store(NamedTuple):
    """A key store or a trust store, as PEM."""

    key: bytes
    """The private key; empty in a trust store."""
    certificates: bytes
    password: str
    """That of the private key; empty for a plain one."""


def _load_keys(context: ssl.SSLContext, find: Find) -> None:
    _, inline_key = find("ssl.keystore.key")
    if inline_key:
        name, chain = find("ssl.keystore.certificate.chain")
        if not chain:
            raise ValueError(f"{name}: ssl.keystore.key needs the certificate chain beside it")
        store = Store(inline_key.encode(), chain.encode(), find("ssl.key.password")[1])
    else:
        name, location = find("ssl.keystore.location")
        if not location:
            raise ValueError(f"{name}: a listener with TLS needs a key store, or ssl.keystore.key and its chain")
        store = _read_store(find, "keystore", name, location)
        if not store.key:
            raise ValueError(f"{name}={shorten(location)}: it has no private key")
    try:
        with file_of(store.key + b"\n" + store.certificates) as path:
            context.load_cert_chain(path, password=store.password or _no_password)
    except (ssl.SSLError, ValueError) as error:
        is_encrypted = b"ENCRYPTED" in store.key and isinstance(error, ssl.SSLError)
        told = "the password of the private key is another one" if is_encrypted else _why(error)
        raise ValueError(f"{name}: {told}") from None


def _no_password() -> str:
    """Asked for where a key is encrypted and no password is set: OpenSSL would ask at the terminal."""
    raise ValueError("the private key has a password, and ssl.key.password is not set")


def _load_trusted(context: ssl.SSLContext, find: Find) -> None:
    name, certificates = find("ssl.truststore.certificates")
    if not certificates:
        name, location = find("ssl.truststore.location")
        if not location:
            context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
            return
        certificates = _read_store(find, "truststore", name, location).certificates.decode("ascii", "replace")
    try:
        context.load_verify_locations(cadata=certificates)
    except (ssl.SSLError, ValueError) as error:
        raise ValueError(f"{name}: it holds no certificates that can be read: {_why(error)}") from None


def _read_store(find: Find, kind: str, name: str, location: str) -> Store:
    """The store in a file, whatever Kafka's default type is: the file tells. Raises ValueError."""
    type_name, type_ = find(f"ssl.{kind}.type")
    if type_.upper() not in ("JKS", "PKCS12", "PEM"):
        raise ValueError(f"{type_name}={shorten(type_)}: must be PEM, PKCS12 or JKS")
    try:
        with open(location, "rb") as file:
            data = file.read()
    except OSError as error:
        raise ValueError(f"{name}={shorten(location)}: {error.strerror}") from None
    password = find(f"ssl.{kind}.password")[1]
    if data.startswith(JKS_MAGIC):
        converted = f"{location.removesuffix('.jks')}.p12"
        raise ValueError(
            f"{name}={shorten(location)}: it has Java's own format, and kmini reads PKCS12 and PEM: keytool "
            f"-importkeystore -srckeystore {location} -destkeystore {converted} -deststoretype PKCS12"
        )
    if data.startswith(PKCS12_BEGINS):
        return _read_pkcs12(data, password, f"{name}={shorten(location)}")
    if type_.upper() != "PEM":
        raise ValueError(f"{name}={shorten(location)}: it is no PKCS12; if it is PEM, {type_name}=PEM says so")
    return Store(data, b"", find("ssl.key.password")[1]) if kind == "keystore" else Store(b"", data, "")


def _read_pkcs12(data: bytes, password: str, what: str) -> Store:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise ValueError(f"{what}: {NEEDS_CRYPTOGRAPHY}") from None
    try:
        found = pkcs12.load_pkcs12(data, password.encode() or None)
    except ValueError:
        raise ValueError(f"{what}: its password is another one, or it is damaged") from None
    encoding = serialization.Encoding.PEM
    key = b""
    if found.key is not None:
        no_password = serialization.NoEncryption()
        key = found.key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, no_password)
    certificates = [each for each in (found.cert, *found.additional_certs) if each is not None]
    return Store(key, b"".join(each.certificate.public_bytes(encoding) for each in certificates), "")


@contextmanager
def file_of(secret: bytes) -> Iterator[str]:
    """The path of a file with these bytes, which nobody else can read, and which is gone afterwards."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("kmini-key")
        try:
            os.write(descriptor, secret)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    import tempfile

    with tempfile.NamedTemporaryFile() as file:
        file.write(secret)
        file.flush()
        yield file.name


def _why(error: Exception) -> str:
    """What is wrong with a key or a certificate, in a few words."""
    if isinstance(error, ssl.SSLError):
        if error.reason == "KEY_VALUES_MISMATCH":
            return "the private key and the certificate do not belong together"
        if error.reason is None or error.reason in ("PEM", "NO_START_LINE"):
            return "it lacks a certificate or a private key in PEM"
        return error.reason.lower().replace("_", " ")
    return str(error)


# --- principals

_KEYWORDS = {
    "commonName": "CN",
    "countryName": "C",
    "stateOrProvinceName": "ST",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
"""The keywords of RFC 2253, which Java's X500Principal uses. Other attributes stand as their number and encoding."""
_UTF8_STRING, _PRINTABLE_STRING, _IA5_STRING = 0x0C, 0x13, 0x16
_OTHERS = {
    "emailAddress": ("1.2.840.113549.1.9.1", _IA5_STRING),
    "serialNumber": ("2.5.4.5", _PRINTABLE_STRING),
    "dnQualifier": ("2.5.4.46", _PRINTABLE_STRING),
    "surname": ("2.5.4.4", _UTF8_STRING),
    "title": ("2.5.4.12", _UTF8_STRING),
    "businessCategory": ("2.5.4.15", _UTF8_STRING),
    "postalCode": ("2.5.4.17", _UTF8_STRING),
    "givenName": ("2.5.4.42", _UTF8_STRING),
    "pseudonym": ("2.5.4.65", _UTF8_STRING),
}
"""Number and usual ASN.1 type of attributes without a keyword."""


def distinguished_name(certificate: dict[str, object]) -> str:
    """The subject of a certificate as RFC 2253 writes it, the last part first: CN=alice,OU=people,O=example."""
    subject: tuple[tuple[tuple[str, str], ...], ...] = certificate.get("subject", ())  # type: ignore[assignment]
    return ",".join("+".join(_attribute(name, value) for name, value in part) for part in reversed(subject))


def _attribute(name: str, value: str) -> str:
    keyword = _KEYWORDS.get(name)
    if keyword is not None:
        return f"{keyword}={_escaped(value)}"
    number, kind = _OTHERS.get(name, (name, _UTF8_STRING))
    encoded = value.encode()
    return f"{number}=#{bytes((kind, len(encoded))).hex()}{encoded.hex()}"


def _escaped(value: str) -> str:
    value = re.sub(r'([,+"\\<>;])', r"\\\1", value)
    if value.startswith(("#", " ")):
        value = f"\\{value}"
    return f"{value[:-1]}\\ " if value.endswith(" ") and len(value) > 1 else value


_RULE = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:[,\n]\s*|$)")


class MappingRules:
    """`ssl.principal.mapping.rules`: from a distinguished name to a user's name, by the first rule that matches it
    whole (KIP-371)."""

    def __init__(self, text: str) -> None:
        """Raises ValueError."""
        self._rules: list[tuple[re.Pattern[str], str, str] | None] = []
        """Pattern, replacement and case; None for DEFAULT."""
        position = 0
        text = text.strip() or "DEFAULT"
        while position < len(text):
            found = _RULE.match(text, position)
            if found is None:
                raise ValueError(f"{shorten(text[position:])} is neither DEFAULT nor RULE:pattern/replacement/[LU]")
            position = found.end()
            if found[1]:
                self._rules.append(None)
                continue
            try:
                pattern = re.compile(found[2])
            except re.error as error:
                raise ValueError(f"{shorten(found[2])} is no regular expression: {error}") from None
            self._rules.append((pattern, re.sub(r"\$(\d)", r"\\\1", found[3]), found[4]))

    def name_of(self, name: str) -> str:
        """The user's name; the distinguished name itself where no rule matches."""
        for rule in self._rules:
            if rule is None:
                return name
            pattern, replacement, case = rule
            found = pattern.fullmatch(name)
            if found is not None:
                mapped = found.expand(replacement)
                return mapped.lower() if case == "L" else mapped.upper() if case == "U" else mapped
        return name
