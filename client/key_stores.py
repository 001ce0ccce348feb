"""Key stores and trust stores by Kafka's settings, for clients and for brokers (`ssl.keystore.*`, `ssl.truststore.*`).

A store is PEM or PKCS12, in a file or, as PEM, in the setting itself. Java's own format (JKS) has to be converted. Keys
reach OpenSSL by a file in memory that has no name, or where the system has none, by one that only this user can read
and that is removed at once.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

Find = Callable[[str], tuple[str, str]]
"""Gives the name by which a setting was found, and its text; an empty text if it is not set."""

JKS_MAGIC = bytes.fromhex("feedfeed")
PKCS12_BEGINS = b"\x30"
NEEDS_CRYPTOGRAPHY = "PKCS12 needs the package cryptography, as pip install '.[tls]' in a clone brings it"
CHECKS_NAMES = "ssl.endpoint.identification.algorithm"


def client_context(settings: Mapping[str, str]) -> ssl.SSLContext:
    """The TLS of a client with these settings, by the names of Java's clients. Raises ValueError, which names the
    setting and quotes no secret."""

    def find(name: str) -> tuple[str, str]:
        return name, settings.get(name, "JKS" if name.endswith("store.type") else "")

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.get(CHECKS_NAMES, "https") != ""
    load_trusted(context, find, ssl.Purpose.SERVER_AUTH)
    if settings.get("ssl.keystore.location") or settings.get("ssl.keystore.key"):
        load_keys(context, find)
    return context


class Store(NamedTuple):
    """A key store or a trust store, as PEM."""

    key: bytes
    """The private key; empty in a trust store."""
    certificates: bytes
    password: str
    """That of the private key; empty for a plain one."""


def load_keys(context: ssl.SSLContext, find: Find) -> None:
    """Load the private key and its certificates. Raises ValueError."""
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
            raise ValueError(f"{name}={location}: it has no private key")
    try:
        with _file_of(store.key + b"\n" + store.certificates) as path:
            context.load_cert_chain(path, password=store.password or _no_password)
    except (ssl.SSLError, ValueError) as error:
        is_encrypted = b"ENCRYPTED" in store.key and isinstance(error, ssl.SSLError)
        told = "the password of the private key is another one" if is_encrypted else _why(error)
        raise ValueError(f"{name}: {told}") from None


def _no_password() -> str:
    """Asked for where a key is encrypted and no password is set: OpenSSL would ask at the terminal."""
    raise ValueError("the private key has a password, and ssl.key.password is not set")


def load_trusted(context: ssl.SSLContext, find: Find, purpose: ssl.Purpose) -> None:
    """Load the certificates that those of peers are checked against; without a store, those of the system for this
    purpose. Raises ValueError."""
    name, certificates = find("ssl.truststore.certificates")
    if not certificates:
        name, location = find("ssl.truststore.location")
        if not location:
            context.load_default_certs(purpose)
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
        raise ValueError(f"{type_name}={type_}: must be PEM, PKCS12 or JKS")
    try:
        with open(location, "rb") as file:
            data = file.read()
    except OSError as error:
        raise ValueError(f"{name}={location}: {error.strerror}") from None
    password = find(f"ssl.{kind}.password")[1]
    if data.startswith(JKS_MAGIC):
        converted = f"{location.removesuffix('.jks')}.p12"
        raise ValueError(
            f"{name}={location}: it has Java's own format, and kmini reads PKCS12 and PEM: keytool "
            f"-importkeystore -srckeystore {location} -destkeystore {converted} -deststoretype PKCS12"
        )
    if data.startswith(PKCS12_BEGINS):
        return _read_pkcs12(data, password, f"{name}={location}")
    if type_.upper() != "PEM":
        raise ValueError(f"{name}={location}: it is no PKCS12; if it is PEM, {type_name}=PEM says so")
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
def _file_of(secret: bytes) -> Iterator[str]:
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
