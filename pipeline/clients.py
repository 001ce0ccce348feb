"""The address of a cluster and the settings of its clients, written once for Spark's Java clients and librdkafka."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..protocol.jaas import parse_jaas, token_source

BOOTSTRAP_VARIABLE = "KAFKA_BOOTSTRAP_SERVERS"
DEFAULT_SERVERS = "127.0.0.1:9092"

SAME_NAMES = frozenset({"security.protocol", "sasl.mechanism", "client.id", "request.timeout.ms", "ssl.key.password"})
"""Settings with the same name in Java's clients and in librdkafka. (librdkafka's admin client needs
`request.timeout.ms` as `socket.timeout.ms`.)"""

PEM = {
    "ssl.truststore.location": "ssl.ca.location",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}
"""Names of TLS settings in Java's clients, for stores of type PEM, and in librdkafka."""

OF_THE_REGISTRY = ("schema.registry.", "basic.auth.")
"""Prefixes of settings for the schema registry, of which Kafka's clients know nothing."""

PASSWORD_MODULES = ("PlainLoginModule", "ScramLoginModule")
"""Login modules with a user and a password. A shaded Kafka client has them in another package."""


class SettingsError(Exception):
    """The admin client cannot take these settings; the message quotes no secret."""


@dataclass(frozen=True)
class Kafka:
    """A cluster and the settings of its clients.

    An empty `bootstrap_servers` is taken from the environment (KAFKA_BOOTSTRAP_SERVERS) or from the command line.
    """

    bootstrap_servers: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of the clients, by the names of Java's clients: security.protocol, sasl.jaas.config, ... Also those of
    the schema registry, by the names of Confluent's serializers: schema.registry.url, basic.auth.user.info."""
    admin_settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Settings of the admin client only, by librdkafka's names, that cannot be derived from `settings`."""

    def __repr__(self) -> str:
        return f"Kafka({self.servers!r})"

    @property
    def servers(self) -> str:
        """HOST:PORT,...: `bootstrap_servers`, else the environment's, else this machine's."""
        return self.bootstrap_servers or os.environ.get(BOOTSTRAP_VARIABLE, "") or DEFAULT_SERVERS

    def spark_options(self) -> dict[str, str]:
        """The settings as options of Spark's Kafka source and sink."""
        ours = {key: value for key, value in self.settings.items() if not key.startswith(OF_THE_REGISTRY)}
        prefixed = {f"kafka.{key}": value for key, value in ours.items()}
        return prefixed | {"kafka.bootstrap.servers": self.servers}

    def admin_config(self) -> dict[str, str]:
        """The settings as librdkafka takes them. Raises `SettingsError` for a setting that it cannot take."""
        config = {key: value for key, value in self.settings.items() if key in SAME_NAMES}
        if timeout_ms := config.pop("request.timeout.ms", None):
            config["socket.timeout.ms"] = timeout_ms
        config |= self._sasl() | self._ssl() | dict(self.admin_settings)
        return config | {"bootstrap.servers": self.servers}

    def _sasl(self) -> dict[str, str]:
        jaas = self.settings.get("sasl.jaas.config")
        if not jaas or "sasl.username" in self.admin_settings:
            return {}
        try:
            module = parse_jaas(jaas)
        except ValueError as error:
            raise SettingsError(f"sasl.jaas.config {error}") from None
        if module.name.endswith("OAuthBearerLoginModule") and (oidc := self._oidc(module.options)):
            return oidc
        options = module.options if module.name.rpartition(".")[2] in PASSWORD_MODULES else {}
        if not options.get("username") or "password" not in options:
            raise SettingsError(
                "sasl.jaas.config names no user and password of PLAIN or SCRAM, and no token that can be had: "
                "Kafka(admin_settings=...) gives the admin client its user"
            )
        return {"sasl.username": options["username"], "sasl.password": options["password"]}

    def _oidc(self, options: Mapping[str, str]) -> dict[str, str]:
        """How the admin client gets its tokens: from the same endpoint; nothing where that is not said."""
        source = token_source(self.settings, options)
        if not (source.endpoint and source.client_id and source.client_secret):
            return {}
        config = {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": source.endpoint,
            "sasl.oauthbearer.client.id": source.client_id,
            "sasl.oauthbearer.client.secret": source.client_secret,
        }
        return config | ({"sasl.oauthbearer.scope": source.scope} if source.scope else {})

    def _ssl(self) -> dict[str, str]:
        """The TLS settings. A PEM keystore file holds the key and the certificates."""
        derived = {theirs: self.settings[ours] for ours, theirs in PEM.items() if ours in self.settings}
        if keystore := self.settings.get("ssl.keystore.location"):
            derived |= {"ssl.certificate.location": keystore, "ssl.key.location": keystore}
        for store, given in (("ssl.truststore", "ssl.ca.location"), ("ssl.keystore", "ssl.certificate.location")):
            kind = self.settings.get(f"{store}.type", "JKS").upper()
            if f"{store}.location" in self.settings and kind != "PEM" and given not in self.admin_settings:
                raise SettingsError(
                    f"{store} is {kind}, which the admin client cannot read: PEM, or Kafka(admin_settings=...)"
                )
        return derived
