"""`kmini client-config`: the settings of a client in the words of its library."""

from __future__ import annotations

import click

from kmini.cli.broker_call import address_option
from kmini.cli.command_config import read_command_config
from kmini.client.client_config import SETTINGS, TEXTS, Access, as_python

MADE = "such as the files that kmini serve --tls and --user write"


@click.command(name="client-config")
@click.argument("kind", metavar="CLIENT", type=click.Choice(sorted([*SETTINGS, *TEXTS])))
@address_option
@click.option("--command-config", "path", metavar="FILE", help=f"A properties file, {MADE}.")
def client_config(kind: str, bootstrap_server: str, path: str | None) -> None:
    """Print the settings with which a client comes to a broker.

    CLIENT is aiokafka, kafka-python (Python), confluent-kafka, librdkafka, java, spark (settings by name), kcat
    (options), franz-go or sarama (Go). What the file says of TLS and SASL is said in the words of that client.

    \b
    kmini client-config kcat -b localhost:9092 --command-config .kmini-data/security/alice.properties
    """
    access = Access(bootstrap_server) if path is None else _access_of(bootstrap_server, path)
    if kind in ("aiokafka", "kafka-python"):
        click.echo(as_python(access, kind), nl=False)
        return
    if kind in TEXTS:
        click.echo(TEXTS[kind](access).rstrip("\n"))
        return
    for name, text in SETTINGS[kind](access).items():
        click.echo(f"{name}={text}")


def _access_of(bootstrap_server: str, path: str) -> Access:
    """What a properties file says. UsageError for stores that are not PEM, which most clients do not read."""
    from kmini.cli.command_config import security_of

    settings = read_command_config(path)
    sasl, tls = security_of(path, settings)
    for kind in ("truststore", "keystore"):
        name = f"ssl.{kind}.type"
        if tls is not None and settings.get(f"ssl.{kind}.location") and settings.get(name, "JKS").upper() != "PEM":
            raise click.UsageError(f"{path}: {name} has to be PEM, which all clients read")
    access = Access(bootstrap_server, settings.get("security.protocol", "PLAINTEXT").upper())
    if tls is not None:
        access = access._replace(
            authority=settings.get("ssl.truststore.location", ""), certificate=settings.get("ssl.keystore.location", "")
        )
    if sasl is not None:
        access = access.logging_in(sasl)
    return access
