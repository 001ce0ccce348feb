"""`--command-config FILE`: client settings as Kafka's tools take them. Only the settings about authentication are used.

security.protocol=SASL_PLAINTEXT sasl.mechanism=SCRAM-SHA-256
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="…";
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from kmini.cli.option_values import read_properties

if TYPE_CHECKING:
    from kmini.client import Sasl

PROTOCOLS = ("PLAINTEXT", "SASL_PLAINTEXT")


def read_command_config(path: str) -> dict[str, str]:
    """Read the settings in a file. UsageError for a protocol that is not supported."""
    settings = read_properties(path)
    protocol = settings.get("security.protocol", "PLAINTEXT")
    if protocol.upper() not in PROTOCOLS:
        raise click.UsageError(f"{path}: security.protocol={protocol} is not offered yet, only {', '.join(PROTOCOLS)}")
    return settings


def sasl_of(path: str, settings: Mapping[str, str]) -> Sasl | None:
    """Make the credentials from the settings; None without authentication. UsageError names the wrong setting and
    quotes no secret."""
    if settings.get("security.protocol", "PLAINTEXT").upper() != "SASL_PLAINTEXT":
        return None
    from kmini.client import Sasl
    from kmini.client.sasl import MECHANISMS
    from kmini.protocol.jaas import parse_jaas

    mechanism = settings.get("sasl.mechanism", "").strip().upper()
    if mechanism not in MECHANISMS:
        raise click.UsageError(f"{path}: sasl.mechanism={mechanism}: one of {', '.join(MECHANISMS)} was expected")
    try:
        options = parse_jaas(settings.get("sasl.jaas.config", "")).options
    except ValueError as error:
        raise click.UsageError(f"{path}: sasl.jaas.config {error}") from None
    if not options.get("username") or not options.get("password"):
        raise click.UsageError(f'{path}: sasl.jaas.config needs username="…" and password="…"')
    return Sasl(mechanism, options["username"], options["password"])
