"""`--command-config FILE`: client settings as Kafka's tools take them. Only those about security are used.

security.protocol=SASL_SSL sasl.mechanism=SCRAM-SHA-256
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="…";
ssl.truststore.type=PEM ssl.truststore.location=authority.pem
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import click

from kmini.cli.option_values import read_properties

if TYPE_CHECKING:
    import ssl

    from kmini.client import Sasl

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class Security(NamedTuple):
    """The credentials of the client and the TLS of its connections."""

    sasl: Sasl | None = None
    """Its credentials; None without SASL."""
    tls: ssl.SSLContext | None = None
    """With the certificates that it trusts and its own; None without TLS."""


def read_command_config(path: str) -> dict[str, str]:
    """Read the settings in a file. UsageError for a protocol that there is not."""
    settings = read_properties(path)
    protocol = settings.get("security.protocol", "PLAINTEXT")
    if protocol.upper() not in PROTOCOLS:
        raise click.UsageError(f"{path}: security.protocol={protocol} is none of {', '.join(PROTOCOLS)}")
    return settings


def security_of(path: str, settings: Mapping[str, str]) -> Security:
    """Make credentials and TLS from the settings. UsageError names the wrong setting and quotes no secret."""
    protocol = settings.get("security.protocol", "PLAINTEXT").upper()
    return Security(_sasl_of(path, settings) if protocol.startswith("SASL_") else None, tls_of(path, settings))


def tls_of(path: str, settings: Mapping[str, str]) -> ssl.SSLContext | None:
    """Make TLS from the settings; None without. UsageError names the wrong setting and quotes no secret."""
    if not settings.get("security.protocol", "PLAINTEXT").upper().endswith("SSL"):
        return None
    from kmini.client.key_stores import client_context

    try:
        return client_context(settings)
    except ValueError as error:
        raise click.UsageError(f"{path}: {error}") from None


def _sasl_of(path: str, settings: Mapping[str, str]) -> Sasl:
    from kmini.client import Sasl
    from kmini.client.sasl import MECHANISMS, bearer_sasl
    from kmini.protocol.jaas import OAUTHBEARER, parse_jaas

    mechanism = settings.get("sasl.mechanism", "").strip().upper()
    if mechanism not in MECHANISMS:
        raise click.UsageError(f"{path}: sasl.mechanism={mechanism}: one of {', '.join(MECHANISMS)} was expected")
    try:
        jaas = settings.get("sasl.jaas.config", "")
        options = parse_jaas(jaas).options if jaas or mechanism != OAUTHBEARER else {}
    except ValueError as error:
        raise click.UsageError(f"{path}: sasl.jaas.config {error}") from None
    if mechanism == OAUTHBEARER:
        try:
            return bearer_sasl(settings, options)
        except ValueError as error:
            raise click.UsageError(f"{path}: {error}") from None
    if not options.get("username") or not options.get("password"):
        raise click.UsageError(f'{path}: sasl.jaas.config needs username="…" and password="…"')
    return Sasl(mechanism, options["username"], options["password"])
