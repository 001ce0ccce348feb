"""JAAS configurations: the syntax in which Kafka's settings give users and passwords.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="us" password="ours" user_alice="hers";

A configuration holds passwords, so no error message quotes any part of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
"""The mechanisms beside those of SCRAM, which `scram.MECHANISMS` has."""

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer"
OAUTH_MODULE = f"{OAUTH}.OAuthBearerLoginModule"

_FLAGS = ("required", "requisite", "sufficient", "optional")
_TOKEN = r"""(?s)\s*(?://[^\n]*\n\s*|/\*.*?\*/\s*)*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"'=;]+)|([=;])|$)"""


class LoginModule(NamedTuple):
    """One login module: the name of its class, and its options."""

    name: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"<{self.name}>"


def parse_jaas(text: str) -> LoginModule:
    """Parse a configuration with one login module. Raises ValueError, whose message never quotes `text`."""
    tokens = _tokens(text)
    words = [word for word, _ in tokens]
    if len(words) < 3 or words[1].lower() not in _FLAGS or tokens[-1] != (";", True):
        raise ValueError('must be of the form CLASS required key="value" …;')
    options: dict[str, str] = {}
    rest = tokens[2:-1]
    while rest:
        if len(rest) < 3 or rest[0][1] or rest[1] != ("=", True) or rest[2][1]:
            raise ValueError('must hold one login module, with options of the form key="value"')
        options[rest[0][0]] = rest[2][0]
        rest = rest[3:]
    return LoginModule(words[0], options)


class TokenSource(NamedTuple):
    """Where a client of OAUTHBEARER gets its tokens; empty where the settings do not say it."""

    endpoint: str
    client_id: str
    client_secret: str
    scope: str

    def __repr__(self) -> str:
        return f"<{self.endpoint}>"


def token_source(settings: Mapping[str, str], options: Mapping[str, str]) -> TokenSource:
    """What settings by the names of Java's clients say (KIP-1139), or the older `options` of the login module."""
    prefix = "sasl.oauthbearer.client.credentials.client"
    return TokenSource(
        settings.get("sasl.oauthbearer.token.endpoint.url", ""),
        settings.get(f"{prefix}.id") or options.get("clientId", ""),
        settings.get(f"{prefix}.secret") or options.get("clientSecret", ""),
        settings.get("sasl.oauthbearer.scope") or options.get("scope", ""),
    )


def quoted(value: str) -> str:
    """The value of an option, in quotes."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _tokens(text: str) -> list[tuple[str, bool]]:
    """Split into words and values, each with False, and the signs `=` and `;`, each with True."""
    tokens: list[tuple[str, bool]] = []
    position = 0
    text = text.strip()
    token = re.compile(_TOKEN)
    while position < len(text):
        match = token.match(text, position)
        if match is None:
            raise ValueError("must not have a quote that is not closed")
        position = match.end()
        double, single, word, sign = match.groups()
        value = single if double is None else double
        if value is not None:
            tokens.append((re.sub(r"\\(.)", r"\1", value, flags=re.DOTALL), False))
        elif word is not None:
            tokens.append((word, False))
        elif sign is not None:
            tokens.append((sign, True))
    return tokens
