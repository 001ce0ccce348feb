"""TLS at a listener by Kafka's settings, and the principal that a client's certificate names.

`client/key_stores.py` reads the keys and certificates.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, NamedTuple

from ...client.key_stores import Find, load_keys, load_trusted
from ...storage.config_key import shorten, split_list
from ..network.peer_log import PeerLog
from .resources import ANONYMOUS, Principal

log = logging.getLogger("kmini.broker")
peer_log = PeerLog(logging.getLogger("kmini.connection"))

VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}

LOOK_S = 1.0
"""Seconds between two looks whether the files of stores have changed."""


class TlsSettings(NamedTuple):
    """How the clients of one listener are served over TLS."""

    context: ListenerContext
    rules: MappingRules
    files: tuple[str, ...]
    """The stores that are files."""

    def principal_of(self, certificate: dict[str, object] | None) -> Principal:
        """The principal of a client with this certificate, as `SSLObject.getpeercert` tells it."""
        if not certificate:
            return ANONYMOUS
        return Principal.user(self.rules.name_of(distinguished_name(certificate)))


class Verdict(NamedTuple):
    """What a fault rule does to a handshake; without silence and certificate it is refused."""

    rule: str
    is_silent: bool
    context: ssl.SSLContext | None
    """With the certificate that is shown instead."""


def untrusted_context(host: str) -> ssl.SSLContext:
    """A certificate for this host and loopback, of an authority that no client trusts. Raises ImportError."""
    from ...client.made_certificates import Authority

    signed = Authority().sign("kmini, by a fault rule", ["localhost", "127.0.0.1", "::1", host])

    def find(name: str) -> tuple[str, str]:
        inline = {"ssl.keystore.key": signed.key, "ssl.keystore.certificate.chain": signed.certificate}
        return name, inline.get(name, "")

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_keys(context, find)
    return context


class ListenerContext(ssl.SSLContext):
    """The context with which a listener accepts."""

    listener: ListenerTls | None = None

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *rest: Any, **more: Any) -> ssl.SSLObject:
        secured = super().wrap_bio(incoming, outgoing, *rest, **more)
        if isinstance(secured, ToldHandshake):
            secured.accepted, secured.outgoing = ACCEPTED.get(None), outgoing
        return secured


class ListenerTls:
    """The TLS of a listener, whose stores may be replaced while it accepts: handshakes that begin afterwards use the
    new ones, and connections stay. A store's file that has changed is noticed at the next handshake."""

    def __init__(self, listener: str, make: Callable[[], TlsSettings]) -> None:
        """`make` makes the settings as they are now. Raises ValueError as that does."""
        self._listener = listener
        self._make = make
        self.gate: Callable[[], Verdict | None] = lambda: None
        """Asked about each handshake, for a fault that a test asks for (`broker/faults/active_rules.py`)."""
        self._current = make()
        self._states = _states_of(self._current.files)
        self._next_look_s = time.monotonic() + LOOK_S
        self.context = self._current.context
        """For the server, which keeps it."""
        self.context.listener = self
        self.context.sni_callback = self._begin

    def principal_of(self, certificate: dict[str, object] | None) -> Principal:
        """See TlsSettings."""
        return self._current.principal_of(certificate)

    def renew(self) -> None:
        """Use the settings as they are now; where these cannot be used, go on with those before, and say why."""
        try:
            self._current = self._make()
        except ValueError as error:
            log.warning("the listener %s goes on with the TLS that it had: %s", self._listener, error)
        else:
            log.info("the listener %s has read its stores for TLS again", self._listener)
        self._states = _states_of(self._current.files)

    def _begin(self, secured: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        """Called by OpenSSL when a client has said hello, whether or not it names a host."""
        verdict = secured.verdict if isinstance(secured, ToldHandshake) else None
        if verdict is not None and verdict.context is not None:
            secured.context = verdict.context
            return
        now_s = time.monotonic()
        if self._current.files and now_s >= self._next_look_s:
            self._next_look_s = now_s + LOOK_S
            if _states_of(self._current.files) != self._states:
                self.renew()
        if self._current.context is not context:
            secured.context = self._current.context


def _states_of(files: Iterable[str]) -> list[tuple[int, int] | None]:
    """Time of change and size of each file; None for one that is not there."""
    states: list[tuple[int, int] | None] = []
    for path in files:
        try:
            found = os.stat(path)
        except OSError:
            states.append(None)
        else:
            states.append((found.st_mtime_ns, found.st_size))
    return states


def tls_settings(find: Find) -> TlsSettings:
    """The TLS settings of a listener. Raises ValueError, which names the setting and quotes no secret."""
    context = ListenerContext(ssl.PROTOCOL_TLS_SERVER)
    context.sslobject_class = ToldHandshake
    context.options |= ssl.OP_NO_RENEGOTIATION  # Apache Kafka allows none; OpenSSL before 3 would
    _set_versions(context, find)
    _set_ciphers(context, find)
    load_keys(context, find)
    name, text = find("ssl.client.auth")
    if text.lower() not in CLIENT_AUTH:
        raise ValueError(f"{name}={shorten(text)}: must be none, requested or required")
    context.verify_mode = CLIENT_AUTH[text.lower()]
    if context.verify_mode is not ssl.CERT_NONE:
        load_trusted(context, find, ssl.Purpose.CLIENT_AUTH)
    name, text = find("ssl.principal.mapping.rules")
    locations = [find("ssl.keystore.location")[1], find("ssl.truststore.location")[1]]
    try:
        return TlsSettings(context, MappingRules(text), tuple(filter(None, locations)))
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


ACCEPTED: ContextVar[socket.socket] = ContextVar("ACCEPTED")
"""The socket of the connection whose handshake a task does."""


class ToldHandshake(ssl.SSLObject):
    """The TLS of one connection. asyncio ends a connection whose handshake fails without a word; this says why, in the
    log and by TLS's alert to the client."""

    is_begun = False
    verdict: Verdict | None = None
    accepted: socket.socket | None = None
    outgoing: ssl.MemoryBIO | None = None
    """What is to be sent, where OpenSSL leaves the alert."""

    def do_handshake(self) -> None:
        if not self.is_begun:
            self.is_begun = True
            listener = getattr(self.context, "listener", None)
            self.verdict = None if listener is None else listener.gate()
        if self.verdict is not None and self.verdict.context is None:
            if self.verdict.is_silent:
                raise ssl.SSLWantReadError
            peer_log.warning("closed a connection: %s", self.verdict.rule)
            raise ssl.SSLError(self.verdict.rule)
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            told = f"the TLS handshake failed: {str(error.reason or error).lower().replace('_', ' ')}"
            peer_log.warning("closed a connection: %s", _REASONS.get(str(error.reason), told))
            if self.accepted is not None and self.outgoing is not None:
                with suppress(OSError):  # the client has gone, or takes nothing
                    self.accepted.send(self.outgoing.read())
            raise


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
